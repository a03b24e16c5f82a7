package controlplane

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Health is the observed state of a machine that may have a replica.
type Health struct {
	Address           string
	Err               error       // why it could not be observed; nothing below is known then
	Port              int         // of its API server
	Name              string      // of the replica of this cluster; "" if it has none
	Foreign           string      // describes the foreign replica that it has instead
	Version           string      // of the API server that runs, or would be started
	Components        []Component // as Status.Components
	CertificateExpiry time.Time   // the earliest of all
}

// Healthy reports whether all three components are ready.
func (h Health) Healthy() bool {
	return len(h.Components) > 0 && !slices.ContainsFunc(h.Components, func(c Component) bool { return !c.Healthy })
}

// Health observes machines and the components of their replicas, all in parallel. It never
// fails: it returns what is known before ctx ends, in the order of addresses.
func (r *Replicas) Health(ctx context.Context, addresses []string, b *pki.Bundle) []Health {
	out := make([]Health, len(addresses))
	var machines sync.WaitGroup
	for i, address := range addresses {
		machines.Go(func() { out[i], _ = healthAt(ctx, r.machine(address), b, "") })
	}
	machines.Wait()
	return out
}

// healthAt first reads the record, which contains the address of the API server. script is run
// in the same round trip; its output lines differ from those of the query.
func healthAt(ctx context.Context, h *host.Host, b *pki.Bundle, script host.Script) (health Health, output string) {
	s := Spec{Replica: component.Replica{Address: h.Address(), Bundle: b}, Host: h}
	q := machine.HealthQuery(s.Replica)
	q.Script = script + q.Script
	facts, err := h.Observe(ctx, q)
	if err != nil {
		return Health{Address: h.Address(), Err: err}, ""
	}
	f := machine.Interpret(facts)
	s.Name, s.Port = f.Record.Name, f.Record.Port
	if f.Facts.Files[unit.Path(component.KonnectivityServer)].Content != "" {
		s.Konnectivity = &component.Konnectivity{} // the probe needs no more
	}
	answers := make([]string, len(component.Of(s.Replica)))
	if f.HasReplicaOf(b.ClusterID) {
		answers = s.client().Health(ctx)
	}
	return healthOf(s.Replica, f, answers), facts.Output
}

// healthOf combines the observations. The state of a unit that does not run explains more than
// a request without an answer.
func healthOf(s component.Replica, f machine.Observed, health []string) Health {
	out := Health{Address: s.Address}
	if !f.HasReplicaOf(s.Bundle.ClusterID) {
		switch {
		case f.RecordErr != nil:
			out.Foreign = f.RecordErr.Error()
		default:
			out.Foreign = machine.Describe(f.Record)
		}
		return out
	}
	out.Name, out.Port, out.Version = f.Record.Name, s.APIPort(), f.EffectiveVersion(release.APIServer)
	for i, c := range component.Of(s) {
		status := Component{
			Name: c.Name, Healthy: health[i] == client.Healthy, Health: health[i],
			Version: f.Version(c.Name), CertificateExpiry: earliest(f, c.Certificates),
		}
		if reason := machine.UnitProblem(f.Facts.Units[unit.Name(c.Name)]); reason != "" {
			status.Healthy, status.Health = false, fmt.Sprintf("%s %s", unit.Name(c.Name), reason)
		}
		out.Components = append(out.Components, status)
		out.CertificateExpiry = earlier(out.CertificateExpiry, status.CertificateExpiry)
	}
	out.CertificateExpiry = earlier(out.CertificateExpiry, earliest(f, []string{component.AdminConf}))
	return out
}

// MachineReview is the health of a machine, with additional data for a review.
type MachineReview struct {
	Health
	Processes map[string]host.Process // by component
	Files     map[string]string       // content of the files that the named flags of the API server point to, by flag
}

// Node is one node of the cluster.
type Node struct {
	Name      string
	Addresses []string
	Taints    []string // "KEY:EFFECT"
}

// Review is Health with, for each machine, the processes of its components and the files that
// the given flags of its API server name. Those files must not contain secrets.
func (r *Replicas) Review(ctx context.Context, addresses, flags []string, b *pki.Bundle) []MachineReview {
	out := make([]MachineReview, len(addresses))
	script := host.ProcessScript(unit.NamesOf(release.Components())...) + filesScript(flags)
	var machines sync.WaitGroup
	for i, address := range addresses {
		machines.Go(func() {
			h, output := healthAt(ctx, r.machine(address), b, script)
			out[i] = parseReview(h, output)
		})
	}
	machines.Wait()
	return out
}

// filesScript prints the files that the API server's process was started with.
func filesScript(flags []string) host.Script {
	return `pid=` + unit.MainPID(release.APIServer) + `
if [ "${pid:-0}" -gt 0 ]; then for flag in ` + host.Words(flags...) + `; do
  file=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n "s/^--$flag=//p")
  [ -f "$file" ] && printf 'file\t%s\t%s\n' "$flag" "$(base64 -w 0 "$file")"
done; fi
`
}

// parseReview parses the output of Review's script.
func parseReview(h Health, output string) MachineReview {
	r := MachineReview{Health: h, Processes: map[string]host.Process{}, Files: map[string]string{}}
	for name, process := range host.ReadProcesses(output) {
		r.Processes[unit.Component(name)] = process
	}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 || fields[0] != "file" {
			continue
		}
		if text, err := base64.StdEncoding.DecodeString(fields[2]); err == nil {
			r.Files[fields[1]] = string(text)
		}
	}
	return r
}

var errNoReadyAPIServer = errors.New("no API server of a replica that can be looked at is ready")

// Nodes lists the nodes of the cluster through the first replica that answers.
func (r *Replicas) Nodes(ctx context.Context, seen []MachineReview, b *pki.Bundle) ([]Node, error) {
	err := errNoReadyAPIServer
	for _, replica := range seen {
		if len(replica.Components) == 0 || !replica.Components[0].Healthy {
			continue
		}
		var nodes []core.Node
		s := component.Replica{Name: replica.Name, Address: replica.Address, Port: replica.Port, Bundle: b}
		if nodes, err = client.New(r.machine(s.Address), s).Nodes(ctx); err == nil {
			return nodesOf(nodes), nil
		}
		err = fmt.Errorf("ask replica %s (%s) for the nodes: %w", replica.Name, replica.Address, err)
	}
	return nil, err
}

func nodesOf(all []core.Node) []Node {
	var out []Node
	for _, node := range all {
		n := Node{Name: node.Name}
		for _, address := range node.Status.Addresses {
			n.Addresses = append(n.Addresses, address.Address)
		}
		for _, taint := range node.Spec.Taints {
			n.Taints = append(n.Taints, taint.Key+":"+string(taint.Effect))
		}
		out = append(out, n)
	}
	return out
}
