// Package provider is the Terraform interface: schemas, models, and CRUD methods that decode,
// make one call into a domain package, and encode.
package provider

import (
	"context"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/kubevip"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	_ provider.Provider                       = (*kubeProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*kubeProvider)(nil)
	_ provider.ProviderWithFunctions          = (*kubeProvider)(nil)
	_ provider.ProviderWithActions            = (*kubeProvider)(nil)
	_ provider.ProviderWithListResources      = (*kubeProvider)(nil)
)

// providerModel is the model of the provider block.
type providerModel struct {
	SSH     types.Object `tfsdk:"ssh"`
	Seal    types.Object `tfsdk:"seal"`
	Sources types.Object `tfsdk:"artifacts"`
	TSIG    types.Map    `tfsdk:"tsig_keys"`
	BGP     types.Map    `tfsdk:"bgp_passwords"`
	Abandon types.Set    `tfsdk:"abandon_unreachable_hosts"`
}

type kubeProvider struct {
	version string
	around  host.Around // nil outside of tests
}

// New returns the provider's constructor. version is shown to Terraform.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &kubeProvider{version: version} }
}

// NewAround is New for tests that interrupt remote commands and changing requests. around is their
// host.Config.Around.
func NewAround(version string, around host.Around) func() provider.Provider {
	return func() provider.Provider { return &kubeProvider{version: version, around: around} }
}

func (p *kubeProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "kube"
	resp.Version = p.version
}

func (p *kubeProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Manages self-hosted, highly available Kubernetes control planes on plain machines " +
			"over SSH: the fixed API endpoint, control-plane replicas, etcd members and the PKI bundle.",
		Attributes: map[string]schema.Attribute{
			"ssh":                       sshSchema(),
			"seal":                      sealSchema(),
			"artifacts":                 artifactsSchema(),
			"tsig_keys":                 tsigSchema(),
			"bgp_passwords":             bgpPasswordsSchema(),
			"abandon_unreachable_hosts": abandonSchema(),
		},
	}
}

// abandonSchema describes the machines that are permanently lost.
func abandonSchema() schema.Attribute {
	return schema.SetAttribute{
		Optional: true, ElementType: types.StringType,
		Validators: []validator.Set{setvalidator.ValueStringsAre(ipValidator())},
		MarkdownDescription: "Addresses (`host.address`) of machines that are permanently lost. Resources on them " +
			"can be destroyed although the machine cannot be reached: the other machines remove the member from " +
			"etcd and the replica from the balancers, and the machine itself is not changed. Default: none. The " +
			"list applies only to machines that do not answer: an untrusted host key or a refused login is still " +
			"an error. An etcd member is abandoned only after another member has removed it. If no member " +
			"answers, possibly only your network is down, so every unreachable machine in `peers` must be listed, " +
			"and the reachable ones must have no member: this ends the cluster. A change does not affect any " +
			"machine; remove the addresses before you use them again.",
	}
}

func (p *kubeProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var model providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	s := &session{
		clusters: etcd.NewClusters(),
		versions: newVersions(),
		version:  p.version,
	}
	if elementsKnown(ctx, model.Abandon) {
		s.abandon = host.AbandonedAt(stringsOf(ctx, model.Abandon, &resp.Diagnostics)...)
	}
	s.replicas = controlplane.NewReplicas(s.machine)
	keys, diags := decodeTSIG(ctx, model.TSIG)
	resp.Diagnostics.Append(diags...)
	passwords, diags := decodePasswords(ctx, model.BGP)
	resp.Diagnostics.Append(diags...)
	observer := targets.NewObserver(s.machine, s.recordedReplica)
	observer.Abandoned = s.abandon
	s.registrars = registrars{
		haproxy: haproxy.NewRegistrars(s.machine), external: external.New(observer), dns: dns.New(observer, keys),
		bgp:     bgp.New(observer, passwords),
		kubeVIP: kubevip.New(observer, passwords),
		hooks:   &sync.Map{},
	}
	resp.EphemeralResourceData = s
	resp.ResourceData = s
	resp.DataSourceData = s
	resp.ActionData = s
	resp.ListResourceData = s
	if elementsKnown(ctx, model.Seal) {
		seal, diags := decodeSeal(ctx, model.Seal)
		resp.Diagnostics.Append(diags...)
		s.seal, s.sealKnown = seal, !diags.HasError()
	}
	// The settings of a single machine may be unknown, such as a host key that is created in the
	// same apply. Then only that machine has to wait, or all if it is not known whose settings are in hosts. Abandoned
	// machines matter to an apply only.
	if !sshKnown(ctx, model.SSH) || !elementsKnown(ctx, model.Sources) {
		return
	}
	config, diags := decodeSSH(ctx, model.SSH)
	resp.Diagnostics.Append(diags...)
	source, diags := decodeArtifacts(ctx, model.Sources)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.Around = p.around
	pool, err := host.NewPool(config)
	if err != nil {
		addConfigError(&resp.Diagnostics, path.Root("ssh"), "Invalid SSH settings", err)
		return
	}
	s.pool, s.source, s.hostsPending = pool, source, config.HostsPending
}

func (p *kubeProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		newPKIBundleResource,
		newEndpointResource,
		newEtcdMemberResource,
		newReplicaResource,
		newKubeconfigResource,
		newEtcdClientResource,
		newCertificateRequestsResource,
		newNodeBootstrapResource,
		newBootstrapTokenResource,
		newDrillResource,
	}
}

func (p *kubeProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{newKubeconfigEphemeral, newBootstrapTokenEphemeral}
}

// Actions returns what is done on request. Terraform supports actions since 1.14. Older versions and
// OpenTofu do not call this method.
func (p *kubeProvider) Actions(context.Context) []func() action.Action {
	return []func() action.Action{
		newSnapshotAction, newDefragmentAction, newMoveLeaderAction, newDrainAction, newDrillAction,
	}
}

// ListResources returns what "terraform query" lists. Terraform supports it since 1.14.
func (p *kubeProvider) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{newMemberList, newReplicaList, newEndpointList}
}

// Functions returns the provider's functions, which need no machine and no configuration.
// Terraform supports functions since 1.8. Older versions do not call this method.
func (p *kubeProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{
		newAlertRulesFunction, newCertificateFunction, newDashboardsFunction, newFirewallRulesFunction,
		newKonnectivityAgentFunction, newKubeconfigFunction, newScrapeConfigsFunction,
	}
}

func (p *kubeProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		newVersionSkewDataSource, newControlPlaneDataSource,
		newProductionReadinessDataSource,
	}
}
