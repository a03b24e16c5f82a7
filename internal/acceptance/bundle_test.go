package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/compare"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bundleConfig is a bundle with arguments and a kubeconfig from it, with a seal (the provider's
// arguments).
func bundleConfig(seal, arguments string) string {
	return fmt.Sprintf(`
provider "kube" {
  %s
}

resource "kube_pki_bundle" "this" {
  deletion_protection = false
  cluster_name = "bundle"
  %s
}

resource "kube_kubeconfig" "this" {
  pki    = kube_pki_bundle.this.bundle
  server = "https://192.0.2.100:6443"
}
`, seal, arguments)
}

const (
	bundleAddress     = "kube_pki_bundle.this"
	kubeconfigAddress = "kube_kubeconfig.this"
)

// updated expects an in-place update of the two resources, and no other change.
func updated() resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
		plancheck.ExpectResourceAction(bundleAddress, plancheck.ResourceActionUpdate),
		plancheck.ExpectResourceAction(kubeconfigAddress, plancheck.ResourceActionUpdate),
	}}
}

func stage(part, fragments string) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(bundleAddress, tfjsonpath.New("stages").AtMapKey(part),
		knownvalue.StringExact(fragments))
}

// TestBundleRotation checks that every stage is an in-place update of only the values that it
// changes, and that the plan rejects a skipped stage, another authority and a start in the
// middle of a rotation.
func TestBundleRotation(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	rotation := func(numbers string) string { return bundleConfig("", "rotation = { "+numbers+" }") }
	certificate := statecheck.CompareValue(compare.ValuesDiffer())
	keys := statecheck.CompareValue(compare.ValuesDiffer())
	client := statecheck.CompareValue(compare.ValuesSame())
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{Config: rotation("kubernetes = 1"), ExpectError: folded("rotation of kubernetes cannot begin at 1")},
		{Config: bundleConfig("", `encryption = { provider = "aesgcm" }`), ExpectError: folded("aesgcm is not safe here")},
		{
			Config: rotation("etcd = 3"),
			ConfigStateChecks: []statecheck.StateCheck{
				stage("etcd", "steady"), stage("kubernetes", "steady"),
				certificate.AddStateValue(bundleAddress, tfjsonpath.New("ca_certificate")),
				keys.AddStateValue(bundleAddress, tfjsonpath.New("service_account_public_key")),
				client.AddStateValue(kubeconfigAddress, tfjsonpath.New("client_certificate")),
			},
		},
		{Config: rotation("etcd = 5"), ExpectError: folded("rotation of etcd from 3 to 5 skips a stage: apply 4 first")},
		{Config: rotation("etcd = 1"), ExpectError: folded("rotation of etcd from 3 back to 1 skips a stage: apply 2 first")},
		{Config: rotation("etcd = 2"), ExpectError: folded("nothing is left of the previous one")},
		{
			Config:           rotation("etcd = 4, service_account = 1"),
			ConfigPlanChecks: updated(),
			ConfigStateChecks: []statecheck.StateCheck{
				stage("etcd", "the next CA is trusted"), stage("service_account", "the next key is published"),
				keys.AddStateValue(bundleAddress, tfjsonpath.New("service_account_public_key")),
				// Neither part is in a kubeconfig.
				client.AddStateValue(kubeconfigAddress, tfjsonpath.New("client_certificate")),
			},
		},
		{
			Config: rotation("etcd = 4, service_account = 1, kubernetes = 1"),
			ConfigStateChecks: []statecheck.StateCheck{
				certificate.AddStateValue(bundleAddress, tfjsonpath.New("ca_certificate")),
			},
		},
		{
			Config:           rotation("etcd = 5, service_account = 2, kubernetes = 2"),
			ConfigPlanChecks: updated(),
			ConfigStateChecks: []statecheck.StateCheck{
				stage("kubernetes", "the next CA issues, the previous one is trusted"),
				stage("service_account", "the next key signs, the previous one is accepted"),
				issuer("kubernetes-2"),
			},
		},
		{
			Config: rotation("etcd = 6, service_account = 3, kubernetes = 3"),
			ConfigStateChecks: []statecheck.StateCheck{
				stage("kubernetes", "steady"), stage("etcd", "steady"), stage("service_account", "steady"),
				certificate.AddStateValue(bundleAddress, tfjsonpath.New("ca_certificate")),
			},
		},
		{ // back by one stage, using what is left of the previous one
			Config:            rotation("etcd = 6, service_account = 3, kubernetes = 2"),
			ConfigStateChecks: []statecheck.StateCheck{issuer("kubernetes-2")},
		},
		{ // its key is gone: it can be trusted, but not issue certificates
			Config:      rotation("etcd = 6, service_account = 3, kubernetes = 1"),
			ExpectError: folded("the key of the previous one is gone"),
		},
	}})
}

// issuer expects that an authority issued the kubeconfig's client certificate.
func issuer(commonName string) statecheck.StateCheck {
	return statecheck.ExpectKnownValue(kubeconfigAddress, tfjsonpath.New("client_certificate"),
		knownvalue.StringFunc(func(text string) error {
			info, err := pki.Inspect(text)
			if err == nil && info.Issuer != "CN="+commonName {
				err = fmt.Errorf("issued by %s, want CN=%s", info.Issuer, commonName)
			}
			return err
		}))
}

// TestBundleEncryption checks that only a rotation changes the encryption.
func TestBundleEncryption(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	config := func(number int, encryption string) string {
		return bundleConfig("", fmt.Sprintf("rotation = { encryption = %d }\n%s", number, encryption))
	}
	const secretbox, aescbc = `encryption = { provider = "secretbox" }`,
		`encryption = { provider = "aescbc", resources = ["secrets", "configmaps"] }`
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{
			Config:      config(0, `encryption = { provider = "kms" }`),
			ExpectError: folded("provider kms requires the kms attribute"),
		},
		{Config: config(0, "")},
		{
			Config: config(0, secretbox),
			ExpectError: folded("encryption is another one than the cluster has: changing it takes a rotation; raise " +
				"rotation.encryption from 0 to 1"),
		},
		{
			Config:            config(1, secretbox),
			ConfigStateChecks: []statecheck.StateCheck{stage("encryption", "the next key can decrypt")},
		},
		{Config: config(2, aescbc), ExpectError: folded("encryption is not the one whose rotation is under way")},
		{
			Config: config(2, secretbox),
			ConfigStateChecks: []statecheck.StateCheck{
				stage("encryption", "the next key encrypts, the previous one can decrypt"),
			},
		},
		{Config: config(3, secretbox), ConfigStateChecks: []statecheck.StateCheck{stage("encryption", "steady")}},
		{Config: config(4, aescbc)},
	}})
}

// TestBundleSeal checks the errors of a seal that cannot seal or open.
func TestBundleSeal(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	seal := func(arguments string) string { return bundleConfig("seal = { "+arguments+" }", "") }
	first, second := newIdentity(t), newIdentity(t)
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{
			Config:      seal(`identities = []`),
			ExpectError: folded("there is no identity: nothing that is sealed could be opened again"),
		},
		{
			Config:      seal(`identities = ["AGE-SECRET-KEY-nonsense"]`),
			ExpectError: folded("identity 1: it is neither an age identity"),
		},
		{
			Config:      seal(fmt.Sprintf("identities = [%q], recipients = [%q]", first, second.Recipient())),
			ExpectError: folded("none of the identities belongs to one of the recipients"),
		},
	}})
}

// TestBundleBroughtAlong checks authorities and service-account keys that the user supplies,
// write-only or not, and authorities with an external key.
func TestBundleBroughtAlong(t *testing.T) {
	machines(t) // for the CLI, as in TestBadInput
	generated, err := pki.Generate(pki.Options{ClusterName: "theirs", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	others, err := pki.Generate(pki.Options{ClusterName: "others", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	identity := newIdentity(t)
	sealed := fmt.Sprintf("seal = { identities = [%q] }", identity)
	input := func(pair pki.KeyPair, key string) string {
		return fmt.Sprintf("ca = {\ncertificate = %q\n%s = %q\nprivate_key_wo_version = 1\n}\n", pair.Certificate, key,
			pair.PrivateKey)
	}
	external := fmt.Sprintf("etcd_ca = {\ncertificate = %q\nkey_held_elsewhere = true\n}\n", generated.EtcdCA.Certificate)
	own := fmt.Sprintf("service_account = {\nprivate_key_wo = %q\n}\n", generated.ServiceAccount.PrivateKey)
	certificate := func(b *pki.Bundle) statecheck.StateCheck {
		return statecheck.ExpectKnownValue(bundleAddress, tfjsonpath.New("ca_certificate"),
			knownvalue.StringExact(b.CA.Certificate))
	}
	mixed := pki.KeyPair{Certificate: generated.CA.Certificate, PrivateKey: others.CA.PrivateKey}
	runTest(t, resource.TestCase{Steps: []resource.TestStep{
		{
			Config:      bundleConfig("", input(mixed, "private_key_wo")),
			ExpectError: folded("private key does not match the certificate"),
		},
		{
			Config:      bundleConfig("", input(pki.KeyPair{Certificate: generated.CA.Certificate}, "private_key")),
			ExpectError: folded("no private key is set: set private_key_wo or private_key, or key_held_elsewhere = true"),
		},
		{
			Config:      bundleConfig(sealed, input(generated.CA, "private_key")),
			ExpectError: folded("private_key would be stored unencrypted in a sealed state"),
		},
		{
			Config: bundleConfig(sealed, input(generated.CA, "private_key_wo")+external+own),
			ConfigStateChecks: []statecheck.StateCheck{
				certificate(generated), issuer("kubernetes"),
				statecheck.ExpectKnownValue(bundleAddress, tfjsonpath.New("service_account_public_key"),
					knownvalue.StringExact(generated.ServiceAccount.PublicKey)),
			},
		},
		{
			Config: bundleConfig(sealed, input(others.CA, "private_key_wo")+external+own),
			ExpectError: folded("kubernetes is another one than the cluster has: changing it takes a rotation; raise " +
				"rotation.kubernetes from 0 to 1"),
		},
		{
			Config: bundleConfig(sealed, "rotation = { kubernetes = 1 }\n"+
				input(others.CA, "private_key_wo")+external+own),
			ConfigStateChecks: []statecheck.StateCheck{issuer("kubernetes")},
		},
		{
			Config: bundleConfig(sealed, "rotation = { kubernetes = 2 }\n"+input(others.CA, "private_key_wo")+external+own),
		},
		{
			Config: bundleConfig(sealed, "rotation = { kubernetes = 3 }\n"+
				input(others.CA, "private_key_wo")+external+own),
			ConfigStateChecks: []statecheck.StateCheck{certificate(others)},
		},
	}})
}
