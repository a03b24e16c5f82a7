package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// TestVersionSkewAnswer checks that the result follows from the observed state alone.
func TestVersionSkewAnswer(t *testing.T) {
	survey := func(version, agreed string) membership.Survey {
		return membership.Survey{Members: []membership.MemberStatus{{Member: membership.Member{
			Name: "cp1", Version: version,
			Healthy: true,
		}}}, ClusterVersion: agreed}
	}
	skew := func(kubernetes, kubelet string) release.Versions {
		return release.Versions{Replicas: map[string]string{"cp1": kubernetes}, Kubelets: map[string]string{"n1": kubelet}}
	}
	for name, c := range map[string]struct {
		seen                     observedVersions
		kubernetesTarget, target string // of Kubernetes, of etcd
		allowed                  types.Bool
		refusals                 []string
	}{
		"no target": {
			seen:    observedVersions{skew: skew("1.36.3", "1.36.3"), survey: survey("3.6.16", "3.6")},
			allowed: types.BoolNull(),
		},
		"one allowed": {
			seen:             observedVersions{skew: skew("1.36.3", "1.36.3"), survey: survey("3.6.16", "3.6")},
			kubernetesTarget: "1.37.2", allowed: types.BoolValue(true),
		},
		"refused by two rules": {
			seen:             observedVersions{skew: skew("1.35.4", "1.31.0"), survey: survey("3.6.16", "3.6")},
			kubernetesTarget: "1.37.2", allowed: types.BoolValue(false), refusals: []string{"Kubernetes: ", "Kubernetes: "},
		},
		"etcd is too old": {
			seen:             observedVersions{skew: skew("1.36.3", "1.36.3"), survey: survey("3.5.21", "3.5")},
			kubernetesTarget: "1.37.2", allowed: types.BoolValue(false), refusals: []string{"Kubernetes: "},
		},
		"etcd goes first": {
			seen:             observedVersions{skew: skew("1.36.3", "1.36.3"), survey: survey("3.5.21", "3.5")},
			kubernetesTarget: "1.37.2", target: "3.5.35", allowed: types.BoolValue(true),
		},
		"etcd may not go": { // and Kubernetes is checked against the version that stays
			seen:             observedVersions{skew: skew("1.36.3", "1.36.3"), survey: survey("3.5.21", "3.5")},
			kubernetesTarget: "1.37.2", target: "3.6.16", allowed: types.BoolValue(false), refusals: []string{
				"etcd: ",
				"Kubernetes: ",
			},
		},
		"not all was told": {
			seen: observedVersions{
				skew: skew("1.36.3", "1.36.3"), survey: survey("3.6.15", "3.6"),
				issues: []string{"replica cp2 does not report its version"},
			},
			target: "3.6.16", allowed: types.BoolValue(false),
		},
		"nothing was told": {
			seen: observedVersions{issues: []string{"no balancer answers"}}, kubernetesTarget: "1.37.2",
			allowed: types.BoolValue(false),
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen := c.seen
			seen.skew.Etcd = membership.UpgradePathsFrom(seen.survey).Versions
			m := versionSkewModel{KubernetesTarget: orNull(c.kubernetesTarget), EtcdTarget: orNull(c.target)}
			m.fill(seen)
			var diags diag.Diagnostics
			refusals := stringsOf(t.Context(), m.Refusals, &diags)
			same := slices.EqualFunc(refusals, c.refusals, strings.HasPrefix)
			if !m.TargetAllowed.Equal(c.allowed) || !same || diags.HasError() {
				t.Errorf("allowed: %s, want %s; refusals %q, want %q", m.TargetAllowed, c.allowed, refusals, c.refusals)
			}
			if issues := stringsOf(t.Context(), m.Issues, &diags); !slices.Equal(issues, seen.issues) {
				t.Errorf("issues %q", issues)
			}
			if seen.skew.Etcd["cp1"] != "" && seen.skew.Etcd["cp1"] != seen.survey.Members[0].Version {
				t.Error("the versions that are told were changed by a target")
			}
		})
	}
}

// TestVersionSkewUnreachable checks that the data source returns within its timeout if nothing
// answers, and reports what it could not query.
func TestVersionSkewUnreachable(t *testing.T) {
	all, output, took := readNowhere(t,
		"kube_version_skew", map[string]tftypes.Value{"kubernetes_target": textValue("1.37.2")})
	if output != "" || took > 10*time.Second {
		t.Fatalf("%s after %s", output, took)
	}
	var issues []tftypes.Value
	if err := all["issues"].As(&issues); err != nil || len(issues) < 2 {
		t.Errorf("issues %v, %v; want those of etcd and of the endpoint", issues, err)
	}
	var allowed bool
	if err := all["target_allowed"].As(&allowed); err != nil || allowed {
		t.Errorf("allowed: %v, %v", allowed, err)
	}
	t.Log(issues)
}
