package review

import (
	"slices"
	"strings"
	"testing"
)

// TestOtherSteps: what has no machine is shown where an apply does it, and only the bundle as the bundle.
func TestOtherSteps(t *testing.T) {
	kinds := []string{
		"kube_bootstrap_token", "kube_certificate_requests", "kube_etcd_client_certificate", "kube_etcd_restore_drill",
		"kube_kubeconfig", "kube_later", "kube_node_bootstrap", "kube_pki_bundle",
	}
	for action, want := range map[Action][]string{
		Create: {
			"The PKI bundle, from which certificates are issued.: kube_pki_bundle",
			"Certificates are requested, to be signed elsewhere.: kube_certificate_requests",
			"The endpoint: it is set up.: endpoint",
			"What workers join with is put into the cluster.: kube_node_bootstrap",
			"Bootstrap tokens are made.: kube_bootstrap_token",
			"Restore drills run.: kube_etcd_restore_drill",
			"Kubeconfigs are issued. They do not wait for the other steps.: kube_kubeconfig",
			"Certificates of etcd's clients are issued. They do not wait for the other steps.: kube_etcd_client_certificate",
			"Other resources of the provider change.: kube_later",
		},
		Delete: {
			"What was issued, or is needed to join, is removed.: " + strings.Join(kinds[:7], " "),
			"The endpoint is removed, after its replicas.: endpoint",
			"The PKI bundle is removed last.: kube_pki_bundle",
		},
		Keep: nil,
	} {
		endpoint := Resource{Kind: "kube_control_plane_endpoint", Name: "endpoint", Action: action}
		p := ControlPlane{Endpoints: []Endpoint{{Resource: endpoint}}}
		for _, kind := range kinds {
			p.Secrets = append(p.Secrets, Resource{Kind: kind, Name: kind, Action: action})
		}
		var got []string
		for _, s := range p.steps() {
			var names []string
			for _, i := range s.items {
				names = append(names, i.name)
			}
			got = append(got, s.title+": "+strings.Join(names, " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", action, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	r := Resource{Kind: nodeBootstrapKind, Name: "x", Action: Update, Reasons: []Reason{{Text: "version", Effect: Repair}}}
	if got := (ControlPlane{Secrets: []Resource{r}}).steps()[0].items[0].text; got != "version" {
		t.Errorf("an object of the API restarts: %q", got)
	}
}
