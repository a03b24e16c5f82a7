package provider

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// session is what the resources of one configured provider share: the connections, and the
// coordinators that order the operations that Terraform runs in parallel.
type session struct {
	pool     *host.Pool // nil until all of the provider's settings are known, except ssh.hosts
	source   host.Source
	version  string // the provider's, and that of kube-snapshot-store
	clusters *etcd.Clusters
	replicas *controlplane.Replicas

	registrars     registrars
	adoptions      adoptions
	planned        disruption.Plan
	rotationEnds   rotationEnds
	versions       *versions
	restores       restores
	bundles        knownBundles
	openedBundles  openedBundles
	plannedBundles plannedBundles
	openTokens     openTokens
	// memberHooks are the addresses of the endpoints of which planned members have the hooks, by client URL, see
	// warnHooks.
	memberHooks sync.Map

	abandon host.Abandoned // machines that the user has declared permanently lost

	seal      *pki.Seal // nil: keys are stored in the clear
	sealKnown bool      // false while the provider's seal is unknown

	hostsPending bool // ssh.hosts is unknown, so no machine can be reached yet: host.ErrHostsPending
}

// configured is embedded by every resource that talks to machines or reads a bundle.
type configured struct {
	session *session
}

// Configure takes the data of the provider's Configure.
func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	c.setSession(req.ProviderData, &resp.Diagnostics)
}

// bundle decodes a pki attribute. If the attribute is unknown, or sealed while the provider's
// seal is unknown, it returns nil without an error.
func (s *session) bundle(value types.String, diags *diag.Diagnostics) *pki.Bundle {
	if value.IsUnknown() || value.IsNull() || s == nil || !s.sealKnown {
		return nil
	}
	bundle, err := s.openedBundles.open(value.ValueString(), s.seal)
	switch {
	case errors.Is(err, pki.ErrSealed):
		diags.AddAttributeError(attributePath("pki"), "Private keys cannot be opened",
			"Cause: "+err.Error()+"\nUnchanged: nothing was changed.\nNext step: add the identity of one of the "+
				"recipients (sealed_for of the kube_pki_bundle) to the provider's seal.")
	case err != nil:
		diags.AddAttributeError(attributePath("pki"), "Invalid PKI bundle",
			"Cause: "+err.Error()+"\nUnchanged: nothing was changed.\nNext step: use the bundle attribute of a "+
				"kube_pki_bundle.")
	}
	return bundle
}

// mustBundle is bundle for calls by which the provider's settings must be known.
func (s *session) mustBundle(value types.String, diags *diag.Diagnostics) *pki.Bundle {
	bundle := s.bundle(value, diags)
	if bundle == nil && !diags.HasError() {
		addUnknownSettings(diags)
	}
	return bundle
}

// sealedFor returns the recipients of newly sealed keys.
func (s *session) sealedFor() types.Set {
	if s == nil || !s.sealKnown {
		return types.SetUnknown(types.StringType)
	}
	return stringSet(s.seal.Recipients())
}

// setSession takes the data of the provider's Configure. data is nil while Terraform only
// validates.
func (c *configured) setSession(data any, diags *diag.Diagnostics) {
	if data == nil {
		return
	}
	s, ok := data.(*session)
	if !ok {
		diags.AddError("Unexpected provider data", "The resource was configured with the data of another "+
			"provider. This is a bug in the provider.")
		return
	}
	c.session = s
}

// asks reports whether machines can be asked now, for what is worth asking only if they answer.
func (s *session) asks() bool { return s != nil && s.pool != nil && !s.hostsPending }

// connected reports whether the settings of machines are known, and adds a diagnostic if not. If only ssh.hosts is
// unknown, each machine says so itself (host.ErrHostsPending): a Read then keeps its state.
func (c *configured) connected(diags *diag.Diagnostics) bool {
	if c.session != nil && c.session.pool != nil {
		return true
	}
	addUnknownSettings(diags)
	return false
}

func addUnknownSettings(diags *diag.Diagnostics) {
	diags.AddError("Provider settings are not known yet",
		"The provider \"kube\" is configured with values that are known only after another resource is applied, "+
			"so no machine can be reached and no sealed key can be opened now.\nNext step: apply those resources "+
			"first (terraform apply -target=…), or configure the provider with known values.")
}

func (s *session) machine(address string) *host.Host {
	return s.pool.Host(host.Target{Address: address})
}

func (s *session) machines(addresses map[string]string) map[string]*host.Host {
	machines := make(map[string]*host.Host, len(addresses))
	for name, address := range addresses {
		machines[name] = s.machine(address)
	}
	return machines
}

// machinesAt returns the machines at addresses, by address.
func (s *session) machinesAt(addresses []string) map[string]*host.Host {
	machines := make(map[string]*host.Host, len(addresses))
	for _, address := range addresses {
		machines[address] = s.machine(address)
	}
	return machines
}

// operation limits ctx by the resource's timeout and writes progress to the log.
func operation(ctx context.Context, timeout time.Duration, kind, name string) (context.Context, context.CancelFunc) {
	return context.WithTimeout(reported(ctx, kind, name), timeout)
}

// reported writes progress to the log.
func reported(ctx context.Context, kind, name string) context.Context {
	ctx = tflog.SetField(ctx, "resource", kind)
	ctx = tflog.SetField(ctx, "name", name)
	logged := ctx
	return problem.WithReport(ctx, problem.Report{
		Progress: func(line string) { tflog.Info(logged, line) },
		Detail:   func(line string) { tflog.Debug(logged, line) },
	})
}
