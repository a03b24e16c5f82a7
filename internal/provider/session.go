package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// session is what one configured provider shares among its resources: the
// connections and the coordinators that order what Terraform does in parallel.
type session struct {
	pool     *host.Pool // nil while the provider's settings are not all known
	source   host.Source
	clusters *etcd.Clusters
	replicas *controlplane.Replicas

	registrars *endpoint.Registrars
	abandon    bool
}

// configured is embedded by every resource that talks to machines.
type configured struct {
	session *session
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
	diags.AddError("The provider's settings are not known yet",
		"The provider \"kube\" is configured with values that are only known after another resource is applied, so no machine can be reached now.\n"+
			"Next step: apply those resources first (terraform apply -target=…), or give the provider values that are known.")
	return false
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
