package simulated

import (
	"context"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// tunnel is an endpoint with the agents of one replica. A drain ends their connections.
type tunnel struct {
	controlplane.Registrar
	reach bool // agents reach a replica that is out of rotation

	mu        sync.Mutex
	connected bool
	asked     int  // since the drain
	before    bool // an agent was connected when the replica was registered
	after     int  // how often it was asked for agents since the registration
}

func (e *tunnel) AgentsReachDrained() bool { return e.reach }

func (e *tunnel) Drain(context.Context, string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.connected, e.asked = false, 0
	return nil
}

func (e *tunnel) Register(context.Context, string, string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.before, e.after, e.asked = e.connected, 0, 0
	e.reach = true // from now on
	return nil
}

// isConnected reports whether an agent is connected: at the third attempt after it can reach the replica.
func (e *tunnel) isConnected() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	e.after++
	e.connected = e.connected || e.reach && e.asked >= 3
	return e.connected
}

// TestAgentsReturn: a replica enters rotation with an agent, if agents reach it before. If not, it is registered first,
// and the change ends when an agent is connected, also if only the API server was restarted.
func TestAgentsReturn(t *testing.T) {
	fleet, p := bareOn(t, 1)
	const other = "/opt/konnectivity/2/proxy-server"
	for _, m := range fleet.clusters[0].machines {
		for _, at := range []string{component.DefaultKonnectivityProgram, other} {
			m.write(at, file{mode: "755", owner: "root", group: "root"})
		}
	}
	for i := range p.servers {
		p.servers[i].Konnectivity = &component.Konnectivity{
			Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort,
		}
	}
	p.create(t)
	s := p.servers[0]
	haproxy := s.Registrar
	for _, c := range []struct {
		name  string
		reach bool
		alter func(s *controlplane.Spec)
	}{
		{"another program, reached", true, func(s *controlplane.Spec) {
			s.Konnectivity = &component.Konnectivity{Program: other, AgentPort: component.DefaultAgentPort}
		}},
		{"another program", false, func(s *controlplane.Spec) {
			s.Konnectivity = &component.Konnectivity{
				Program: component.DefaultKonnectivityProgram, AgentPort: component.DefaultAgentPort,
			}
		}},
		{"the API server alone", false, func(s *controlplane.Spec) {
			s.ExtraArgs = map[string]map[string]string{"kube-apiserver": {"v": "4"}}
		}},
	} {
		e := &tunnel{Registrar: haproxy, reach: c.reach, connected: true}
		connected := e.isConnected
		fleet.clusters[0].machines[0].agents.Store(&connected)
		s.Registrar = e
		c.alter(&s)
		if _, err := p.replicas.Update(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if e.before != c.reach || e.after > 0 == c.reach || !e.connected {
			t.Errorf("%s: an agent was connected before the registration: %t, asked %d times after it, connected: %t",
				c.name, e.before, e.after, e.connected)
		}
	}
}
