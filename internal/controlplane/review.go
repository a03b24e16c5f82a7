package controlplane

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// MachineReview is the health of a machine, with additional data for a review.
type MachineReview struct {
	Health
	Processes map[string]host.Process // by component
	Files     map[string]string       // content of the files that the named flags of the API server point to, by flag
	// Profiles are the answers to requests for the page of profiles, by component.
	Profiles map[string]client.Answer
	// Scrapers are connected to controller-manager and scheduler, by component; ScrapersErr is why
	// they are not known.
	Scrapers    map[string][]host.Client
	ScrapersErr error
	// Scraped is the last read of the API server's metrics in its audit log, nil if there is none, and
	// ScrapedErr why that is not known.
	Scraped    *Scrape
	ScrapedErr error
	// Kubelet: a kubelet runs on the machine that uses an API server, so it may register a node.
	Kubelet bool
}

// Node is one node of the cluster.
type Node struct {
	Name         string
	Addresses    []string
	Taints       []string // "KEY:EFFECT"
	ControlPlane bool     // by its label
}

// Review is Health with, for each machine, the processes of its components and the files that
// the given flags of its API server name. Those files must not contain secrets.
func (r *Replicas) Review(ctx context.Context, addresses, flags []string, b *pki.Bundle) []MachineReview {
	out := make([]MachineReview, len(addresses))
	script := host.ProcessScript(unit.NamesOf(release.Components())...) + pod.Processes(release.Components()) +
		filesScript(flags) + kubeletScript + scrapeScript() + host.DiskFunctions +
		"weighs_below " + host.Words(component.AuditLogDir) + "\n"
	var machines sync.WaitGroup
	for i, address := range addresses {
		machines.Go(func() {
			h, output := healthAt(ctx, r.machine(address), b, script)
			out[i] = parseReview(h, output)
			if h.Name != "" {
				s := component.Replica{Name: h.Name, Address: h.Address, Port: h.Port, Bundle: b}
				out[i].Profiles = client.New(r.machine(address), s).Ask(ctx, profilesPage)
			}
		})
	}
	machines.Wait()
	return out
}

// filesScript prints the files that the API server's process was started with.
func filesScript(flags []string) host.Script {
	return `pid=` + unit.MainPID(release.APIServer) + `
[ "${pid:-0}" -gt 0 ] || pid=$(replica_pid ` + release.APIServer + `)
if [ "${pid:-0}" -gt 0 ]; then for flag in ` + host.Words(flags...) + `; do
  file=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n "s/^--$flag=//p")
  [ -f "$file" ] && printf 'file\t%s\t%s\n' "$flag" "$(base64 -w 0 "$file")"
done; fi
`
}

// kubeletScript reports a kubelet that has a kubeconfig. One that runs nothing but static pods may have none.
const kubeletScript host.Script = `for comm in $(grep -lxs kubelet /proc/[0-9]*/comm || :); do
  if tr '\0' '\n' 2>/dev/null <"${comm%comm}cmdline" | grep -qE '^--(bootstrap-)?kubeconfig'; then
    printf 'kubelet\n'
  fi
done
`

// profilesPage is where a component serves profiles, if at all (apiserver's routes.Profiling).
const profilesPage = "/debug/pprof/"

// parseReview parses the output of Review's script.
func parseReview(h Health, output string) MachineReview {
	r := MachineReview{Health: h, Processes: map[string]host.Process{}, Files: map[string]string{}}
	for name, process := range host.ReadProcesses(output) {
		if c := unit.Component(name); process.Running || !r.Processes[c].Running { // a pod has no unit
			r.Processes[c] = process
		}
	}
	r.Scrapers, r.ScrapersErr = scrapersIn(output, r.Processes)
	r.Scraped, r.ScrapedErr = scrapedIn(output)
	for line := range strings.Lines(output) {
		if line == "kubelet\n" {
			r.Kubelet = true
		}
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

// Alerts lists the alerts in the cluster's PrometheusRules through the first replica that answers.
func (r *Replicas) Alerts(ctx context.Context, seen []MachineReview, b *pki.Bundle) ([]client.Alert, error) {
	err := errNoReadyAPIServer
	for _, replica := range seen {
		if len(replica.Components) == 0 || !replica.Components[0].Healthy {
			continue
		}
		var alerts []client.Alert
		s := component.Replica{Name: replica.Name, Address: replica.Address, Port: replica.Port, Bundle: b}
		if alerts, err = client.New(r.machine(s.Address), s).Alerts(ctx); err == nil {
			return alerts, nil
		}
		err = fmt.Errorf("ask replica %s (%s) for the alerts: %w", replica.Name, replica.Address, err)
	}
	return nil, err
}

// controlPlaneLabel is the label of a control plane's nodes, as kubeadm sets it.
const controlPlaneLabel = "node-role.kubernetes.io/control-plane"

func nodesOf(all []core.Node) []Node {
	var out []Node
	for _, node := range all {
		n := Node{Name: node.Name}
		_, n.ControlPlane = node.Labels[controlPlaneLabel]
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
