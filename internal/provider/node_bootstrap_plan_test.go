package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// workerEndpoint is the endpoint of resources for workers.
func workerEndpoint(cluster string) map[string]any {
	return map[string]any{
		"address": "10.0.0.100", "port": 6443, "hosts": map[string]any{"cp1": "10.0.0.11"}, "cluster_id": cluster,
	}
}

func pinsOf(t *testing.T, b *pki.Bundle) []string {
	t.Helper()
	pins, err := nodebootstrap.Pins(b)
	if err != nil {
		t.Fatal(err)
	}
	return pins
}

func rotatedOnce(t *testing.T, b *pki.Bundle) *pki.Bundle {
	t.Helper()
	next, err := b.Rotate(map[pki.Part]int{pki.KubernetesPart: 1}, pki.Next{}, pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestPlansForWorkers checks that plans of the resources for workers show what changes and nothing else, and that an
// expired token plans nothing.
func TestPlansForWorkers(t *testing.T) {
	here, _ := bundles(t)
	rotated := rotatedOnce(t, here)
	text, next := bundleText(t, here).ValueString(), bundleText(t, rotated).ValueString()
	at := nodebootstrap.Settings{Bundle: here, Host: "10.0.0.100", Port: 6443}
	objects := map[string]any{
		"id": here.ClusterID, "pki": text, "endpoint": workerEndpoint(here.ClusterID), "version": "1.36.3",
		"service_cidrs": []string{"10.96.0.0/12"}, "cluster_domain": "cluster.local", "discovery_by_file": false,
		"adopt": false, "ca_cert_hashes": pinsOf(t, here), "discovery_file": at.DiscoveryFile(), "drift": []string{},
	}
	token := map[string]any{
		"id": "abcdef", "pki": text, "endpoint": workerEndpoint(here.ClusterID), "token_id": "abcdef",
		"token": "abcdef.0123456789abcdef", "join_command": "kubeadm join", "ca_cert_hashes": pinsOf(t, here),
		"discovery_file": "users",
		"expires_at":     time.Now().Add(-time.Hour).Format(time.RFC3339), "sealed_for": []string{},
	}
	at.Bundle = rotated
	hashes := "[" + strings.Join(pinsOf(t, here), ", ") + "] -> [" + strings.Join(pinsOf(t, rotated), ", ") + "]"
	computedObjects := []string{"id", "ca_cert_hashes", "discovery_file", "drift"}
	computedToken := []string{
		"id", "token_id", "token", "join_command", "discovery_file", "ca_cert_hashes", "expires_at",
		"sealed_for",
	}
	p := newPlanner(t)
	for name, test := range map[string]struct {
		kind          string
		computed      []string
		prior, config map[string]any
		want          map[string]string
	}{
		"nothing": {"kube_node_bootstrap", computedObjects, objects, objects, map[string]string{}},
		"drift": {
			"kube_node_bootstrap", computedObjects, with(objects, map[string]any{"drift": []string{"x is missing"}}), objects,
			map[string]string{"drift": "[x is missing] -> []"},
		},
		"version": {
			"kube_node_bootstrap", computedObjects, objects, with(objects, map[string]any{"version": "1.36.4"}),
			map[string]string{"version": "1.36.3 -> 1.36.4"},
		},
		"rotation": {
			"kube_node_bootstrap", computedObjects, objects, with(objects, map[string]any{"pki": next}),
			map[string]string{
				"pki": text + " -> " + next, "ca_cert_hashes": hashes,
				"discovery_file": objects["discovery_file"].(string) + " -> " + at.DiscoveryFile(),
			},
		},
		"expired token": {"kube_bootstrap_token", computedToken, token, token, map[string]string{}},
		"token in a rotation": {
			"kube_bootstrap_token", computedToken, token, with(token, map[string]any{"pki": next}),
			map[string]string{
				"pki": text + " -> " + next, "ca_cert_hashes": hashes, "join_command": "kubeadm join -> (known after apply)",
				"discovery_file": "users -> (known after apply)",
			},
		},
		"token of an earlier version": {
			"kube_bootstrap_token", computedToken, without(token, "discovery_file"), token,
			map[string]string{
				"join_command": "kubeadm join -> (known after apply)", "discovery_file": "null -> (known after apply)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.update(t, test.kind, test.computed, test.prior, test.config, "")
			if !maps.Equal(got, test.want) {
				t.Errorf("the plan shows %q, want %q", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(test.want)))
				for attribute, change := range got {
					t.Logf("%s: %s", attribute, change)
				}
			}
		})
	}
}

// TestTokenExpiry: a token ends at its time, and one without an expiry never does.
func TestTokenExpiry(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for at, want := range map[string]bool{
		"2026-01-02T03:04:04Z": true, "2026-01-02T03:04:05Z": true, "2026-01-02T03:04:06Z": false, "": false, "x": false,
	} {
		var m bootstrapTokenResourceModel
		m.ExpiresAt = orNull(at)
		if got := m.expired(now); got != want {
			t.Errorf("a token until %q has expired: %v", at, got)
		}
	}
}

// TestAppliedBefore: a resource that was imported has applied nothing, unless its state has adopt.
func TestAppliedBefore(t *testing.T) {
	for _, test := range []struct {
		private noted
		adopt   bool
		want    bool
	}{{"", false, true}, {"", true, true}, {"b", false, false}, {"b", true, true}} {
		var diags diag.Diagnostics
		state := nodeBootstrapModel{Adopt: types.BoolValue(test.adopt)}
		if got := state.applied(t.Context(), test.private, &diags); got != test.want || len(diags) > 0 {
			t.Errorf("imported from %q, adopt %t: applied %t, %v", test.private, test.adopt, got, diags)
		}
	}
}

// TestAdoptTakenBack: a plan warns only when adopt is taken back, because the apply removes what was kept.
func TestAdoptTakenBack(t *testing.T) {
	is, isNot, unknown := types.BoolValue(true), types.BoolValue(false), types.BoolUnknown()
	for _, test := range []struct {
		before, after types.Bool
		warned        bool
	}{
		{is, isNot, true}, {is, is, false}, {isNot, is, false}, {isNot, isNot, false}, {is, unknown, false},
	} {
		var diags diag.Diagnostics
		plan := nodeBootstrapModel{Adopt: test.after}
		plan.warnNotKept(nodeBootstrapModel{Adopt: test.before}, &diags)
		if diags.HasError() || (diags.WarningsCount() == 1) != test.warned {
			t.Errorf("from %s to %s: %v", test.before, test.after, diags)
		}
	}
}
