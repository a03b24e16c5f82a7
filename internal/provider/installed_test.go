package provider

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/simulated"
)

// simulatedMachines starts the machines of one control plane, and returns them by name with the settings to reach them.
func simulatedMachines(t *testing.T) (fleet *simulated.Fleet, machines map[string]string, ssh map[string]any) {
	t.Helper()
	fleet, err := simulated.Start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Close() })
	key, err := fleet.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, plane := range fleet.Clusters() {
		machines = plane.(map[string]any)["machines"].(map[string]string)
	}
	return fleet, machines, map[string]any{"private_key": key, "known_hosts": "", "hosts": fleet.Hosts()}
}

// sessionOn returns a session that reaches the machines.
func sessionOn(t *testing.T, ssh map[string]any) *session {
	t.Helper()
	overrides := map[string]host.Override{}
	for address, at := range ssh["hosts"].(map[string]any) {
		at := at.(map[string]any)
		overrides[address] = host.Override{
			Address: at["address"].(string), Port: at["port"].(int), HostKey: at["host_key"].(string),
		}
	}
	pool, err := host.NewPool(host.Config{
		Credentials: host.Credentials{PrivateKey: ssh["private_key"].(string)}, Overrides: overrides,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	s := &session{pool: pool, sealKnown: true}
	s.replicas = controlplane.NewReplicas(s.machine)
	return s
}

// hangs makes a machine hang until the test ends, or has taken too long.
func hangs(t *testing.T, fleet *simulated.Fleet, address string) {
	t.Helper()
	end := fleet.Hang(address)
	late := time.AfterFunc(time.Minute, func() {
		t.Errorf("it waits for the machine that hangs")
		end()
	})
	t.Cleanup(func() {
		late.Stop()
		end()
	})
}

// TestInstalledOnAMachineThatHangs: what is installed there is not known, and nobody waits for it longer than for any
// other observation. The plan goes on, and a refresh keeps the state with a warning.
func TestInstalledOnAMachineThatHangs(t *testing.T) {
	_, external := bundles(t)
	fleet, machines, ssh := simulatedMachines(t)
	address := machines["cp1"]
	hangs(t, fleet, address)

	const limit = 15 * time.Second // of which it takes two thirds, and 3 s to end the command
	t.Run("check", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		var diags diag.Diagnostics
		copied := *external
		sessionOn(t, ssh).checkSigned(ctx, &copied, types.ObjectNull(signedTypes), machine.Leaves("cp1", address),
			types.StringValue(address), time.Now(), &diags)
		if len(diags) > 0 {
			t.Errorf("%s", text(diags))
		}
	})

	p := configuredWith(t, ssh)
	encoded := bundleText(t, external).ValueString()
	etcd := "https://" + address
	limited := map[string]any{
		"host": map[string]any{"address": address}, "timeouts": map[string]any{"read": limit.String()},
	}
	for kind, of := range map[string]struct {
		state    map[string]any
		computed []string
	}{
		"kube_etcd_member": {with(with(memberState(t, encoded), limited), map[string]any{
			"peers": map[string]any{"cp1": address}, "client_url": etcd + ":2379", "peer_url": etcd + ":2380",
		}), memberOutputs},
		"kube_control_plane_replica": {with(with(replicaState(t, encoded, external.ClusterID), limited), map[string]any{
			"etcd": []string{etcd + ":2379"},
		}), replicaOutputs},
	} {
		t.Run("read "+kind, func(t *testing.T) {
			t.Parallel()
			kept, output := p.read(t, kind, of.state)
			if !kept || strings.Contains(output, "ERROR") || !strings.Contains(output, "WARNING") ||
				!strings.Contains(output, "Machine does not answer") || !strings.Contains(output, address) {
				t.Errorf("kept %t: %s", kept, output)
			}
		})
		t.Run("plan "+kind, func(t *testing.T) {
			t.Parallel()
			if changes := p.update(t, kind, of.computed, of.state, of.state, ""); len(changes) > 0 {
				t.Errorf("nothing changes, and it plans %v", changes)
			}
		})
	}
}

// TestQueriesOfAnExternalBundle: data sources look for certificates on machines within their own timeout.
func TestQueriesOfAnExternalBundle(t *testing.T) {
	_, external := bundles(t)
	fleet, machines, ssh := simulatedMachines(t)
	hangs(t, fleet, machines["cp1"])
	p := configuredWith(t, ssh)
	for _, name := range []string{"kube_control_plane", "kube_production_readiness", "kube_version_skew"} {
		state, output, took := readQuery(t, p, name, map[string]tftypes.Value{
			"pki": textValue(bundleText(t, external).ValueString()),
			"etcd": tftypes.NewValue(tftypes.Set{ElementType: tftypes.String},
				[]tftypes.Value{textValue("https://" + machines["cp1"] + ":2379")}),
		})
		if state == nil || output != "" || took > 9*time.Second { // of 2 s, and 3 s to end a command
			t.Errorf("%s: %s after %s", name, output, took)
		}
	}
}
