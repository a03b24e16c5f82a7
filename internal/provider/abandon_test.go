package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestKeepUnread checks that the state is kept only for a machine that is unreachable or hangs.
func TestKeepUnread(t *testing.T) {
	lost := fmt.Errorf("dial: %w", host.ErrUnreachable)
	changed := &host.HostKeyError{Address: "10.0.0.12", Seen: "ssh-ed25519 AAAA", Known: []string{"ssh-ed25519 BBBB"}}
	for _, c := range []struct {
		name string
		err  error
		kept bool
	}{
		{"unreachable", lost, true},
		{"hangs", fmt.Errorf("observe: %w", host.ErrNoAnswer), true},
		{"host key of one, another hangs", errors.Join(host.ErrNoAnswer, changed), false},
		{"host key", fmt.Errorf("look: %w", changed), false},
		{"host key of one, another unreachable", errors.Join(lost, changed), false},
		{"authentication", fmt.Errorf("dial: %w", host.ErrAuth), false},
		{"no root", fmt.Errorf("dial: %w", host.ErrNotRoot), false},
		{"any other", errors.New("odd"), false},
	} {
		var diags diag.Diagnostics
		reportUnread(&diags, path.Root("host"), "etcd member \"cp2\"", c.err)
		if diags.HasError() == c.kept || diags.WarningsCount() > 0 != c.kept {
			t.Errorf("%s: %v", c.name, diags)
		}
	}
}

// TestRotationUnknown: an endpoint that does not say whether a replica is in rotation is a warning, and the state keeps
// what was known of it.
func TestRotationUnknown(t *testing.T) {
	for _, before := range []types.Bool{types.BoolValue(true), types.BoolValue(false), types.BoolNull()} {
		m := replicaModel{Registered: before}
		m.fill(controlplane.Status{RotationErr: errors.New("no answer"), MachineID: "4f1c"})
		if !m.Registered.Equal(before) || m.MachineID.ValueString() != "4f1c" {
			t.Errorf("%s becomes %s", before, m.Registered)
		}
	}
	var diags diag.Diagnostics
	warnRotationUnknown(&diags, `Control-plane replica "cp1"`, errors.New("no answer from the name server"))
	if diags.HasError() || diags.WarningsCount() != 1 || !strings.Contains(diags[0].Detail(), "no answer from the name") {
		t.Errorf("%v", diags)
	}
}

// TestAbandonSetting checks that addresses are validated with the configuration. Names and
// addresses that are not in canonical form are rejected.
func TestAbandonSetting(t *testing.T) {
	for _, c := range []struct {
		input []string
		valid bool
	}{
		{[]string{"10.0.0.12", "fd00::12"}, true},
		{nil, true},
		{[]string{"cp2"}, false},
		{[]string{"fd00:0::12"}, false},
	} {
		server, config := configuring(t, c.input)
		resp, err := server.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: config})
		if err != nil || (len(resp.Diagnostics) == 0) != c.valid {
			t.Errorf("%q: %v, %v", c.input, resp.Diagnostics, err)
		}
	}
}

// configuring returns a provider and a configuration in which these addresses are abandoned.
func configuring(t *testing.T, gone []string) (tfprotov6.ProviderServer, *tfprotov6.DynamicValue) {
	t.Helper()
	p := serve(t)
	kind := p.schemas.Provider.ValueType()
	input := map[string]any{}
	if gone != nil {
		input["abandon_unreachable_hosts"] = gone
	}
	return p.server, dynamic(t, kind, valueOf(t, kind, input))
}
