package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// versionSkewDataSource reports the versions that a whole control plane runs and the versions
// it can be upgraded to. It is made for check blocks: an unreachable component is part of the
// result, never an error.
type versionSkewDataSource struct{ configured }

var (
	_ datasource.DataSource              = (*versionSkewDataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*versionSkewDataSource)(nil)
)

type versionSkewModel struct {
	PKI              types.String   `tfsdk:"pki"`
	Signed           types.Object   `tfsdk:"signed"`
	Etcd             types.Set      `tfsdk:"etcd"`
	Endpoint         types.Object   `tfsdk:"endpoint"`
	KubernetesTarget types.String   `tfsdk:"kubernetes_target"`
	EtcdTarget       types.String   `tfsdk:"etcd_target"`
	Timeouts         timeouts.Value `tfsdk:"timeouts"`

	Kubernetes    types.Object `tfsdk:"kubernetes"`
	EtcdCluster   types.Object `tfsdk:"etcd_cluster"`
	Kubelets      types.Object `tfsdk:"kubelets"`
	TargetAllowed types.Bool   `tfsdk:"target_allowed"`
	Refusals      types.List   `tfsdk:"refusals"`
	RemovedAPIs   types.List   `tfsdk:"removed_apis"`
	Issues        types.List   `tfsdk:"issues"`
}

func newVersionSkewDataSource() datasource.DataSource { return &versionSkewDataSource{} }

func (d *versionSkewDataSource) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_version_skew"
}

// Configure takes the data of the provider's Configure.
func (d *versionSkewDataSource) Configure(
	_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse,
) {
	d.setSession(req.ProviderData, &resp.Diagnostics)
}

func (d *versionSkewDataSource) Schema(
	ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse,
) {
	resp.Schema = versionSkewSchema(ctx)
}

func (d *versionSkewDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model versionSkewModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, time.Minute)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, queryTime(timeout)) // also of looking for certificates on the machines
	defer cancel()
	at := d.session.queryTarget(ctx, model.PKI, model.Signed, model.Etcd, model.Endpoint, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx = reported(ctx, "kube_version_skew", at.registration.Address)
	seen := observedVersions{issues: []string{at.unavailable}}
	if at.unavailable == "" {
		seen = d.observe(ctx, at.bundle, at.urls, at.registration, model.KubernetesTarget.ValueString())
	}
	model.fill(seen)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// observedVersions contains the versions of a control plane, and which versions are unknown.
type observedVersions struct {
	skew   release.Versions
	survey membership.Survey
	issues []string
}

// observe queries etcd and the replicas in parallel.
func (d *versionSkewDataSource) observe(
	ctx context.Context, bundle *pki.Bundle, urls []string, registration endpoint.Registration, target string,
) observedVersions {
	var out observedVersions
	var surveyErr, skewErr error
	var asking sync.WaitGroup
	asking.Go(func() {
		out.survey, surveyErr = d.session.clusters.Survey(ctx, d.session.machinesAt(addressesOf(urls)), bundle)
	})
	asking.Go(func() { out.skew, skewErr = d.replicas(ctx, bundle, registration, target) })
	asking.Wait()
	out.issues = append(queryFailure("etcd", surveyErr), queryFailure("the replicas", skewErr)...)
	ways := membership.UpgradePathsFrom(out.survey)
	out.issues = append(out.issues, ways.Issues...)
	out.issues = append(out.issues, out.skew.Unknown()...) // before etcd is added: its own issues have more detail
	out.skew.Etcd = ways.Versions
	return out
}

// queryFailure reports which component could not be queried, and why.
func queryFailure(whom string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{whom + " could not be queried: " + problem.Indented(asProblem("", err).Cause)}
}

// replicas returns the replicas that the balancers list, and the kubelets registered with them.
// Any replica can answer for all of them. The queries begin with the first one.
func (d *versionSkewDataSource) replicas(
	ctx context.Context, bundle *pki.Bundle, registration endpoint.Registration, target string,
) (release.Versions, error) {
	registrar := d.session.registrars.For(registration)
	listed, err := registrar.Replicas(ctx)
	if err != nil {
		return release.Versions{}, fmt.Errorf("the balancers do not list them: %s", asProblem("", err).Cause)
	}
	names := slices.Sorted(maps.Keys(listed))
	if len(names) == 0 {
		return release.Versions{}, fmt.Errorf("the endpoint %s has no replicas", registration.Address)
	}
	first := names[0]
	address, text, err := net.SplitHostPort(listed[first])
	port, notNumber := strconv.Atoi(text)
	if err := errors.Join(err, notNumber); err != nil {
		return release.Versions{}, fmt.Errorf("read the address of replica %s on the balancers: %w", first, err)
	}
	return d.session.replicas.Versions(ctx, controlplane.Spec{
		Replica: component.Replica{
			Name: first, Address: address, Port: port, Bundle: bundle, Version: target,
			EndpointHost: registration.Address, EndpointPort: registration.Port,
		},
		Host: d.session.machine(address), Registrar: registrar,
	})
}

// clientLeaves returns the client certificates that data sources and actions authenticate with.
// They are needed if the key of an authority is external.
func clientLeaves() []pki.Leaf {
	return append(machine.Leaves("", ""), component.Leaves(pki.APIServerNames{})...)
}

// fill sets the computed attributes from observed values only.
func (m *versionSkewModel) fill(seen observedVersions) {
	kubernetes, cluster := release.UpgradePathsFrom(seen.skew), membership.UpgradePathsFrom(seen.survey)
	m.Kubernetes = object(map[string]attr.Value{
		"versions":    stringMap(seen.skew.Replicas),
		"settled":     types.BoolValue(kubernetes.Uniform),
		"oldest":      orNull(kubernetes.Oldest),
		"newest":      orNull(kubernetes.Newest),
		"next_minors": stringList(kubernetes.NextMinors),
	})
	m.EtcdCluster = object(map[string]attr.Value{
		"versions":        stringMap(cluster.Versions),
		"cluster_version": orNull(seen.survey.ClusterVersion),
		"settled":         types.BoolValue(cluster.Uniform),
		"healthy":         types.BoolValue(cluster.Healthy),
		"next_minors":     stringList(cluster.NextMinors),
	})
	m.Kubelets = object(map[string]attr.Value{
		"versions": stringMap(seen.skew.Kubelets),
		"oldest":   orNull(kubernetes.OldestKubelet),
		"blocks":   orNull(kubernetes.BlockedFrom),
	})
	refusals := refusalsOf(seen, m.EtcdTarget.ValueString(), m.KubernetesTarget.ValueString())
	m.Refusals, m.Issues, m.RemovedAPIs = stringList(refusals), stringList(seen.issues), stringList(seen.skew.Removed)
	m.TargetAllowed = types.BoolNull()
	if !m.EtcdTarget.IsNull() || !m.KubernetesTarget.IsNull() {
		m.TargetAllowed = types.BoolValue(len(refusals) == 0 && len(seen.issues) == 0)
	}
}

// refusalsOf returns the rules that forbid an upgrade to the targets. etcd is upgraded first,
// so its rules come first. If they allow the target of etcd, Kubernetes is checked against it.
func refusalsOf(seen observedVersions, etcdTarget, kubernetesTarget string) []string {
	var refusals []string
	if etcdTarget != "" {
		if err := membership.MayChangeVersion(seen.survey, etcdTarget); err != nil {
			refusals = append(refusals, "etcd: "+err.Error())
		} else {
			seen.skew.Etcd = maps.Clone(seen.skew.Etcd)
			for name := range seen.skew.Etcd {
				seen.skew.Etcd[name] = etcdTarget
			}
		}
	}
	if kubernetesTarget != "" {
		for _, refusal := range release.Violations(kubernetesTarget, seen.skew) {
			refusals = append(refusals, "Kubernetes: "+refusal)
		}
	}
	return refusals
}

// object returns an object value whose type is derived from its attributes.
func object(parts map[string]attr.Value) types.Object {
	kinds := map[string]attr.Type{}
	for name, part := range parts {
		kinds[name] = part.Type(context.Background())
	}
	return types.ObjectValueMust(kinds, parts)
}
