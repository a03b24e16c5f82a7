package provider

import (
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// configuredWith configures the provider with SSH settings. An unknown value is
// tftypes.UnknownValue.
func configuredWith(t *testing.T, ssh map[string]any) planner {
	t.Helper()
	p := serve(t)
	kind := p.schemas.Provider.ValueType()
	resp, err := p.server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{
		TerraformVersion: "1.11.4", Config: dynamic(t, kind, valueOf(t, kind, map[string]any{"ssh": ssh})),
	})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatal(err, resp)
	}
	return p
}

// read reads a resource and returns whether its state is kept, and the diagnostics.
func (p planner) read(t *testing.T, kind string, state map[string]any) (kept bool, output string) {
	t.Helper()
	of := p.schemas.ResourceSchemas[kind].ValueType()
	before := valueOf(t, of, state)
	resp, err := p.server.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName:     kind,
		CurrentState: dynamic(t, of, before),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		output += d.Severity.String() + ": " + d.Summary + "\n" + d.Detail + "\n"
	}
	after, err := resp.NewState.Unmarshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return after.Equal(before), output
}

// closedPort returns a port of this computer on which nothing listens.
func closedPort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// TestPendingMachine checks that unknown settings of one machine delay that machine only: others
// are contacted, and resources on the machine are planned as created.
func TestPendingMachine(t *testing.T) {
	here, _ := bundles(t)
	text := bundleText(t, here).ValueString()
	for name, pending := range map[string]any{
		"a host key":   map[string]any{"host_key": tftypes.UnknownValue},
		"all settings": tftypes.UnknownValue,
	} {
		t.Run(name, func(t *testing.T) {
			p := configuredWith(t, map[string]any{"known_hosts": "", "hosts": map[string]any{
				"127.0.0.1": map[string]any{"port": closedPort(t)}, "10.0.0.14": pending,
			}})
			at := func(name, address string) map[string]any {
				return with(memberState(t, text), map[string]any{
					"name": name, "host": map[string]any{"address": address}, "peers": map[string]any{name: address},
					"client_url": "https://" + address + ":2379", "peer_url": "https://" + address + ":2380",
				})
			}
			kept, output := p.read(t, "kube_etcd_member", at("cp1", "127.0.0.1"))
			if !kept || !strings.Contains(output, "WARNING") || !strings.Contains(output, "connection refused") ||
				strings.Contains(output, "not known yet") {
				t.Errorf("a machine with known settings was not contacted (kept %t): %s", kept, output)
			}
			kept, output = p.read(t, "kube_etcd_member", at("cp4", "10.0.0.14"))
			if !kept || !strings.Contains(output, "WARNING") ||
				!strings.Contains(output, "SSH settings of the machine are not known yet") {
				t.Errorf("the state of the machine (kept %t): %s", kept, output)
			}
			p.created(t, "kube_etcd_member", memberOutputs, at("cp4", "10.0.0.14"))
			p.created(t, "kube_control_plane_replica", replicaOutputs,
				with(replicaState(t, text, here.ClusterID), map[string]any{
					"name": "cp4", "host": map[string]any{"address": "10.0.0.14"}, "etcd": []string{"https://10.0.0.14:2379"},
				}))
		})
	}
}

// created plans a new resource and expects that it is planned without an error.
func (p planner) created(t *testing.T, kind string, computed []string, arguments map[string]any) {
	t.Helper()
	input := with(arguments, nil)
	for _, name := range computed {
		delete(input, name)
	}
	of := p.schemas.ResourceSchemas[kind].ValueType()
	config := dynamic(t, of, valueOf(t, of, input))
	for _, name := range computed {
		input[name] = tftypes.UnknownValue
	}
	resp, err := p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: kind, PriorState: dynamic(t, of, tftypes.NewValue(of, nil)),
		ProposedNewState: dynamic(t, of, valueOf(t, of, input)), Config: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range resp.Diagnostics {
		t.Errorf("%s is not planned as created: %s: %s", kind, d.Summary, d.Detail)
	}
}

// TestPendingProvider checks that unknown settings of all machines are an error of a read.
func TestPendingProvider(t *testing.T) {
	here, _ := bundles(t)
	for name, ssh := range map[string]map[string]any{
		"a key":     {"private_key": tftypes.UnknownValue},
		"a bastion": {"bastion": map[string]any{"address": tftypes.UnknownValue}},
	} {
		_, output := configuredWith(t, ssh).read(t, "kube_etcd_member", memberState(t, bundleText(t, here).ValueString()))
		if !strings.Contains(output, "ERROR: Provider settings are not known yet") {
			t.Errorf("%s: %s", name, output)
		}
	}
}

// TestPendingHosts checks that no machine is contacted while hosts is unknown: any of them may have settings there,
// such as another port, behind which another sshd would get the login. Each read keeps the state and says so, and a
// plan is possible.
func TestPendingHosts(t *testing.T) {
	here, _ := bundles(t)
	text := bundleText(t, here).ValueString()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialled := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
			close(dialled)
		}
	}()
	p := configuredWith(t, map[string]any{
		"known_hosts": "", "port": listener.Addr().(*net.TCPAddr).Port, "hosts": tftypes.UnknownValue,
	})
	local := map[string]any{"address": "127.0.0.1"}
	member := with(memberState(t, text), map[string]any{
		"host": local, "peers": map[string]any{"cp1": "127.0.0.1"}, "client_url": "https://127.0.0.1:2379",
		"peer_url": "https://127.0.0.1:2380",
	})
	replica := with(replicaState(t, text, here.ClusterID), map[string]any{
		"host": local, "etcd": []string{"https://127.0.0.1:2379"},
	})
	for kind, of := range map[string]struct {
		state    map[string]any
		computed []string
	}{
		"kube_etcd_member":           {member, memberOutputs},
		"kube_control_plane_replica": {replica, replicaOutputs},
	} {
		kept, output := p.read(t, kind, of.state)
		if !kept || strings.Contains(output, "ERROR") || !strings.Contains(output, "WARNING") ||
			!strings.Contains(output, "ssh.hosts of the provider is not known yet") {
			t.Errorf("read of %s (kept %t): %s", kind, kept, output)
		}
		p.created(t, kind, of.computed, of.state)
		if changes := p.update(t, kind, of.computed, of.state, of.state, ""); len(changes) > 0 {
			t.Errorf("plan of %s, of which nothing changes: %v", kind, changes)
		}
	}
	select {
	case <-dialled:
		t.Error("a machine was dialled without its settings")
	default:
	}
}

// TestPendingHostsRestore: while hosts is unknown, a plan says nothing of what a restore would do. It asks no machine,
// so all of them would be unreachable.
func TestPendingHostsRestore(t *testing.T) {
	here, _ := bundles(t)
	restored := with(memberState(t, bundleText(t, here).ValueString()), map[string]any{
		"restore": map[string]any{"id": "r1", "member": "cp1"},
	})
	p := configuredWith(t, map[string]any{"known_hosts": "", "hosts": tftypes.UnknownValue})
	p.created(t, "kube_etcd_member", memberOutputs, restored)
}
