package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

var signedTypes = map[string]attr.Type{
	"keys":         types.StringType,
	"certificates": types.MapType{ElemType: types.StringType},
}

// signedValue returns the attribute for pairs. A certificate "?" is unknown.
func signedValue(t *testing.T, pairs map[string]pki.KeyPair) types.Object {
	t.Helper()
	keys, certificates := map[string]string{}, map[string]attr.Value{}
	for name, pair := range pairs {
		keys[name], certificates[name] = pair.PrivateKey, types.StringValue(pair.Certificate)
		if pair.Certificate == "?" {
			certificates[name] = types.StringUnknown()
		}
	}
	text, err := closeKeys(keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return types.ObjectValueMust(signedTypes, map[string]attr.Value{
		"keys": types.StringValue(text), "certificates": types.MapValueMust(types.StringType, certificates),
	})
}

// signElsewhere returns what a signer with the keys of a bundle signs for leaves.
func signElsewhere(t *testing.T, here *pki.Bundle, leaves []pki.Leaf) map[string]pki.KeyPair {
	t.Helper()
	pairs := map[string]pki.KeyPair{}
	for _, leaf := range leaves {
		pair, err := here.Issue(leaf, time.Now(), 0)
		if err != nil {
			t.Fatal(err)
		}
		pairs[leaf.Name] = pair
	}
	return pairs
}

// text returns all diagnostics as text.
func text(diags diag.Diagnostics) string {
	var all strings.Builder
	for _, d := range diags {
		all.WriteString(d.Summary() + "\n" + d.Detail() + "\n")
	}
	return all.String()
}

func TestCheckSigned(t *testing.T) {
	here, _ := bundles(t)
	leaves := machine.Leaves("cp1", "10.0.0.11")
	right := signElsewhere(t, here, leaves)
	others := signElsewhere(t, here, machine.Leaves("cp2", "10.0.0.12"))
	with := func(name string, pair pki.KeyPair) types.Object {
		pairs := maps.Clone(right)
		pairs[name] = pair
		return signedValue(t, pairs)
	}
	without := maps.Clone(right)
	delete(without, "etcd/server")
	delete(without, "etcd/peer")
	unknownKeys := types.ObjectValueMust(signedTypes, map[string]attr.Value{
		"keys": types.StringUnknown(), "certificates": types.MapUnknown(types.StringType),
	})
	for name, test := range map[string]struct {
		value  types.Object
		errors int
		words  []string
	}{
		"right":          {signedValue(t, right), 0, nil},
		"unknown":        {types.ObjectUnknown(signedTypes), 0, nil},
		"unknown within": {unknownKeys, 0, nil},
		"one unknown": {
			with("etcd/server", pki.KeyPair{Certificate: "?", PrivateKey: right["etcd/server"].PrivateKey}),
			0, nil,
		},
		"one more": {with("kubernetes-admin", right["etcd/peer"]), 0, nil},
		"none": {types.ObjectNull(signedTypes), 1, []string{
			"Signed certificates are missing",
			`if a signer has the key, sign requests["etcd/server"], requests["etcd/peer"], requests["etcd/healthcheck-client"]`,
			"If nobody has it, rotate the CA (rotation.etcd)",
		}},
		"two are missing": {signedValue(t, without), 1, []string{"etcd/server (etcd CA), etcd/peer (etcd CA)\n"}},
		"another member's": {with("etcd/server", others["etcd/server"]), 1, []string{
			"Signed certificate cannot be used",
			`is for "cp2" instead of "cp1"`, `sign requests["etcd/server"] again with the etcd CA`,
			"for server auth and client auth",
		}},
		"of another key": {with("etcd/server", pki.KeyPair{
			Certificate: right["etcd/server"].Certificate,
			PrivateKey:  right["etcd/peer"].PrivateKey,
		}), 1, []string{"is not for the key of its request"}},
		"another authority": {
			with("etcd/server",
				signElsewhere(t, here, []pki.Leaf{pki.FrontProxyClient()})["front-proxy-client"]), 1,
			[]string{"is signed by another authority"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, bundle := bundles(t)
			var diags diag.Diagnostics
			s := &session{sealKnown: true}
			s.checkSigned(t.Context(), bundle, test.value, leaves, types.StringNull(), time.Now(), &diags)
			output := text(diags)
			if diags.ErrorsCount() != test.errors {
				t.Errorf("%d errors, want %d:\n%s", diags.ErrorsCount(), test.errors, output)
			}
			for _, words := range test.words {
				if !strings.Contains(output, words) {
					t.Errorf("not said: %s\nbut:\n%s", words, output)
				}
			}
		})
	}
}

// TestCheckSignedNames checks that a certificate without a key is detected while it is unknown, and that unreadable
// keys are rejected. A certificate that is not used needs no key.
func TestCheckSignedNames(t *testing.T) {
	here, bundle := bundles(t)
	leaves := []pki.Leaf{pki.EtcdHealthcheckClient()}
	value := func(keys string) types.Object {
		return types.ObjectValueMust(signedTypes, map[string]attr.Value{
			"keys": types.StringValue(keys),
			"certificates": types.MapValueMust(types.StringType, map[string]attr.Value{
				"etcd/healthcheck-client": types.StringUnknown(), "etcd-server": types.StringUnknown(),
			}),
		})
	}
	for keys, words := range map[string]string{
		`{"etcd/server":"secret"}`: `keys contains no key for "etcd/healthcheck-client"; it contains: etcd/server`,
		"secret":                   "it is not a JSON object of private keys by name",
		`{"etcd/server":"-----BEGIN AGE ENCRYPTED FILE-----\nsecret"}`: "no identity is given to open them",
	} {
		var diags diag.Diagnostics
		(&session{sealKnown: true}).checkSigned(t.Context(), bundle, value(keys), leaves, types.StringNull(), time.Now(),
			&diags)
		if output := text(diags); diags.ErrorsCount() != 1 || !strings.Contains(output, words) ||
			strings.Contains(output, "secret") {
			t.Errorf("%d errors, want 1 with %q:\n%s", diags.ErrorsCount(), words, output)
		}
	}
	var diags diag.Diagnostics
	(&session{sealKnown: true}).checkSigned(t.Context(), here, value(`{"etcd/server":"secret"}`), leaves,
		types.StringNull(), time.Now(), &diags)
	if diags.HasError() {
		t.Errorf("of a CA whose key is in the bundle: %s", text(diags))
	}
}

// TestSignedInto checks that only leaves that need an external signer use signed pairs, so that
// a bundle with its keys issues its own.
func TestSignedInto(t *testing.T) {
	here, bundle := bundles(t)
	leaves := component.Leaves(replicaNames())
	s := &session{sealKnown: true}
	var diags diag.Diagnostics
	problems := s.readSigned(t.Context(), signedValue(t, signElsewhere(t, here, leaves)), &diags).
		into(bundle, leaves, time.Now())
	if len(problems) != 0 || diags.HasError() {
		t.Errorf("faults %v, %s", problems, text(diags))
	}
	if got := slices.Sorted(maps.Keys(bundle.Signed)); !slices.Equal(got, []string{
		"apiserver-etcd-client",
		"front-proxy-client",
	}) {
		t.Errorf("signed are %q", got)
	}
}

// TestSignedChanged checks that only different keys or certificates count as newly signed.
func TestSignedChanged(t *testing.T) {
	here, _ := bundles(t)
	leaves := machine.Leaves("cp1", "10.0.0.11")
	first := signElsewhere(t, here, leaves)
	s := &session{sealKnown: true}
	before := signedValue(t, first)
	seal := newTestSeal(t)
	keys := map[string]string{}
	for name, pair := range first {
		keys[name] = pair.PrivateKey
	}
	sealed, err := closeKeys(keys, seal)
	if err != nil {
		t.Fatal(err)
	}
	resealed := types.ObjectValueMust(signedTypes, map[string]attr.Value{
		"keys": types.StringValue(sealed), "certificates": before.Attributes()["certificates"],
	})
	if (&session{sealKnown: true, seal: seal}).signedChanged(t.Context(), before, resealed) {
		t.Error("the same keys, sealed, count as others")
	}
	if s.signedChanged(t.Context(), before, before) || s.signedChanged(t.Context(), types.ObjectNull(signedTypes),
		types.ObjectNull(signedTypes)) {
		t.Error("the same counts as another")
	}
	for name, after := range map[string]types.Object{
		"renewed": signedValue(t, signElsewhere(t, here, leaves)), "unknown": types.ObjectUnknown(signedTypes),
		"none": types.ObjectNull(signedTypes), "unreadable": resealed,
	} {
		if !s.signedChanged(t.Context(), before, after) {
			t.Errorf("%s counts as the same", name)
		}
	}
}

// TestWarnEnding checks the warning for certificates that only the user can renew.
func TestWarnEnding(t *testing.T) {
	here, bundle := bundles(t)
	bundle.Signed = signElsewhere(t, here, []pki.Leaf{pki.EtcdHealthcheckClient(), pki.FrontProxyClient()})
	for days, warnings := range map[int]int{1: 0, 300: 1, 400: 0} { // of a year; expired certificates are rejected
		for remedy, value := range map[string]types.Object{
			"Next step: sign their requests again":                              signedValue(t, bundle.Signed),
			"rotate the CA (rotation.etcd, rotation.front_proxy), as the guide": types.ObjectNull(signedTypes),
		} {
			var diags diag.Diagnostics
			warnExpiring(bundle, value, types.StringNull(), time.Now().AddDate(0, 0, days), &diags)
			if diags.WarningsCount() != warnings || warnings > 0 && !strings.Contains(text(diags), remedy) {
				t.Errorf("after %d days: %d warnings, want %d with %q", days, diags.WarningsCount(), warnings, remedy)
			}
		}
	}
}
