package provider

import (
	"context"
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// textsOf is a tuple, as Terraform passes [ "a", "b" ].
func textsOf(texts ...string) attr.Value {
	var values []attr.Value
	var kinds []attr.Type
	for _, text := range texts {
		values, kinds = append(values, types.StringValue(text)), append(kinds, types.StringType)
	}
	return types.TupleValueMust(kinds, values)
}

func firewallRules(site map[string]attr.Value) (types.Object, *function.FuncError) {
	kinds := map[string]attr.Type{}
	for name, value := range site {
		kinds[name] = value.Type(context.Background())
	}
	resp := function.RunResponse{Result: function.NewResultData(types.ObjectUnknown(firewallTypes))}
	newFirewallRulesFunction().Run(context.Background(), function.RunRequest{
		Arguments: function.NewArgumentsData([]attr.Value{types.DynamicValue(types.ObjectValueMust(kinds, site))}),
	}, &resp)
	if resp.Error != nil {
		return types.Object{}, resp.Error
	}
	return resp.Result.Value().(types.Object), nil
}

func TestFirewallRulesFunction(t *testing.T) {
	machines := types.ObjectValueMust(map[string]attr.Type{"cp1": types.StringType, "cp2": types.StringType},
		map[string]attr.Value{"cp1": types.StringValue("10.0.0.11"), "cp2": types.StringValue("10.0.0.12")})
	got, err := firewallRules(map[string]attr.Value{
		"members": machines, "replicas": machines, "balancers": machines, "operator": textsOf("10.0.9.5", "10.0.8.7/24"),
		"clients": types.DynamicNull(), "agent_port": types.NumberNull(),
	})
	if err != nil {
		t.Fatal(err)
	}
	rules := got.Attributes()["rules"].(types.List).Elements()
	first := rules[0].(types.Object).Attributes()
	sameAttributes(t, first, map[string]attr.Value{
		"name": types.StringValue("ssh"), "machine": types.StringValue("10.0.0.11"),
		"direction": types.StringValue("ingress"), "remote": types.StringValue("10.0.9.5/32"),
		"protocol": types.StringValue("tcp"), "port": types.Int64Value(22), "purpose": first["purpose"],
	})
	file := got.Attributes()["nftables"].(types.Map).Elements()["10.0.0.12"].(types.String).ValueString()
	if !strings.Contains(file, "ip saddr 10.0.8.0/24 tcp dport 22 accept") {
		t.Errorf("not masked, or missing:\n%s", file)
	}
	if n := len(got.Attributes()["firewalld"].(types.Map).Elements()); n != 2 {
		t.Errorf("%d machines have rich rules", n)
	}
}

// TestFirewallRulesOfBothFamilies: virtual IPs, clients and balancers of the other family have their rules.
func TestFirewallRulesOfBothFamilies(t *testing.T) {
	machines := textsOf("10.0.0.11", "10.0.0.12")
	got, err := firewallRules(map[string]attr.Value{
		"members": machines, "replicas": machines, "balancers": machines, "operator": textsOf("10.0.9.5"),
		"clients": textsOf("10.0.0.0/16", "fd00:1::/32"), "nodes": textsOf("10.0.0.11", "fd00:2::/32"),
		"endpoint_addresses": textsOf("10.0.0.100", "fd00::100"), "balancer_addresses": textsOf("fd00::11", "fd00::12"),
		"drop_egress": types.BoolValue(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := got.Attributes()["nftables"].(types.Map).Elements()["10.0.0.11"].(types.String).ValueString()
	for _, want := range []string{
		"ip6 saddr fd00:1::/32 tcp dport 6443 accept", "ip6 saddr fd00:2::/32 tcp dport 6443 accept",
		"ip6 saddr fd00::12/128 tcp dport 6443 accept", "ip6 daddr fd00::100/128 tcp dport 6443 accept",
		"ip saddr 10.0.0.12/32 tcp dport 10250 accept",
	} {
		if !strings.Contains(file, want) {
			t.Errorf("%q is not in\n%s", want, file)
		}
	}
}

func TestFirewallRulesFunctionUnknown(t *testing.T) {
	for name, members := range map[string]attr.Value{
		"all of them": types.ListUnknown(types.StringType),
		"one": types.TupleValueMust([]attr.Type{types.StringType, types.StringType},
			[]attr.Value{types.StringValue("10.0.0.11"), types.StringUnknown()}),
	} {
		got, err := firewallRules(map[string]attr.Value{"members": members, "operator": textsOf("10.0.9.5")})
		if err != nil || !got.IsUnknown() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestFirewallRulesFunctionRefuses(t *testing.T) {
	for want, change := range map[string]map[string]attr.Value{
		"there is no such attribute":   {"memebrs": textsOf("10.0.0.11")},
		"members: ParseAddr":           {"members": textsOf(`10.0.0.11" accept; #`)},
		"netip.ParsePrefix":            {"operator": textsOf("10.0.0.0/33")},
		"it is no whole number from 1": {"port": types.NumberValue(big.NewFloat(70000))},
		"neither a string nor a":       {"clients": types.BoolValue(true)},
		"is no kind of endpoint":       {"endpoint": types.StringValue("vip")},
		"operator is empty":            {"operator": textsOf()},
		"endpoint_addresses is empty":  {"drop_egress": types.BoolValue(true)},
		"is neither true nor false":    {"drop_egress": types.StringValue("yes")},
		"is not the address of a mach": {"replicas": textsOf("::")},
	} {
		site := map[string]attr.Value{"members": textsOf("10.0.0.11"), "operator": textsOf("10.0.9.5")}
		for name, value := range change {
			site[name] = value
		}
		_, err := firewallRules(site)
		if err == nil || !strings.Contains(err.Text, want) || !strings.Contains(err.Text, "\nNext step: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
