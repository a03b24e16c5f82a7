// Package agenttest is what the tests of kinds of endpoint with an agent share: a router, and a stand-in for the API
// server of a replica.
package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// Router is gobgpd in the lab's network: the router that the machines announce the address to.
type Router struct {
	client, config string
	family         string // of its table
	process        *exec.Cmd
}

// The autonomous systems of the router and of the machines.
const (
	RouterASN  = 65000
	MachineASN = 65001
)

// CalmBFD is the interval of BFD where a test does not measure it: on a busy computer, sessions must
// not end because a program waits for the processor.
const CalmBFD = 2 * time.Second

// DynamicNeighbors accepts sessions from all machines of a network, with BFD. It has places for the network and the
// interval in microseconds.
const DynamicNeighbors = `[[dynamic-neighbors]]
  [dynamic-neighbors.config]
    prefix = "%[1]s"
    peer-group = "replicas"
[[peer-groups]]
  [peer-groups.config]
    peer-group-name = "replicas"
    peer-as = 65001
  [peer-groups.bfd.config]
    enabled = true
    desired-minimum-tx-interval = %[2]d
    required-minimum-receive = %[2]d
    detection-multiplier = 3
`

// Neighbor accepts sessions from one machine. It has places for its address and the password.
const Neighbor = `[[neighbors]]
  [neighbors.config]
    neighbor-address = "%s"
    peer-as = 65001
    auth-password = "%s"
  [neighbors.transport.config]
    passive-mode = true
`

// StartRouter starts gobgpd at an address of this computer, with the given neighbors. id is an IPv4 address.
func StartRouter(t *testing.T, id, address, neighbors string) *Router {
	t.Helper()
	r := &Router{config: filepath.Join(t.TempDir(), "gobgpd.toml"), family: "ipv4"}
	if strings.Contains(address, ":") {
		r.family = "ipv6"
	}
	program, err := build.Set(t.Context(), "gobgpd")
	if err == nil {
		r.client, err = build.Set(t.Context(), "gobgp")
	}
	text := fmt.Sprintf("[global.config]\n  as = %d\n  router-id = %q\n  local-address-list = [%q]\n", RouterASN,
		id, address) + neighbors
	if err == nil {
		err = os.WriteFile(r.config, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.process = exec.CommandContext(context.WithoutCancel(t.Context()), program, "-f", r.config, "--api-hosts",
		"127.0.0.1:50051")
	log, err := os.Create(r.config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Stop()
		text, _ := os.ReadFile(r.config + ".log")
		if t.Failed() {
			t.Logf("gobgpd:\n%s", text)
		}
	})
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := r.Routes(); err == nil {
			return r
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Stop kills the router.
func (r *Router) Stop() {
	_ = r.process.Process.Kill()
	_ = r.process.Wait()
}

// Ask runs gobgp.
func (r *Router) Ask(args ...string) ([]byte, error) {
	out, err := exec.Command(r.client, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("gobgp %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return out, err
}

// Routes returns the router's table: prefix → next hops, sorted.
func (r *Router) Routes() (map[string][]string, error) {
	out, err := r.Ask("-j", "global", "rib", "-a", r.family)
	if err != nil {
		return nil, err
	}
	var table map[string][]struct {
		Attrs []struct {
			Type    int    `json:"type"`
			NextHop string `json:"nexthop"`
		} `json:"attrs"`
		Stale bool `json:"stale"`
	}
	if err := json.Unmarshal(out, &table); err != nil {
		return nil, fmt.Errorf("gobgp's table: %w: %s", err, out)
	}
	routes := map[string][]string{}
	for prefix, paths := range table {
		for _, path := range paths {
			for _, attribute := range path.Attrs {
				if attribute.NextHop != "" {
					routes[prefix] = append(routes[prefix], attribute.NextHop)
				}
			}
		}
		slices.Sort(routes[prefix])
	}
	return routes, nil
}
