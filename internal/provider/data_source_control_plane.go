package provider

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// controlPlaneDataSource reports the health of a whole control plane. It is made for check
// blocks: a component that is down is part of the result, and an error only if fail_on says so.
// So it never blocks a repair.
type controlPlaneDataSource struct {
	configured
	now func() time.Time
}

var (
	_ datasource.DataSource              = (*controlPlaneDataSource)(nil)
	_ datasource.DataSourceWithConfigure = (*controlPlaneDataSource)(nil)
)

const (
	controlPlaneTimeout    = 30 * time.Second
	defaultCertificateDays = 30
	// queryReserve is how long a machine may take to end a command that has timed out. It is
	// subtracted from the time limit, so that the limit is met.
	queryReserve = 3 * time.Second
)

func newControlPlaneDataSource() datasource.DataSource {
	return &controlPlaneDataSource{now: time.Now}
}

func (d *controlPlaneDataSource) Metadata(
	_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse,
) {
	resp.TypeName = req.ProviderTypeName + "_control_plane"
}

// Configure takes the data of the provider's Configure.
func (d *controlPlaneDataSource) Configure(
	_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse,
) {
	d.setSession(req.ProviderData, &resp.Diagnostics)
}

func (d *controlPlaneDataSource) Schema(
	ctx context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse,
) {
	resp.Schema = controlPlaneSchema(ctx)
}

func (d *controlPlaneDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model controlPlaneModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	timeout, diags := model.Timeouts.Read(ctx, controlPlaneTimeout)
	resp.Diagnostics.Append(diags...)
	ctx, cancel := context.WithTimeout(ctx, queryTime(timeout)) // also of looking for certificates on the machines
	defer cancel()
	at := d.session.queryTarget(ctx, model.PKI, model.Signed, model.Etcd, model.Endpoint, &resp.Diagnostics)
	failOn := stringsOf(ctx, model.FailOn, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx = reported(ctx, "kube_control_plane", at.registration.Address)
	seen := health.ControlPlane{
		Endpoint:   health.Endpoint{Health: haproxy.Health{Address: at.registration.Address}},
		NotQueried: at.unavailable,
	}
	if at.unavailable == "" {
		seen = d.session.observeControlPlane(ctx, at)
	}
	days, now := int64(defaultCertificateDays), d.now()
	if !model.CertificateDays.IsNull() {
		days = model.CertificateDays.ValueInt64()
	}
	issues := health.Issues(seen, days, now)
	model.fill(seen, issues, now)
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
	failOnIssues(&resp.Diagnostics, failOn, issues)
}

// queryTime returns the time limit less queryReserve, or less a fifth if the limit is short.
func queryTime(timeout time.Duration) time.Duration {
	return timeout - min(queryReserve, timeout/5)
}

// failOnIssues adds an error for each issue whose kind is in kinds.
func failOnIssues(diags *diag.Diagnostics, kinds []string, issues []health.Issue) {
	for _, kind := range health.Kinds {
		var words []string
		for _, detected := range issues {
			if detected.Kind == kind {
				words = append(words, detected.Text)
			}
		}
		if len(words) > 0 && slices.Contains(kinds, kind) {
			diags.AddAttributeError(attributePath("fail_on"), failure[kind],
				"Cause: "+problem.Indented(strings.Join(words, "\n"))+
					"\nUnchanged: nothing was changed.\nNext step: fix the cause and try again, or remove \""+kind+"\" from fail_on.")
		}
	}
}

var failure = map[string]string{
	health.Unreachable: "Parts of the control plane cannot be reached",
	health.Unhealthy:   "Control plane is unhealthy",
	health.Expiring:    "Certificates of the control plane expire soon",
}
