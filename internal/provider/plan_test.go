package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func dynamic(t *testing.T, kind tftypes.Type, value tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	dynamic, err := tfprotov6.NewDynamicValue(kind, value)
	if err != nil {
		t.Fatal(err)
	}
	return &dynamic
}

// valueOf returns a value of a type, which may be tftypes.UnknownValue. Attributes that are not
// given are null.
func valueOf(t *testing.T, kind tftypes.Type, input any) tftypes.Value {
	t.Helper()
	if input == nil || input == tftypes.UnknownValue {
		return tftypes.NewValue(kind, input)
	}
	switch kind := kind.(type) {
	case tftypes.Object:
		values := map[string]tftypes.Value{}
		for name, of := range kind.AttributeTypes {
			values[name] = valueOf(t, of, input.(map[string]any)[name])
		}
		return tftypes.NewValue(kind, values)
	case tftypes.Map:
		values := map[string]tftypes.Value{}
		for name, value := range input.(map[string]any) {
			values[name] = valueOf(t, kind.ElementType, value)
		}
		return tftypes.NewValue(kind, values)
	case tftypes.List:
		return tftypes.NewValue(kind, elementsOf(t, kind.ElementType, input))
	case tftypes.Set:
		return tftypes.NewValue(kind, elementsOf(t, kind.ElementType, input))
	}
	return tftypes.NewValue(kind, input)
}

func elementsOf(t *testing.T, kind tftypes.Type, input any) []tftypes.Value {
	t.Helper()
	values := []tftypes.Value{}
	if texts, ok := input.([]string); ok {
		for _, value := range texts {
			values = append(values, valueOf(t, kind, value))
		}
		return values
	}
	for _, value := range input.([]any) {
		values = append(values, valueOf(t, kind, value))
	}
	return values
}

// update plans a change of a resource with the state prior to the arguments of config. It
// returns the attributes that the plan shows as changed, each as "OLD -> NEW".
func (p planner) update(
	t *testing.T, kind string, computed []string, prior, config map[string]any, private string,
) map[string]string {
	t.Helper()
	of := p.schemas.ResourceSchemas[kind].ValueType()
	arguments, proposed := maps.Clone(config), maps.Clone(config)
	for _, name := range computed {
		proposed[name] = prior[name]
		delete(arguments, name)
	}
	state := valueOf(t, of, prior)
	resp, err := p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: dynamic(t, of, state), ProposedNewState: dynamic(t, of, valueOf(t, of, proposed)),
		Config: dynamic(t, of, valueOf(t, of, arguments)), PriorPrivate: []byte(private),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			t.Fatalf("%s: %s", d.Summary, d.Detail)
		}
	}
	if len(resp.RequiresReplace) > 0 {
		t.Fatalf("replaced because of %s", resp.RequiresReplace)
	}
	after, err := resp.PlannedState.Unmarshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return differences(t, state, after)
}

func differences(t *testing.T, before, after tftypes.Value) map[string]string {
	t.Helper()
	var old, new map[string]tftypes.Value
	if err := before.As(&old); err != nil {
		t.Fatal(err)
	}
	if err := after.As(&new); err != nil {
		t.Fatal(err)
	}
	changes := map[string]string{}
	for name := range old {
		if !old[name].Equal(new[name]) {
			changes[name] = shownValue(old[name]) + " -> " + shownValue(new[name])
		}
	}
	return changes
}

// shownValue formats a value approximately as a plan shows it.
func shownValue(v tftypes.Value) string {
	var text string
	var list []tftypes.Value
	switch {
	case !v.IsKnown():
		return "(known after apply)"
	case v.IsNull():
		return "null"
	case v.Type().Is(tftypes.String) && v.As(&text) == nil:
		return text
	case v.As(&list) == nil:
		var all []string
		for _, element := range list {
			all = append(all, shownValue(element))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	return "…"
}

var (
	memberOutputs = []string{
		"id", "client_url", "peer_url", "machine_id", "config_digest", "certificate_expires_at",
		"learner", "drift",
	}
	replicaOutputs  = []string{"id", "machine_id", "config_digest", "certificate_expires_at", "registered", "drift"}
	endpointOutputs = []string{"id", "url", "registration", "config_digest", "drift"}
	bundleOutputs   = []string{
		"id", "bundle", "ca_certificate", "etcd_ca_certificate", "front_proxy_ca_certificate", "service_account_public_key",
		"fingerprints", "expires_at", "stages", "sealed_for",
	}
	kubeconfigOutputs = []string{
		"id", "content", "cluster_ca_certificate", "client_certificate", "client_key",
		"expires_at", "sealed_for",
	}
)

// with returns a copy of values with more added.
func with(values map[string]any, more map[string]any) map[string]any {
	all := maps.Clone(values)
	maps.Copy(all, more)
	return all
}

func memberState(t *testing.T, pki string) map[string]any {
	t.Helper()
	return map[string]any{
		"id": "a6c7", "name": "cp1", "host": map[string]any{"address": "10.0.0.11"}, "pki": pki, "version": "3.6.16",
		"data_dir":               "/var/lib/etcd",
		"peers":                  map[string]any{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
		"on_destroy":             "archive",
		"upgrade_snapshots_kept": 3, "archives_kept": 5, "liveness_probe": true, "client_url": "https://10.0.0.11:2379",
		"peer_url": "https://10.0.0.11:2380", "machine_id": "m1",
		"config_digest": "d1", "certificate_expires_at": "2030-01-02T00:00:00Z", "learner": false, "drift": []string{},
	}
}

func replicaState(t *testing.T, pki, cluster string) map[string]any {
	t.Helper()
	return map[string]any{
		"id": "cp1", "name": "cp1", "host": map[string]any{"address": "10.0.0.11"}, "pki": pki, "version": "1.36.3",
		"etcd": []string{"https://10.0.0.11:2379"},
		"endpoint": map[string]any{
			"address": "10.0.0.100", "port": 6443, "hosts": map[string]any{"cp1": "10.0.0.11"},
			"drain_timeout": "10s", "verify_ca": true, "cluster_id": cluster,
		},
		"port": 6443, "service_cidrs": []string{"10.96.0.0/12"}, "cluster_domain": "cluster.local", "admin_conf": true,
		"liveness_probe": true,
		"machine_id":     "m1", "config_digest": "d1", "certificate_expires_at": "2030-01-02T00:00:00Z", "registered": false,
		"drift": []string{},
	}
}

func endpointState(t *testing.T, pki, cluster string) map[string]any {
	t.Helper()
	hosts := map[string]any{"cp1": "10.0.0.11"}
	return map[string]any{
		"id": "10.0.0.100", "address": "10.0.0.100", "port": 6443, "pki": pki,
		"haproxy": map[string]any{"hosts": hosts, "install_packages": true, "liveness_probe": true}, "drain_timeout": "10s",
		"url": "https://10.0.0.100:6443", "config_digest": "d1", "drift": []string{},
		"registration": map[string]any{
			"address": "10.0.0.100", "port": 6443, "hosts": hosts, "drain_timeout": "10s",
			"verify_ca": false, "cluster_id": cluster,
		},
	}
}

func bundleState(t *testing.T, b *pki.Bundle) map[string]any {
	t.Helper()
	return map[string]any{
		"id": b.ClusterID, "cluster_name": b.ClusterName, "key_algorithm": string(b.Algorithm), "ca_validity": "87600h",
		"deletion_protection": !b.Deletable,
		"rotation": map[string]any{
			"kubernetes": 0, "etcd": 0, "front_proxy": 0, "service_account": 0,
			"encryption": 0,
		},
		"bundle": bundleText(t, b).ValueString(), "ca_certificate": "c", "etcd_ca_certificate": "c",
		"front_proxy_ca_certificate": "c", "service_account_public_key": "k",
		"fingerprints": map[string]any{}, "expires_at": map[string]any{}, "stages": map[string]any{},
		"sealed_for": []string{},
	}
}

func kubeconfigState(t *testing.T, b *pki.Bundle) map[string]any {
	t.Helper()
	pair, err := b.Issue(pki.User(defaultUser, "kubeadm:cluster-admins"), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{
		"id": "f1", "pki": bundleText(t, b).ValueString(), "server": "https://10.0.0.100:6443", "user": defaultUser,
		"groups":   []string{"kubeadm:cluster-admins"},
		"validity": "8760h", "content": "text", "cluster_ca_certificate": b.Roots(pki.Kubernetes),
		"client_certificate": pair.Certificate, "client_key": "key",
		"expires_at": "2030-01-02T00:00:00Z", "sealed_for": []string{},
	}
}

// TestPlansShowWhatChanges checks that an update keeps every computed value that stays, and
// plans drift to be removed.
func TestPlansShowWhatChanges(t *testing.T) {
	here, _ := bundles(t)
	text := bundleText(t, here).ValueString()
	changed, named := *here, *here
	changed.Deletable = !here.Deletable
	resealed := bundleText(t, &changed).ValueString()
	named.ClusterName = "renamed"
	renamed := bundleText(t, &named).ValueString()
	bundle, kubeconfig := bundleState(t, here), kubeconfigState(t, here)
	const unknown = "d1 -> (known after apply)"
	drift := map[string]any{"drift": []string{"cp1: etcd.service is inactive, wanted active"}}
	driftGone := "[cp1: etcd.service is inactive, wanted active] -> []"
	expiry := "2030-01-02T00:00:00Z -> (known after apply)"
	member, replica, endpoint := memberState(t, text), replicaState(t, text, here.ClusterID), endpointState(t, text,
		here.ClusterID)
	balancer := with(endpoint, map[string]any{"haproxy": nil, "external": map[string]any{
		"targets": map[string]any{"cp1": "10.0.0.11"}, "target_port": 6443,
		"health_check": map[string]any{"interval": "2s", "threshold": 3},
	}})
	onVolume := with(member, map[string]any{
		"volume": map[string]any{"device": "/dev/sdb", "mount_path": "/srv/etcd"}, "data_dir": "/srv/etcd/data",
	})
	p := newPlanner(t)
	for name, test := range map[string]struct {
		kind          string
		computed      []string
		prior, config map[string]any
		private       string
		want          map[string]string
	}{
		"a member, nothing": {"kube_etcd_member", memberOutputs, member, member, "", map[string]string{}},
		"a member's peers": {
			"kube_etcd_member", memberOutputs, member, with(member, map[string]any{"peers": map[string]any{"cp1": "10.0.0.11"}}),
			"",
			map[string]string{"peers": "… -> …"},
		},
		"a member's flags": {
			"kube_etcd_member", memberOutputs, member,
			with(member, map[string]any{"extra_args": map[string]any{"max-txn-ops": "129"}}), "",
			map[string]string{"extra_args": "null -> …", "config_digest": unknown},
		},
		"a member's maintenance": {
			"kube_etcd_member", memberOutputs, member,
			with(member, map[string]any{"maintenance": map[string]any{"defragment": "2026-11"}}), "",
			map[string]string{"maintenance": "null -> …"},
		},
		"a replica's maintenance": {
			"kube_control_plane_replica", replicaOutputs, replica,
			with(replica, map[string]any{"maintenance": map[string]any{"drain": "2026-11", "hold": "1m"}}), "",
			map[string]string{"maintenance": "null -> …"},
		},
		"a member that moves with its volume": {
			"kube_etcd_member", memberOutputs, onVolume, with(onVolume, map[string]any{
				"host":  map[string]any{"address": "10.0.0.14"},
				"peers": map[string]any{"cp1": "10.0.0.14", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
			}), "",
			map[string]string{
				"host": "… -> …", "peers": "… -> …", "client_url": "https://10.0.0.11:2379 -> https://10.0.0.14:2379",
				"peer_url": "https://10.0.0.11:2380 -> https://10.0.0.14:2380", "machine_id": "m1 -> (known after apply)",
				"config_digest": unknown, "certificate_expires_at": expiry,
			},
		},
		"a member whose former machine is fenced": {
			"kube_etcd_member", memberOutputs, onVolume, with(onVolume, map[string]any{
				"volume": map[string]any{"device": "/dev/sdb", "mount_path": "/srv/etcd", "fenced": true},
			}), "",
			map[string]string{"volume": "… -> …"},
		},
		"a member's volume by another name": {
			"kube_etcd_member", memberOutputs, onVolume, with(onVolume, map[string]any{
				"volume": map[string]any{"device": "/dev/sdc", "mount_path": "/srv/etcd"},
			}), "",
			map[string]string{"volume": "… -> …", "config_digest": unknown},
		},
		"a member's drift": {
			"kube_etcd_member", memberOutputs, with(member, drift), member, "",
			map[string]string{"drift": driftGone, "config_digest": unknown, "certificate_expires_at": expiry},
		},
		"a member that joins anew": {
			"kube_etcd_member", memberOutputs, with(member, drift), member, `{"new_id":"dHJ1ZQ=="}`,
			map[string]string{
				"drift": driftGone, "config_digest": unknown, "certificate_expires_at": expiry,
				"id": "a6c7 -> (known after apply)",
			},
		},
		"a member whose machine was rebuilt": {
			"kube_etcd_member", memberOutputs, with(member, drift), member, `{"new_id":"dHJ1ZQ==","new_machine":"dHJ1ZQ=="}`,
			map[string]string{
				"drift": driftGone, "config_digest": unknown, "certificate_expires_at": expiry,
				"id": "a6c7 -> (known after apply)", "machine_id": "m1 -> (known after apply)",
			},
		},
		"a member's bundle, of which etcd's part stays": {
			"kube_etcd_member", memberOutputs, member, with(member, map[string]any{"pki": resealed}), "",
			map[string]string{"pki": text + " -> " + resealed},
		},
		"a member's cluster gets another name": {
			"kube_etcd_member", memberOutputs, member, with(member, map[string]any{"pki": renamed}), "",
			map[string]string{"pki": text + " -> " + renamed, "config_digest": unknown},
		},
		"a replica's cluster gets another name": {
			"kube_control_plane_replica", replicaOutputs, with(replica, map[string]any{"registered": true}),
			with(replica, map[string]any{"registered": true, "pki": renamed}), "",
			map[string]string{"pki": text + " -> " + renamed, "config_digest": unknown, "certificate_expires_at": expiry},
		},
		"an endpoint's cluster gets another name": {
			"kube_control_plane_endpoint", endpointOutputs, endpoint, with(endpoint, map[string]any{"pki": renamed}), "",
			map[string]string{"pki": text + " -> " + renamed, "config_digest": unknown},
		},
		"a bundle's cluster gets another name": {
			"kube_pki_bundle", bundleOutputs, bundle, with(bundle, map[string]any{"cluster_name": "renamed"}), "",
			map[string]string{"cluster_name": here.ClusterName + " -> renamed", "bundle": text + " -> " + renamed},
		},
		"a bundle's cluster gets another name and loses its protection": {
			"kube_pki_bundle", bundleOutputs, bundle,
			with(bundle, map[string]any{"cluster_name": "renamed", "deletion_protection": here.Deletable}), "",
			map[string]string{
				"cluster_name": here.ClusterName + " -> renamed", "deletion_protection": "… -> …",
				"bundle": text + " -> " + strings.Replace(resealed, `"cluster_name":"`+here.ClusterName,
					`"cluster_name":"renamed`, 1),
			},
		},
		"a kubeconfig's cluster gets another name": {
			"kube_kubeconfig", kubeconfigOutputs, kubeconfig, with(kubeconfig, map[string]any{"pki": renamed}), "",
			map[string]string{
				"pki": text + " -> " + renamed, "id": "f1 -> (known after apply)", "content": "text -> (known after apply)",
				"expires_at":             expiry,
				"cluster_ca_certificate": here.Roots(pki.Kubernetes) + " -> (known after apply)",
				"client_key":             "key -> (known after apply)",
				"client_certificate":     kubeconfig["client_certificate"].(string) + " -> (known after apply)",
			},
		},
		"a kubeconfig, nothing": {"kube_kubeconfig", kubeconfigOutputs, kubeconfig, kubeconfig, "", map[string]string{}},
		"a replica, nothing":    {"kube_control_plane_replica", replicaOutputs, replica, replica, "", map[string]string{}},
		"a replica's flags": {
			"kube_control_plane_replica", replicaOutputs, with(replica, map[string]any{"registered": true}),
			with(replica, map[string]any{"extra_args": map[string]any{"apiserver": map[string]any{"v": "3"}}}), "",
			map[string]string{"extra_args": "null -> …", "config_digest": unknown},
		},
		"a replica's names": {
			"kube_control_plane_replica", replicaOutputs, replica,
			with(replica, map[string]any{"extra_sans": []string{"api.example"}}), "",
			map[string]string{
				"extra_sans": "null -> [api.example]", "config_digest": unknown, "certificate_expires_at": expiry,
				"registered": "… -> (known after apply)",
			},
		},
		"a replica's runtime": {
			"kube_control_plane_replica", replicaOutputs, with(replica, map[string]any{"registered": true}),
			with(replica, map[string]any{"runtime": "static_pod"}), "",
			map[string]string{"runtime": "null -> static_pod", "config_digest": unknown, "certificate_expires_at": expiry},
		},
		"an endpoint's port": {
			"kube_control_plane_endpoint", endpointOutputs, balancer, with(balancer, map[string]any{"port": 7443}), "",
			map[string]string{
				"port": "… -> …", "url": "https://10.0.0.100:6443 -> https://10.0.0.100:7443",
				"registration": "… -> …", "backend": "null -> …", "config_digest": unknown,
			},
		},
		"an endpoint's drift": {
			"kube_control_plane_endpoint", endpointOutputs, with(endpoint, drift), endpoint, "",
			map[string]string{"drift": driftGone, "config_digest": unknown},
		},
		"an endpoint's drain timeout": {
			"kube_control_plane_endpoint", endpointOutputs, endpoint, with(endpoint, map[string]any{"drain_timeout": "20s"}), "",
			map[string]string{"drain_timeout": "10s -> 20s", "registration": "… -> …"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.update(t, test.kind, test.computed, test.prior, test.config, test.private)
			for _, attribute := range slices.Sorted(maps.Keys(got)) {
				if got[attribute] != test.want[attribute] {
					t.Errorf("%s: %s, want %q", attribute, got[attribute], test.want[attribute])
				}
			}
			for attribute, want := range test.want {
				if _, ok := got[attribute]; !ok {
					t.Errorf("%s does not change, want %s", attribute, want)
				}
			}
		})
	}
}
