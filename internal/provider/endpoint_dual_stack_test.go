package provider

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// dualStackEndpoint is the model of an endpoint with this second virtual IP.
func dualStackEndpoint(t *testing.T, address, address6 any) endpointModel {
	t.Helper()
	here, _ := twoClusters(t)
	state := importedState(t, endpointSchema(t.Context()), map[string]any{
		"address": address, "port": int64(6443), "haproxy.hosts": map[string]string{"cp1": "10.0.0.11"},
		"haproxy.address6": address6, "haproxy.install_packages": true, "haproxy.liveness_probe": true,
		"drain_timeout": "10s",
		"pki":           bundleText(t, here),
	})
	var m endpointModel
	if diags := state.Get(t.Context(), &m); diags.HasError() {
		t.Fatal(diags)
	}
	return m
}

// TestDualStackRegistration checks that replicas learn the second virtual IP from the plan, and that
// an import reads the same registration.
func TestDualStackRegistration(t *testing.T) {
	m := dualStackEndpoint(t, "10.0.0.100", "fd00::100")
	var diags diag.Diagnostics
	m.planRegistration(t.Context(), types.StringNull(), &diags)
	got := decodeRegistration(t.Context(), m.Registration, &diags)
	want := endpoint.Registration{
		Address: "10.0.0.100", Address6: "fd00::100", Port: 6443, Hosts: map[string]string{"cp1": "10.0.0.11"},
		DrainTimeout: 10 * time.Second,
	}
	if diags.HasError() || got.Key() != want.Key() {
		t.Errorf("the registration is %s, want %s, %v", got.Key(), want.Key(), diags)
	}
	object, more := registrationObject(t.Context(), got)
	if more.HasError() || !object.Equal(m.Registration) {
		t.Errorf("an import reads the registration as %s, want %s", object, m.Registration)
	}
	recorded, err := registrationIn(registrationText(got))
	if err != nil || recorded.Key() != want.Key() {
		t.Errorf("a machine records %+v, %v", recorded, err)
	}
	without := m
	var none haproxyModel
	diags.Append(objectAs(t, m.HAProxy, &none)...)
	none.Address6 = types.StringNull()
	without.HAProxy, more = types.ObjectValueFrom(t.Context(), m.HAProxy.AttributeTypes(t.Context()), none)
	diags.Append(more...)
	if diags.HasError() || !m.affectsMachine(t.Context(), without, nil) || m.affectsMachine(t.Context(), m, nil) {
		t.Errorf("adding the second address changes no machine, %v", diags)
	}
}

// TestUnknownAddress6: an address that is not known yet leaves the registration unknown.
func TestUnknownAddress6(t *testing.T) {
	m := dualStackEndpoint(t, "10.0.0.100", types.StringUnknown())
	var diags diag.Diagnostics
	m.planRegistration(t.Context(), types.StringNull(), &diags)
	if diags.HasError() || !m.Registration.IsUnknown() || m.URL.IsUnknown() {
		t.Errorf("the registration is %s, the URL %s, %v", m.Registration, m.URL, diags)
	}
	haproxyKind{}.validate(t.Context(), m, &diags)
	if diags.HasError() {
		t.Errorf("refused: %v", diags)
	}
}

func TestRefusedAddress6(t *testing.T) {
	for address6, cause := range map[string]string{
		"fd00::100":       "",
		"10.0.0.101":      "is not an IPv6 address",
		"fe80::1":         "cannot be a virtual IP",
		"api.example.com": "is not an IP address",
	} {
		var diags diag.Diagnostics
		haproxyKind{}.validate(t.Context(), dualStackEndpoint(t, "10.0.0.100", address6), &diags)
		if diags.HasError() != (cause != "") || cause != "" && !strings.Contains(diags[0].Detail(), cause) {
			t.Errorf("%s: %v, want %q", address6, diags, cause)
		}
		_, err := registrationIn(registrationText(endpoint.Registration{Address: "10.0.0.100", Address6: address6}))
		if (err != nil) != (cause != "") {
			t.Errorf("%s in the record of a machine: %v", address6, err)
		}
	}
}

// TestVirtualIPs: what kube_control_plane says of two addresses.
func TestVirtualIPs(t *testing.T) {
	observed := health.Endpoint{Health: haproxy.Health{
		Address: "10.0.0.100", Others: []string{"fd00::100"}, Balancers: map[string]haproxy.Balancer{
			"cp1": {Holds: []string{"10.0.0.100", "fd00::100"}}, "cp2": {},
		},
	}}
	got := virtualIPOf(observed)
	if got.Holder.ValueString() != "cp1" || !slices.Equal(got.AdditionalAddresses["fd00::100"], []string{"cp1"}) {
		t.Errorf("got %+v", got)
	}
	observed.Others = nil
	if got := virtualIPOf(observed); len(got.AdditionalAddresses) > 0 {
		t.Errorf("with one address: %+v", got)
	}
}

// TestFurtherRegistration: replicas learn further virtual IPs from the plan, and their certificates have them.
func TestFurtherRegistration(t *testing.T) {
	m := dualStackEndpoint(t, "10.0.0.100", "fd00::100")
	var balancers haproxyModel
	diags := objectAs(t, m.HAProxy, &balancers)
	balancers.Further = stringList([]string{"10.0.0.101"})
	object, more := types.ObjectValueFrom(t.Context(), m.HAProxy.AttributeTypes(t.Context()), balancers)
	diags.Append(more...)
	before := m
	m.HAProxy = object
	m.planRegistration(t.Context(), types.StringNull(), &diags)
	got := decodeRegistration(t.Context(), m.Registration, &diags)
	if diags.HasError() || !slices.Equal(got.AdditionalAddresses(), []string{"10.0.0.101"}) ||
		!m.affectsMachine(t.Context(), before, nil) {
		t.Errorf("the registration is %s, %v", got.Key(), diags)
	}
	read, more := registrationObject(t.Context(), got)
	if more.HasError() || !read.Equal(m.Registration) {
		t.Errorf("an import reads the registration as %s, want %s", read, m.Registration)
	}
	recorded, err := registrationIn(registrationText(got))
	if err != nil || recorded.Key() != got.Key() {
		t.Errorf("a machine records %+v, %v", recorded, err)
	}
	got.Further = []string{"fe80::1"}
	if _, err := registrationIn(registrationText(got)); err == nil {
		t.Error("a machine's record may have any further address")
	}
	leaves := replicaBehind(m.Registration).leaves(t.Context())
	if !slices.ContainsFunc(leaves, func(l pki.Leaf) bool {
		return slices.Contains(l.Hosts, "10.0.0.101") && slices.Contains(l.Hosts, "fd00::100")
	}) {
		t.Errorf("no certificate has both addresses: %v", leaves)
	}
}

// TestRefusedFurther: a further virtual IP that is another address already, or of no family of the machines.
func TestRefusedFurther(t *testing.T) {
	for address, cause := range map[string]string{
		"10.0.0.101": "", "fd00::101": "", "10.0.0.100": "is the endpoint's address already",
		"fd00::100": "is the endpoint's address6 already", "10.0.0.11": "is the address of host cp1 already",
	} {
		m := dualStackEndpoint(t, "10.0.0.100", "fd00::100")
		var balancers haproxyModel
		diags := objectAs(t, m.HAProxy, &balancers)
		balancers.Further = stringList([]string{address})
		object, more := types.ObjectValueFrom(t.Context(), m.HAProxy.AttributeTypes(t.Context()), balancers)
		diags.Append(more...)
		m.HAProxy = object
		haproxyKind{}.validate(t.Context(), m, &diags)
		if text := wordsOf(diags); diags.HasError() != (cause != "") || !strings.Contains(text, cause) {
			t.Errorf("%s: %q, want %q", address, text, cause)
		}
	}
}
