package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
)

// firewallRulesFunction returns the connections that a control plane needs, as data and as rules.
type firewallRulesFunction struct{}

var _ function.Function = (*firewallRulesFunction)(nil)

func newFirewallRulesFunction() function.Function { return &firewallRulesFunction{} }

func (f *firewallRulesFunction) Metadata(
	_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse,
) {
	resp.Name = "firewall_rules"
}

// ruleTypes are the attributes of a rule.
var ruleTypes = map[string]attr.Type{
	"name": types.StringType, "machine": types.StringType, "direction": types.StringType, "remote": types.StringType,
	"protocol": types.StringType, "port": types.Int64Type, "purpose": types.StringType,
}

// firewallTypes are the attributes of the result.
var firewallTypes = map[string]attr.Type{
	"rules":     types.ListType{ElemType: types.ObjectType{AttrTypes: ruleTypes}},
	"nftables":  types.MapType{ElemType: types.StringType},
	"firewalld": types.MapType{ElemType: types.ListType{ElemType: types.StringType}},
}

func (f *firewallRulesFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	resp.Definition = function.Definition{
		Summary: "Connections that a control plane needs",
		MarkdownDescription: "Returns the connections that a control plane needs, for firewalls: `rules` is a list of " +
			"objects with `name`, `machine` (an address), `direction` (`ingress` or `egress`), `remote` (a CIDR), `protocol` " +
			"(`tcp`, `udp` or `vrrp`, which is IP protocol 112), `port` (0 for `vrrp`) and `purpose`, such as security groups " +
			"of a cloud need them; `nftables` maps each machine to a file for `nft -f` that drops everything else that " +
			"comes in and, with `drop_egress`, that goes out; `firewalld` maps each machine to its rich rules. The guide " +
			"Topologies has the table that they are made of. The result follows from the argument alone.",
		Parameters: []function.Parameter{function.DynamicParameter{
			Name: "site",
			MarkdownDescription: "An object. The machines: `members`, `replicas` and `balancers`. Who connects to them, and " +
				"to whom they connect: `operator` (where Terraform runs, or its bastion; required), `clients`, `nodes`, " +
				"`monitoring`, `name_servers`, `routers` (of `bgp`, and of `kube_vip` with `mode = \"bgp\"`), " +
				"`external_balancers`, `endpoint_addresses` (all virtual IPs, to which machines connect) and " +
				"`balancer_addresses` (addresses that balancers have in the family of a second virtual IP, from which they " +
				"check it). Each is a list, set or map of addresses, or, for all but the machines, of CIDRs. Both families may " +
				"be named, whatever that of the machines is. A machine that is also among `nodes`, by its address or its " +
				"network, runs a kubelet (static pods, kubeadm), which the other replicas reach. `endpoint` is the kind of " +
				"endpoint (`haproxy`, the default, `external`, `dns`, `bgp` or `kube_vip`). " +
				"The ports `port` (of replicas, 6443), `endpoint_port` (6443) and `ssh_port` (22) have defaults; with " +
				"`agent_port`, agents of konnectivity are let in, and with `etcd_metrics_port`, `balancer_metrics_port` and " +
				"`node_exporter_port`, `monitoring` is at these ports. `drop_egress` (default `false`) is for machines that " +
				"run nothing but the control plane: the file for `nft -f` also drops everything else that goes out.",
		}},
		Return: function.ObjectReturn{AttributeTypes: firewallTypes},
	}
}

func (f *firewallRulesFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	site, err := siteOf(argument.UnderlyingValue())
	if errors.Is(err, errUnknown) {
		resp.Error = resp.Result.Set(ctx, types.ObjectUnknown(firewallTypes))
		return
	}
	if err == nil {
		err = site.Validate()
	}
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error()+"\nNext step: pass an object with the addresses of the "+
			"machines and of those that connect to them, as the documentation of firewall_rules shows")
		return
	}
	resp.Error = resp.Result.Set(ctx, firewallResult(site))
}

var (
	machineRoles = []firewall.Role{firewall.Members, firewall.Replicas, firewall.Balancers}
	remoteRoles  = []firewall.Role{
		firewall.Operator, firewall.Clients, firewall.Nodes, firewall.Monitoring, firewall.NameServers, firewall.Routers,
		firewall.ExternalBalancers, firewall.EndpointAddresses, firewall.BalancerAddresses,
	}
	portSettings = []firewall.Setting{
		firewall.APIPort, firewall.EndpointPort, firewall.SSHPort, firewall.AgentPort, firewall.EtcdMetricsPort,
		firewall.BalancerMetricsPort, firewall.NodeExporterPort,
	}
)

const maxPort = 65535

// siteOf decodes the argument. An attribute that it does not know is an error, because a rule would
// be missing.
func siteOf(argument attr.Value) (firewall.Site, error) {
	site := firewall.Site{
		Machines: map[firewall.Role][]netip.Addr{}, Remote: map[firewall.Role][]netip.Prefix{}, Endpoint: firewall.Kinds[0],
		Ports: map[firewall.Setting]int{},
	}
	values, err := objectOf(argument)
	if err != nil {
		return site, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch {
		case slices.Contains(machineRoles, firewall.Role(name)):
			err = eachText(value, func(text string) error {
				address, err := netip.ParseAddr(text)
				site.Machines[firewall.Role(name)] = append(site.Machines[firewall.Role(name)], address.Unmap())
				return err
			})
		case slices.Contains(remoteRoles, firewall.Role(name)):
			err = eachText(value, func(text string) error {
				prefix, err := prefixOf(text)
				site.Remote[firewall.Role(name)] = append(site.Remote[firewall.Role(name)], prefix)
				return err
			})
		case slices.Contains(portSettings, firewall.Setting(name)):
			site.Ports[firewall.Setting(name)], err = positiveOf(value, maxPort)
		case name == "endpoint":
			site.Endpoint, err = textOf(value)
		case name == "drop_egress":
			site.DropEgress, err = boolOf(value)
		default:
			err = errors.New("there is no such attribute")
		}
		if err != nil {
			return site, fmt.Errorf("%s: %w", name, err)
		}
	}
	return site, nil
}

// prefixOf parses a CIDR, or an address as the CIDR of it alone.
func prefixOf(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		return prefix.Masked(), err
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	return address.Prefix(address.BitLen())
}

func firewallResult(site firewall.Site) types.Object {
	var rules []attr.Value
	for _, r := range site.Rules() {
		rules = append(rules, types.ObjectValueMust(ruleTypes, map[string]attr.Value{
			"name": types.StringValue(r.Name), "machine": types.StringValue(r.Machine.String()),
			"direction": types.StringValue(string(r.Direction)), "remote": types.StringValue(r.Remote.String()),
			"protocol": types.StringValue(string(r.Protocol)), "port": types.Int64Value(int64(r.Port)),
			"purpose": types.StringValue(r.Purpose),
		}))
	}
	tables, lists := map[string]attr.Value{}, map[string]attr.Value{}
	for machine, text := range site.NFTables() {
		tables[machine] = types.StringValue(text)
	}
	for machine, texts := range site.RichRules() {
		list := []attr.Value{}
		for _, text := range texts {
			list = append(list, types.StringValue(text))
		}
		lists[machine] = types.ListValueMust(types.StringType, list)
	}
	return types.ObjectValueMust(firewallTypes, map[string]attr.Value{
		"rules":     types.ListValueMust(types.ObjectType{AttrTypes: ruleTypes}, rules),
		"nftables":  types.MapValueMust(types.StringType, tables),
		"firewalld": types.MapValueMust(types.ListType{ElemType: types.StringType}, lists),
	})
}
