package provider

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestKeepUnread checks that the state is kept only for an unreachable machine.
func TestKeepUnread(t *testing.T) {
	lost := fmt.Errorf("dial: %w", host.ErrUnreachable)
	changed := &host.HostKeyError{Address: "10.0.0.12", Seen: "ssh-ed25519 AAAA", Known: []string{"ssh-ed25519 BBBB"}}
	for _, c := range []struct {
		name string
		err  error
		kept bool
	}{
		{"unreachable", lost, true},
		{"host key", fmt.Errorf("look: %w", changed), false},
		{"host key of one, another unreachable", errors.Join(lost, changed), false},
		{"authentication", fmt.Errorf("dial: %w", host.ErrAuth), false},
		{"no root", fmt.Errorf("dial: %w", host.ErrNotRoot), false},
		{"any other", errors.New("odd"), false},
	} {
		var diags diag.Diagnostics
		reportUnread(&diags, "etcd member \"cp2\"", c.err)
		if diags.HasError() == c.kept || diags.WarningsCount() > 0 != c.kept {
			t.Errorf("%s: %v", c.name, diags)
		}
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
