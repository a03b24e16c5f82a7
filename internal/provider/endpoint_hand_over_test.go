package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TestWarnHandOver: the plan of a step after which somebody else has to act says so once.
func TestWarnHandOver(t *testing.T) {
	in := func(step types.String) endpointModel {
		m := dualStackEndpoint(t, "10.0.0.100", types.StringNull())
		var diags diag.Diagnostics
		balancers := m.balancers(t.Context(), &diags)
		balancers.HandOver = step
		var more diag.Diagnostics
		m.HAProxy, more = types.ObjectValueFrom(t.Context(), m.HAProxy.AttributeTypes(t.Context()), balancers)
		if diags.Append(more...); diags.HasError() {
			t.Fatal(diags)
		}
		return m
	}
	prepared := in(types.StringValue("prepare"))
	external := in(types.StringNull())
	external.HAProxy = types.ObjectNull(external.HAProxy.AttributeTypes(t.Context()))
	for name, c := range map[string]struct {
		plan  endpointModel
		state *endpointModel
		want  string
	}{
		"created":           {in(types.StringNull()), nil, ""},
		"created, prepared": {prepared, nil, ""},
		"created, it takes": {in(types.StringValue("take")), nil, "Endpoint 10.0.0.100 takes its address when it is free"},
		"it takes":          {in(types.StringValue("take")), &prepared, "takes its address"},
		"it gives it up":    {in(types.StringValue("release")), &prepared, "gives its address up"},
		"no change":         {prepared, &prepared, ""},
		"the end":           {in(types.StringNull()), &prepared, ""},
		"not known yet":     {in(types.StringUnknown()), &prepared, ""},
		"another kind":      {external, &external, ""},
	} {
		var diags diag.Diagnostics
		warnHandOver(t.Context(), c.plan, c.state, &diags)
		if diags.HasError() || (len(diags) > 0) != (c.want != "") ||
			c.want != "" && !strings.Contains(diags[0].Summary(), c.want) {
			t.Errorf("%s: %v, want %q", name, diags, c.want)
		}
	}
}
