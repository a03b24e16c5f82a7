package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const requestsAddress = "kube_certificate_requests.this"

// requestsConfig is a bundle without any authority's key, requests, and resources that use the
// signed certificates, with a seal (the provider's arguments).
func requestsConfig(seal, authorities, arguments, users string) string {
	return fmt.Sprintf(`
provider "kube" {
  %s
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "requests"
  %s
}

resource "kube_certificate_requests" "this" {
  pki = kube_pki_bundle.this.bundle
  %s
}

%s
`, seal, authorities, arguments, users)
}

// signedKubeconfig uses the contents of the signer's file.
func signedKubeconfig(s *signer) string {
	return fmt.Sprintf(`
resource "kube_kubeconfig" "this" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
  user   = "ann"
  groups = ["ops"]
  signed = {
    keys         = kube_certificate_requests.this.keys
    certificates = jsondecode(file(%q))
  }
}
`, s.file)
}

// TestRequests checks that a user's request is signed externally and used in a kubeconfig. The
// plan rejects unusable certificates with a clear error. A renewed certificate replaces the old
// one in place. Neither a different seal nor another request changes existing ones.
func TestRequests(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	s, others := newSigner(t), newSigner(t)
	first, second := newIdentity(t), newIdentity(t)
	const user = `user = { name = "ann", groups = ["ops"] }`
	const member = `etcd_member = { name = "cp1", address = "192.0.2.11" }`
	config := func(seal, arguments, users string) string {
		return requestsConfig(seal, s.authorities(), arguments, users)
	}
	sealed := fmt.Sprintf("seal = { identities = [%q, %q], recipients = [%q] }", first, second, second.Recipient())
	asked := statecheck.CompareValue(compare.ValuesSame())
	same := func() statecheck.StateCheck {
		return asked.AddStateValue(requestsAddress, tfjsonpath.New("requests").AtMapKey("ann"))
	}
	keys := statecheck.CompareValue(compare.ValuesDiffer())
	differ := func() statecheck.StateCheck { return keys.AddStateValue(requestsAddress, tfjsonpath.New("keys")) }
	certificate := statecheck.CompareValue(compare.ValuesDiffer())
	renewed := func() statecheck.StateCheck {
		return certificate.AddStateValue(kubeconfigAddress, tfjsonpath.New("client_certificate"))
	}
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{Config: config("", "", ""), ExpectError: folded("none of etcd_member, replica and user is set")},
		{
			Config: config("", `user = { name = "ann", groups = ["ops"] }
			replica = { name = "cp1", address = "192.0.2.11", endpoint = "192.0.2.100", extra_sans = ["10.0.0.300"] }`, ""),
			ExpectError: folded("looks like an IP address but is none"),
		},
		{
			Config: config("", user, ""), ConfigStateChecks: []statecheck.StateCheck{same(), differ()},
			Check: requested(s.signAll(time.Hour), "ann"),
		},
		{Config: config("", user, signedKubeconfig(s)), ConfigStateChecks: []statecheck.StateCheck{
			same(),
			issuer("kubernetes"), renewed(),
		}},
		{ // as before, signed again
			Config:            config("", user, signedKubeconfig(s)),
			ConfigStateChecks: []statecheck.StateCheck{same()},
			Check:             requested(s.signAll(2*time.Hour), "ann"), ExpectNonEmptyPlan: true,
		},
		{
			Config: config("", user, signedKubeconfig(s)),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(kubeconfigAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectResourceAction(requestsAddress, plancheck.ResourceActionNoop),
			}},
			ConfigStateChecks: []statecheck.StateCheck{same(), renewed()},
		},
		{ // another request changes neither the first one nor its certificate
			Config: config("", user+"\n"+member, signedKubeconfig(s)),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(requestsAddress, plancheck.ResourceActionUpdate),
				plancheck.ExpectUnknownValue(requestsAddress, tfjsonpath.New("requests").AtMapKey("etcd/peer").AtMapKey("request")),
				plancheck.ExpectKnownValue(requestsAddress, tfjsonpath.New("requests").AtMapKey("etcd/peer").AtMapKey("authority"),
					knownvalue.StringExact("etcd")),
			}},
			ConfigStateChecks: []statecheck.StateCheck{same(), differ()},
			Check:             requested(nil, "ann", "etcd/healthcheck-client", "etcd/peer", "etcd/server"),
		},
		{
			Config:            config(sealed, user+"\n"+member, signedKubeconfig(s)),
			ConfigStateChecks: []statecheck.StateCheck{same(), differ()},
			Check:             requestsSealed,
		},
		{
			Config: config(sealed, user, signedKubeconfig(s)), ConfigStateChecks: []statecheck.StateCheck{same(), differ()},
			Check: requested(others.signAll(time.Hour), "ann"),
		},
		{
			Config: config(sealed, user, signedKubeconfig(others)),
			ExpectError: folded(regexp.QuoteMeta(`ann certificate is signed by another authority ("kubernetes") than this ` +
				`cluster's "kubernetes"`)),
		},
		{
			Config: config(sealed, user, strings.ReplaceAll(signedKubeconfig(s), "jsondecode", "{} # jsondecode")),
			ExpectError: folded(regexp.QuoteMeta(`there is no signed certificate for: ann (kubernetes CA)`) + ".*" +
				regexp.QuoteMeta(`sign requests["ann"]`)),
		},
		{
			Config:      config(sealed, `user = { name = "bob" }`, signedKubeconfig(s)),
			ExpectError: folded(`keys contains no key for "ann"; it contains: bob`),
		},
	}})
}

// TestRequestsOfRotation checks that requests are created again when another authority is to
// sign them, and not earlier. Requests for other authorities stay.
func TestRequestsOfRotation(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	s, next := newSigner(t), newSigner(t)
	const arguments = `etcd_member = { name = "cp1", address = "192.0.2.11" }
user = { name = "ann", groups = ["ops"] }`
	stage := func(number int) string {
		of := *s.bundle
		if number > 0 {
			of.EtcdCA = next.bundle.EtcdCA
		}
		authorities := (&signer{bundle: &of}).authorities()
		return requestsConfig("", fmt.Sprintf("rotation = { etcd = %d }\n%s", number, authorities), arguments, "")
	}
	at := func(comparer compare.ValueComparer, name string) func() statecheck.StateCheck {
		values := statecheck.CompareValue(comparer)
		return func() statecheck.StateCheck {
			return values.AddStateValue(requestsAddress, tfjsonpath.New("requests").AtMapKey(name).AtMapKey("request"))
		}
	}
	user, before, after := at(compare.ValuesSame(), "ann"), at(compare.ValuesSame(), "etcd/server"),
		at(compare.ValuesDiffer(), "etcd/server")
	signer := func(s *signer) statecheck.StateCheck {
		info, err := pki.Inspect(s.bundle.EtcdCA.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		return statecheck.ExpectKnownValue(requestsAddress,
			tfjsonpath.New("requests").AtMapKey("etcd/server").AtMapKey("signer"), knownvalue.StringExact(info.SHA256))
	}
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{Config: stage(0), ConfigStateChecks: []statecheck.StateCheck{user(), before(), signer(s)}},
		{Config: stage(1), ConfigStateChecks: []statecheck.StateCheck{user(), before(), after(), signer(s)}},
		{Config: stage(2), ConfigStateChecks: []statecheck.StateCheck{user(), after(), signer(next)}},
		{Config: stage(3), ConfigStateChecks: []statecheck.StateCheck{user(), signer(next)}},
	}})
}

// signAll signs every request of the state.
func (s *signer) signAll(life time.Duration) func(map[string]request) error {
	return func(requests map[string]request) error { return s.sign(requests, life) }
}

// requested expects requests of these names, and calls then with them.
func requested(then func(map[string]request) error, names ...string) resource.TestCheckFunc {
	return func(state *terraform.State) error {
		requests := requestsOf(state.RootModule().Resources[requestsAddress].Primary.Attributes)
		if got := slices.Sorted(maps.Keys(requests)); !slices.Equal(got, names) {
			return fmt.Errorf("requested are %q, want %q", got, names)
		}
		if then == nil {
			return nil
		}
		return then(requests)
	}
}

// requestsOf reads the attribute from the flat form of a state.
func requestsOf(attributes map[string]string) map[string]request {
	requests := map[string]request{}
	for key, text := range attributes {
		name, ok := strings.CutSuffix(strings.TrimPrefix(key, "requests."), ".request")
		if !ok {
			continue
		}
		r := request{Request: text, Authority: attributes["requests."+name+".authority"]}
		for i := 0; attributes[fmt.Sprintf("requests.%s.usages.%d", name, i)] != ""; i++ {
			r.Usages = append(r.Usages, attributes[fmt.Sprintf("requests.%s.usages.%d", name, i)])
		}
		requests[name] = r
	}
	return requests
}

// requestsSealed expects that no private key can be read.
func requestsSealed(state *terraform.State) error {
	text := state.RootModule().Resources[requestsAddress].Primary.Attributes["keys"]
	var keys map[string]string
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return err
	}
	if len(keys) != 4 || strings.Contains(text, "PRIVATE KEY") || strings.Count(text, "BEGIN AGE ENCRYPTED FILE") != 4 {
		return fmt.Errorf("%d keys, %d of them sealed", len(keys), strings.Count(text, "BEGIN AGE ENCRYPTED FILE"))
	}
	return nil
}
