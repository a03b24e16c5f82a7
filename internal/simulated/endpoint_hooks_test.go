package simulated

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// hookScript changes a balancer that has a replica out of rotation while the file out-NAME exists. It keeps its calls,
// besides those of the hook status.
const hookScript = `#!/bin/sh
cd "${0%/*}" || exit 1
name=$(sed 's/.*"replica":{"name":"\([^"]*\)".*/\1/')
[ "$1" = status ] || echo "$1 $name" >>calls
case $1 in
register) rm -f "out-$name" ;;
drain) : >"out-$name" ;;
status)
  if [ -e "out-$name" ]; then
    echo '{"in_rotation":false,"reason":"disabled"}'
  else
    echo '{"in_rotation":true}'
  fi
  ;;
esac
`

// TestHooksDecideRotation: a replica that is ready, and that the balancer has out of rotation, counts as out. Without
// the hook status, the others are registered again before one leaves.
func TestHooksDecideRotation(t *testing.T) {
	_, p := planeOn(t, 1)
	var cp []string
	for _, s := range p.servers {
		cp = append(cp, s.Name)
	}
	for name, c := range map[string]struct {
		out     string // a replica that a drain which was cut off has left out
		blind   bool   // there is no hook status
		leaves  string
		refused bool
		calls   []string // sorted
	}{
		"all are in":         {leaves: cp[1], calls: []string{"drain " + cp[1]}},
		"another one is out": {out: cp[0], leaves: cp[1], refused: true},
		"it is out itself":   {out: cp[0], leaves: cp[0], calls: []string{"drain " + cp[0]}},
		"another one is out, without status": {
			out: cp[0], blind: true, leaves: cp[1],
			calls: []string{"drain " + cp[1], "register " + cp[0], "register " + cp[2]},
		},
	} {
		t.Run(name, func(t *testing.T) {
			registrar, dir := p.hooked(t, c.blind, "")
			if c.out != "" {
				if err := os.WriteFile(filepath.Join(dir, "out-"+c.out), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if !c.blind {
				out, err := registrar.OutOfRotation(t.Context())
				if got := strings.Join(slices.Collect(maps.Keys(out)), " "); err != nil || got != c.out {
					t.Errorf("out of rotation is %q, want %q, %v", got, c.out, err)
				}
			}
			err := registrar.Drain(t.Context(), c.leaves)
			var refusal *endpoint.Refusal
			if errors.As(err, &refusal) != c.refused || (err == nil) == c.refused {
				t.Errorf("the drain ends with %v", err)
			}
			calls := hookCalls(dir)
			if len(calls) > 0 && calls[len(calls)-1] != "drain "+c.leaves {
				t.Errorf("the last hook is %q", calls[len(calls)-1])
			}
			slices.Sort(calls)
			if !slices.Equal(calls, c.calls) {
				t.Errorf("hooks are %q, want %q", calls, c.calls)
			}
		})
	}
}

// TestOccupantStays: a replica is deleted late, when its machine has another one of the endpoint. That one stays in
// the balancer, whether the hooks go by names or by addresses, and is not returned in place of the other one.
func TestOccupantStays(t *testing.T) {
	_, p := planeOn(t, 1)
	for occupant, want := range map[string][]string{
		"":      {"register cp1", "deregister cp1"},
		"node1": {"deregister cp1", "register node1"},
	} {
		registrar, dir := p.hooked(t, false, occupant)
		if err := errors.Join(registrar.Undrain(t.Context(), "cp1"), registrar.Deregister(t.Context(), "cp1")); err != nil {
			t.Error(err)
		}
		if calls := hookCalls(dir); !slices.Equal(calls, want) {
			t.Errorf("the machine has %q: hooks are %q, want %q", occupant, calls, want)
		}
	}
}

// hooked returns the registrar of an external endpoint with hooks, and the directory of their files. blind means that
// there is no hook status. occupant is the name of the replica on the first machine, and "" if it has not changed.
func (p plane) hooked(t *testing.T, blind bool, occupant string) (registrar *external.Registrar, dir string) {
	t.Helper()
	dir = t.TempDir()
	hook := filepath.Join(dir, "hook")
	if err := os.WriteFile(hook, []byte(hookScript), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	names, r := map[string]string{}, endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 6443, TargetPort: 6443,
		ClusterID: p.endpoint.ClusterID, Hosts: map[string]string{},
		Hooks: endpoint.Hooks{
			Register: []string{hook, "register"}, Drain: []string{hook, "drain"}, Deregister: []string{hook, "deregister"},
		},
	}
	if !blind {
		r.Hooks.Status = []string{hook, "status"}
	}
	for _, s := range p.servers {
		names[s.Address], r.Hosts[s.Name] = s.Name, s.Address
	}
	if occupant != "" {
		names[p.servers[0].Address] = occupant
	}
	recorded := func(_ context.Context, address string) (targets.Replica, error) {
		return targets.Replica{
			Name: names[address], Port: 6443, ClusterID: r.ClusterID, Endpoints: []string{r.ID()},
		}, nil
	}
	return external.New(targets.NewObserver(p.machine, recorded)).For(r), dir
}

// hookCalls returns the calls of hooks, besides those of the hook status.
func hookCalls(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "calls"))
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}
