package provider

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bundleText returns a bundle as the value of a pki attribute.
func bundleText(t *testing.T, b *pki.Bundle) types.String {
	t.Helper()
	text, err := b.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return types.StringValue(text)
}

// twoClusters returns the bundles of two clusters.
func twoClusters(t *testing.T) (here, elsewhere *pki.Bundle) {
	t.Helper()
	here, _ = bundles(t)
	other := *here
	other.ClusterID = pki.NewClusterID()
	return here, &other
}

// endpointAs returns the model of an endpoint as it was last observed.
func endpointAs(t *testing.T, bundle types.String, cluster types.String) endpointModel {
	t.Helper()
	state := importedState(t, endpointSchema(t.Context()), map[string]any{
		"id": "10.0.0.100", "address": "10.0.0.100", "port": int64(6443),
		"haproxy.hosts":            map[string]string{"cp1": "10.0.0.11"},
		"haproxy.install_packages": true, "haproxy.liveness_probe": true,
		"drain_timeout": "10s", "pki": bundle, "config_digest": "abc", "drift": []string{},
	})
	var m endpointModel
	diags := state.Get(t.Context(), &m)
	m.planRegistration(t.Context(), cluster, &diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	return m
}

// TestEndpointOfABundle checks that a changed bundle of the same cluster is stored in the state
// and changes no machine, that the bundle of another cluster replaces the endpoint, and that an
// unknown bundle leaves the registration unchanged.
func TestEndpointOfABundle(t *testing.T) {
	here, elsewhere := twoClusters(t)
	changed := *here
	changed.Deletable = !here.Deletable
	cluster := types.StringValue(here.ClusterID)
	for name, c := range map[string]struct {
		state, plan types.String
		replaced    bool
		touched     bool
		cluster     types.String
	}{
		"the same":      {bundleText(t, here), bundleText(t, here), false, false, cluster},
		"changed":       {bundleText(t, here), bundleText(t, &changed), false, false, cluster},
		"not known yet": {bundleText(t, here), types.StringUnknown(), false, false, cluster},
		"another cluster's": {
			bundleText(t, here), bundleText(t, elsewhere), true, false,
			types.StringValue(elsewhere.ClusterID),
		},
		"imported without, then": {types.StringNull(), bundleText(t, here), false, true, cluster},
	} {
		of := endpointSchema(t.Context())
		before := endpointAs(t, c.state, cluster)
		after := before
		after.PKI = c.plan
		req := resource.ModifyPlanRequest{
			State: tfsdk.State{Schema: of, Raw: emptyOf(t, of)},
			Plan:  tfsdk.Plan{Schema: of, Raw: emptyOf(t, of)},
		}
		diags := req.State.Set(t.Context(), before)
		diags.Append(req.Plan.Set(t.Context(), after)...)
		resp := resource.ModifyPlanResponse{Plan: req.Plan}
		r := newEndpointResource().(*endpointResource)
		r.session = &session{sealKnown: true}
		r.ModifyPlan(t.Context(), req, &resp)
		diags.Append(resp.Diagnostics...)
		var got endpointModel
		diags.Append(resp.Plan.Get(t.Context(), &got)...)
		registration := decodeRegistration(t.Context(), got.Registration, &diags)
		if diags.HasError() {
			t.Fatalf("%s: %v", name, diags)
		}
		if len(resp.RequiresReplace) > 0 != c.replaced || got.ConfigDigest.IsUnknown() != c.touched ||
			registration.ClusterID != c.cluster.ValueString() {
			t.Errorf("%s: replaced by %v, digest %s, registration %+v", name, resp.RequiresReplace, got.ConfigDigest,
				registration)
		}
		if c.replaced && !resp.RequiresReplace[0].Equal(path.Root("pki")) {
			t.Errorf("%s: replaced by %v", name, resp.RequiresReplace)
		}
	}
}

// TestNewEndpointOfANewBundle checks that everything in a registration except the cluster is
// known before the bundle is created.
func TestNewEndpointOfANewBundle(t *testing.T) {
	m := endpointAs(t, types.StringUnknown(), types.StringUnknown())
	var r registrationModel
	if diags := objectAs(t, m.Registration, &r); diags.HasError() || !r.ClusterID.IsUnknown() ||
		r.Address.ValueString() != "10.0.0.100" || !elementsKnown(t.Context(), r.Hosts) {
		t.Errorf("%+v, %v", r, diags)
	}
	if got := plannedCluster(t.Context(), m, endpointModel{}); !got.IsUnknown() {
		t.Errorf("the cluster is planned as %s", got)
	}
}

// TestEndpointOfAnotherCluster checks that a replica with an endpoint of another cluster is
// rejected before anything is changed, and that a registration without a cluster counts as that
// of the replica's bundle.
func TestEndpointOfAnotherCluster(t *testing.T) {
	here, elsewhere := twoClusters(t)
	registration := endpointAs(t, bundleText(t, here), types.StringValue(here.ClusterID)).Registration
	unnamed := endpointAs(t, bundleText(t, here), types.StringNull()).Registration
	for name, c := range map[string]struct {
		registration types.Object
		bundle       *pki.Bundle
		refused      bool
		cluster      string
	}{
		"its own":            {registration, here, false, here.ClusterID},
		"another's":          {registration, elsewhere, true, here.ClusterID},
		"nobody's":           {unnamed, elsewhere, false, elsewhere.ClusterID},
		"no bundle is known": {registration, nil, false, here.ClusterID},
	} {
		var diags diag.Diagnostics
		refuseOtherEndpoint(t.Context(), c.registration, c.bundle, &diags)
		if diags.HasError() != c.refused || c.refused && !strings.Contains(diags[0].Detail(), "belongs to the cluster "+
			here.ClusterID+", and the PKI bundle to "+elsewhere.ClusterID) {
			t.Errorf("%s: %v", name, diags)
		}
		if got := registrationOf(t.Context(), c.registration, c.bundle, &diags).ClusterID; got != c.cluster {
			t.Errorf("%s: registered for %s", name, got)
		}
	}
}

func emptyOf(t *testing.T, s schema.Schema) tftypes.Value {
	t.Helper()
	return tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)
}

func objectAs(t *testing.T, object types.Object, to any) diag.Diagnostics {
	t.Helper()
	return object.As(t.Context(), to, basetypes.ObjectAsOptions{})
}

// TestExternalRegistration checks what follows from the arguments of an external endpoint: the
// registration, and what the balancer needs. The shutdown delay of the replicas follows from it.
func TestExternalRegistration(t *testing.T) {
	here, _ := twoClusters(t)
	state := importedState(t, endpointSchema(t.Context()), map[string]any{
		"address": "api.example.com", "port": int64(443), "external.targets": map[string]string{"cp1": "fd00::11"},
		"external.target_port": int64(6443), "external.health_check.interval": "10s",
		"external.health_check.threshold": int64(3), "drain_timeout": "10s", "pki": bundleText(t, here),
	})
	var m endpointModel
	diags := state.Get(t.Context(), &m)
	m.planRegistration(t.Context(), types.StringValue(here.ClusterID), &diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	want := endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 443, Hosts: map[string]string{"cp1": "fd00::11"},
		DrainTimeout: 10 * time.Second, DetectionTime: 30 * time.Second, TargetPort: 6443, ClusterID: here.ClusterID,
	}
	got := decodeRegistration(t.Context(), m.Registration, &diags)
	if diags.HasError() || got.Key() != want.Key() {
		t.Errorf("the registration is %s, want %s, %v", got.Key(), want.Key(), diags)
	}
	var backend externalBackendModel
	diags = objectAs(t, m.Backend, &backend)
	targets := stringMapOf(t.Context(), backend.Targets, &diags)
	if diags.HasError() || targets["cp1"] != "[fd00::11]:6443" || backend.HealthCheck.Path.ValueString() != "/readyz" {
		t.Errorf("backend is %+v, %v", backend, diags)
	}
	if delay := component.ShutdownDelay(component.Replica{DetectionTime: got.DetectionTime}); delay != 32*time.Second {
		t.Errorf("the shutdown delay is %s", delay)
	}
	object, more := registrationObject(t.Context(), got)
	if more.HasError() || !object.Equal(m.Registration) {
		t.Errorf("an import reads the registration as %s, want %s", object, m.Registration)
	}
}

// TestImportExternal: the import of an external endpoint from the registration of one of its
// replicas gives the same registration again.
func TestImportExternal(t *testing.T) {
	registration := endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, DetectionTime: 6 * time.Second, TargetPort: 6443, ClusterID: pki.NewClusterID(),
	}
	of := endpointSchema(t.Context())
	resp := resource.ImportStateResponse{State: tfsdk.State{Schema: of, Raw: emptyOf(t, of)}}
	importRegistration(importer{t.Context(), &resp}, externalKind{}, registration)
	var m endpointModel
	diags := resp.Diagnostics
	diags.Append(resp.State.Get(t.Context(), &m)...)
	m.planRegistration(t.Context(), types.StringValue(registration.ClusterID), &diags)
	got := decodeRegistration(t.Context(), m.Registration, &diags)
	if diags.HasError() || got.Key() != registration.Key() {
		t.Errorf("the registration is %s, want %s, %v", got.Key(), registration.Key(), diags)
	}
	if check := m.external(t.Context(), &diags).healthCheck(t.Context(), &diags); check.Threshold != 3 ||
		check.Interval != 2*time.Second {
		t.Errorf("the health check is %+v", check)
	}
}

// TestHealthyThreshold: the registration has the time, the import reads the same again, and the balancer is told.
func TestHealthyThreshold(t *testing.T) {
	here, _ := twoClusters(t)
	expectRegistration(t, here, map[string]any{
		"address": "api.example.com", "port": int64(443), "external.targets": map[string]string{"cp1": "10.0.0.11"},
		"external.target_port": int64(6443), "external.health_check.interval": "2s",
		"external.health_check.threshold": int64(3), "external.health_check.healthy_threshold": int64(5),
		"drain_timeout": "10s", "pki": bundleText(t, here),
	}, endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, DetectionTime: 6 * time.Second, HealthyTime: 10 * time.Second, TargetPort: 6443,
		ClusterID: here.ClusterID,
	})
}

// TestBackendHealthyThreshold: the balancer is told a number in any case, and nothing while it is unknown.
func TestBackendHealthyThreshold(t *testing.T) {
	for name, c := range map[string]struct {
		healthy types.Int64
		want    types.Int64
	}{
		"null": {types.Int64Null(), types.Int64Value(3)}, "set": {types.Int64Value(5), types.Int64Value(5)},
		"unknown": {types.Int64Unknown(), types.Int64Null()},
	} {
		state := importedState(t, endpointSchema(t.Context()), map[string]any{
			"address": "api.example.com", "port": int64(443), "external.targets": map[string]string{"cp1": "10.0.0.11"},
			"external.target_port": int64(6443), "external.health_check.interval": "2s",
			"external.health_check.threshold": int64(3), "external.health_check.healthy_threshold": c.healthy,
			"drain_timeout": "10s",
		})
		var m endpointModel
		diags := state.Get(t.Context(), &m)
		m.planRegistration(t.Context(), types.StringValue("a"), &diags)
		if c.healthy.IsUnknown() {
			if !m.Backend.IsUnknown() || !m.Registration.IsUnknown() {
				t.Errorf("%s: backend %s, registration %s", name, m.Backend, m.Registration)
			}
			continue
		}
		var backend externalBackendModel
		diags.Append(objectAs(t, m.Backend, &backend)...)
		if diags.HasError() || !backend.HealthCheck.Healthy.Equal(c.want) {
			t.Errorf("%s: %+v, %v", name, backend, diags)
		}
	}
}

// expectRegistration checks what follows from the arguments of an endpoint, and that the import from the registration
// of one of its replicas gives the same again. It returns the registration.
func expectRegistration(
	t *testing.T, of *pki.Bundle, arguments map[string]any, want endpoint.Registration,
) endpoint.Registration {
	t.Helper()
	schema := endpointSchema(t.Context())
	var m endpointModel
	state := importedState(t, schema, arguments)
	diags := state.Get(t.Context(), &m)
	m.planRegistration(t.Context(), types.StringValue(of.ClusterID), &diags)
	if diags.HasError() {
		t.Fatal(diags)
	}
	got := decodeRegistration(t.Context(), m.Registration, &diags)
	if diags.HasError() || got.Key() != want.Key() {
		t.Errorf("the registration is %s, want %s, %v", got.Key(), want.Key(), diags)
	}
	object, more := registrationObject(t.Context(), got)
	if more.HasError() || !object.Equal(m.Registration) {
		t.Errorf("an import reads the registration as %s, want %s", object, m.Registration)
	}
	resp := resource.ImportStateResponse{State: tfsdk.State{Schema: schema, Raw: emptyOf(t, schema)}}
	kind, _ := kindOf(got).(targetsKind)
	importRegistration(importer{t.Context(), &resp}, kind, got)
	var imported endpointModel
	diags = resp.Diagnostics
	diags.Append(resp.State.Get(t.Context(), &imported)...)
	imported.planRegistration(t.Context(), types.StringValue(of.ClusterID), &diags)
	again := decodeRegistration(t.Context(), imported.Registration, &diags)
	if diags.HasError() || again.Key() != want.Key() || !imported.Registration.Equal(m.Registration) {
		t.Errorf("after an import, the registration is %s, want %s, %v", again.Key(), want.Key(), diags)
	}
	return got
}

// TestDNSRegistration checks what follows from the arguments of a dns endpoint, and that the import
// from the registration of one of its replicas gives the same again.
func TestDNSRegistration(t *testing.T) {
	here, _ := twoClusters(t)
	values := map[string]any{
		"address": "api.example.com", "port": int64(7443), "dns.targets": map[string]string{"cp1": "10.0.0.11"},
		"dns.zone": "example.com", "dns.server": "10.0.0.53", "dns.tsig_key": "api-key", "drain_timeout": "10s",
		"dns.name_servers": []string{"10.0.0.53", "10.0.0.54:5353"}, "pki": bundleText(t, here),
	}
	want := endpoint.Registration{
		Kind: endpoint.DNS, Address: "api.example.com", Port: 7443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, TargetPort: 7443, ClusterID: here.ClusterID,
		Zone: &endpoint.Zone{
			Name: "example.com", Server: "10.0.0.53:53", NameServers: []string{"10.0.0.53:53", "10.0.0.54:5353"},
			TTL: 5 * time.Second, TSIGKey: "api-key", CheckInterval: time.Second, CheckThreshold: 3, InstallPackages: true,
		},
	}
	expectRegistration(t, here, values, want)
}

// TestBGPRegistration is the same for a bgp endpoint.
func TestBGPRegistration(t *testing.T) {
	here, _ := twoClusters(t)
	values := map[string]any{
		"address": "10.1.0.100", "port": int64(6443), "bgp.targets": map[string]string{"cp1": "10.0.0.11"},
		"bgp.asn": int64(4200000000), "bgp.install_packages": false, "drain_timeout": "10s", "pki": bundleText(t, here),
		"bgp.peers": peerModels([]endpoint.Peer{
			{Address: "10.0.0.2", ASN: 64512, BFD: true}, {Address: "10.0.0.1", ASN: 64512, Multihop: 2, Password: "router"},
		}),
	}
	want := endpoint.Registration{
		Kind: endpoint.BGP, Address: "10.1.0.100", Port: 6443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, TargetPort: 6443, ClusterID: here.ClusterID,
		BGP: &endpoint.Announcement{
			ASN: 4200000000, HoldTime: 3 * time.Second, BFDInterval: 300 * time.Millisecond, Propagation: time.Second,
			KeepPackages: true,
			Peers: []endpoint.Peer{
				{Address: "10.0.0.1", ASN: 64512, Multihop: 2, Password: "router"}, {Address: "10.0.0.2", ASN: 64512, BFD: true},
			},
		},
	}
	expectRegistration(t, here, values, want)
}

// TestAnnouncedByKubeVIP is the same for a kube_vip endpoint in the mode bgp, whose replicas need no Lease.
func TestAnnouncedByKubeVIP(t *testing.T) {
	here, _ := twoClusters(t)
	values := map[string]any{
		"address": "10.1.0.100", "port": int64(6443), "kube_vip.targets": map[string]string{"cp1": "10.0.0.11"},
		"kube_vip.mode": "bgp", "kube_vip.asn": int64(4200000000), "kube_vip.hold_time": "9s", "drain_timeout": "10s",
		"kube_vip.peers": peerModels([]endpoint.Peer{{Address: "10.0.0.1", ASN: 64512, Multihop: 2, Password: "router"}}),
		"pki":            bundleText(t, here),
	}
	want := endpoint.Registration{
		Kind: endpoint.KubeVIP, Address: "10.1.0.100", Port: 6443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, TargetPort: 6443, ClusterID: here.ClusterID,
		KubeVIP: &endpoint.Election{Mode: "bgp", Program: "/usr/local/bin/kube-vip", LeaseDuration: 5 * time.Second},
		BGP: &endpoint.Announcement{
			ASN: 4200000000, HoldTime: 9 * time.Second, BFDInterval: 300 * time.Millisecond, Propagation: time.Second,
			Peers: []endpoint.Peer{{Address: "10.0.0.1", ASN: 64512, Multihop: 2, Password: "router"}},
		},
	}
	got := expectRegistration(t, here, values, want)
	if lease, _ := kubevip.LeaseOf(got); lease != "" || validateRegistration(got) != nil {
		t.Errorf("the registration is %s, %v", got.Key(), validateRegistration(got))
	}
}

// TestKubeVIPRegistration is the same for a kube_vip endpoint.
func TestKubeVIPRegistration(t *testing.T) {
	here, _ := twoClusters(t)
	values := map[string]any{
		"address": "10.0.0.100", "port": int64(6443), "kube_vip.targets": map[string]string{"cp1": "10.0.0.11"},
		"kube_vip.interface": "eth1", "kube_vip.sha256": strings.Repeat("0a", 32), "drain_timeout": "10s",
		"pki": bundleText(t, here),
	}
	want := endpoint.Registration{
		Kind: endpoint.KubeVIP, Address: "10.0.0.100", Port: 6443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second, TargetPort: 6443, ClusterID: here.ClusterID,
		KubeVIP: &endpoint.Election{
			Mode: "arp", Interface: "eth1", Program: "/usr/local/bin/kube-vip", SHA256: strings.Repeat("0a", 32),
			LeaseDuration: 5 * time.Second,
		},
	}
	expectRegistration(t, here, values, want)
	if parsed, err := registrationIn(registrationText(want)); err != nil || parsed.Key() != want.Key() {
		t.Errorf("a machine's record is read as %s, %v", parsed.Key(), err)
	}
}

// TestEndpointAttribute: a failure points to an attribute that the endpoint has, of its kind.
func TestEndpointAttribute(t *testing.T) {
	schema := endpointSchema(t.Context())
	attributes := map[string]string{
		"external": "external.targets", "dns": "dns.targets", "bgp": "bgp.targets", "kube_vip": "kube_vip.targets",
		"haproxy": "haproxy.hosts",
	}
	for _, names := range [][]string{kindNames(), firewall.Kinds} {
		if !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(attributes))) {
			t.Errorf("the kinds are %v", names)
		}
	}
	for attribute, want := range attributes {
		state := importedState(t, schema, map[string]any{"address": "10.0.0.100"})
		at := path.Root(attribute)
		name := strings.TrimPrefix(want, attribute+".")
		diags := state.SetAttribute(t.Context(), at.AtName(name), map[string]string{"cp1": "10.0.0.11"})
		if diags.HasError() {
			t.Fatal(diags)
		}
		var m endpointModel
		if diags := state.Get(t.Context(), &m); diags.HasError() {
			t.Fatal(diags)
		}
		if got, kind := m.at().String(), m.kind().name(); got != want || string(kind) != attribute {
			t.Errorf("%s: %s, want %s; the kind is %s", attribute, got, want, kind)
		}
	}
}

// TestUnknownKind: an attribute that is unknown may become null. One that is known decides, and no replacement is
// planned for one that is not.
func TestUnknownKind(t *testing.T) {
	known, unknown := types.ObjectValueMust(nil, nil), types.ObjectUnknown(nil)
	for name, c := range map[string]struct {
		m         endpointModel
		want      endpoint.Kind
		otherKind bool // than HAProxy
	}{
		"known":                       {endpointModel{HAProxy: known}, endpoint.HAProxy, false},
		"known, and one is unknown":   {endpointModel{HAProxy: known, External: unknown}, endpoint.HAProxy, false},
		"another, and one is unknown": {endpointModel{HAProxy: unknown, DNS: known}, endpoint.DNS, true},
		"all are unknown":             {endpointModel{HAProxy: unknown, External: unknown}, endpoint.External, false},
		"another":                     {endpointModel{BGP: known}, endpoint.BGP, true},
	} {
		if got := c.m.kind().name(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if got := c.m.otherKind(endpointModel{HAProxy: known}); got != c.otherKind {
			t.Errorf("%s: of another kind: %t", name, got)
		}
	}
}

// TestBalancerInterface: the name of an interface is checked before anything is created.
func TestBalancerInterface(t *testing.T) {
	for name, want := range map[string]string{"eth0": "", "eth0.100": "", "eth 0": "Invalid interface", "": ""} {
		config := map[string]any{"address": "10.0.0.100", "pki": "p", "haproxy": map[string]any{
			"hosts": map[string]any{"cp1": "10.0.0.11"}, "interface": name,
		}}
		got := validated(t, "kube_control_plane_endpoint", config)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
