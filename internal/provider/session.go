package provider

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// session is what one configured provider shares among its resources: the
// connections and the coordinators that order what Terraform does in parallel.
type session struct {
	pool     *host.Pool // nil while the provider's settings are not all known
	source   host.Source
	clusters *etcd.Clusters
	replicas *controlplane.Replicas

	registrars    *endpoint.Registrars
	claims        claims
	survival      survival
	versions      *versions
	bundles       knownBundles
	openedBundles openedBundles
	abandon       host.Abandoned // machines that the user says are gone for good

	seal      *pki.Seal // nil: keys are stored in the clear
	sealKnown bool      // false while the provider's seal is not known
}

// configured is embedded by every resource that talks to machines or reads a bundle.
type configured struct {
	session *session
}

// Configure takes what the provider's Configure handed on.
func (c *configured) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	c.setSession(req.ProviderData, &resp.Diagnostics)
}

// bundle reads a pki attribute. One that is unknown, or sealed while the
// provider's seal is unknown, gives nil without error.
func (s *session) bundle(value types.String, diags *diag.Diagnostics) *pki.Bundle {
	if value.IsUnknown() || value.IsNull() || s == nil || !s.sealKnown {
		return nil
	}
	bundle, err := s.openedBundles.open(value.ValueString(), s.seal)
	switch {
	case errors.Is(err, pki.ErrSealed):
		diags.AddAttributeError(attributePath("pki"), "Private keys cannot be opened",
			"Cause: "+err.Error()+"\nUnchanged: nothing was changed.\nNext step: give the provider's seal the identity that belongs to one of the recipients (sealed_for of the kube_pki_bundle).")
	case err != nil:
		diags.AddAttributeError(attributePath("pki"), "Invalid PKI bundle",
			"Cause: "+err.Error()+"\nUnchanged: nothing was changed.\nNext step: give the bundle attribute of a kube_pki_bundle.")
	}
	return bundle
}

// mustBundle is bundle where the provider's settings must be known by now.
func (s *session) mustBundle(value types.String, diags *diag.Diagnostics) *pki.Bundle {
	bundle := s.bundle(value, diags)
	if bundle == nil && !diags.HasError() {
		addUnknownSettings(diags)
	}
	return bundle
}

// sealedFor are the recipients of what is sealed from now on.
func (s *session) sealedFor() types.List {
	if s == nil || !s.sealKnown {
		return types.ListUnknown(types.StringType)
	}
	return stringList(s.seal.Recipients())
}

// setSession takes what the provider's Configure handed on; data is nil while
// Terraform only validates.
func (c *configured) setSession(data any, diags *diag.Diagnostics) {
	if data == nil {
		return
	}
	s, ok := data.(*session)
	if !ok {
		diags.AddError("Unexpected provider data", "This is a bug in the provider: the resource was configured with another provider's data.")
		return
	}
	c.session = s
}

// connected reports whether machines can be reached, with a diagnostic if not.
func (c *configured) connected(diags *diag.Diagnostics) bool {
	if c.session != nil && c.session.pool != nil {
		return true
	}
	addUnknownSettings(diags)
	return false
}

func addUnknownSettings(diags *diag.Diagnostics) {
	diags.AddError("The provider's settings are not known yet",
		"The provider \"kube\" is configured with values that are only known after another resource is applied, so no machine can be reached now, and no sealed key opened.\n"+
			"Next step: apply those resources first (terraform apply -target=…), or give the provider values that are known.")
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

// machinesAt are the machines at addresses, by address.
func (s *session) machinesAt(addresses []string) map[string]*host.Host {
	machines := make(map[string]*host.Host, len(addresses))
	for _, address := range addresses {
		machines[address] = s.machine(address)
	}
	return machines
}

// operation bounds ctx by the resource's timeout and sends progress to the log.
func operation(ctx context.Context, timeout time.Duration, kind, name string) (context.Context, context.CancelFunc) {
	ctx = tflog.SetField(ctx, "resource", kind)
	ctx = tflog.SetField(ctx, "name", name)
	logged := ctx
	ctx = problem.WithReport(ctx, problem.Report{
		Progress: func(line string) { tflog.Info(logged, line) },
		Detail:   func(line string) { tflog.Debug(logged, line) },
	})
	return context.WithTimeout(ctx, timeout)
}
