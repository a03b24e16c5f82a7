package machine

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
)

//go:embed inspect.sh
var accessScript host.Script

// Inspect observes a machine before a change. In addition to the facts, it checks whether the
// components can be reached through SSH and what the API server can open.
func Inspect(ctx context.Context, h *host.Host, s component.Replica) (Observed, error) {
	var f Observed
	var forwarding error
	var closed, lacks []string
	var nodeState node.State
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		f, err = Observe(groupCtx, h, s)
		return err
	})
	group.Go(func() error {
		forwarding = host.CheckForwarding(groupCtx, h, probed(s)...)
		return nil // Observe reports an unreachable machine
	})
	group.Go(func() (err error) {
		closed, err = checkAccess(groupCtx, h, s)
		return err
	})
	group.Go(func() (err error) {
		lacks, err = runtime.Of(s).Problems(groupCtx, h)
		return err
	})
	if s.InstallKubelet != nil && s.Runtime == component.StaticPod {
		group.Go(func() (err error) {
			nodeState, err = node.Observe(groupCtx, h)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Observed{}, err
	}
	if f.NodeMissing = nodeState.Lacks(); f.NodeMissing {
		lacks = nodeState.Problems() // it is installed before
	}
	f.Problems = append(f.Problems, lacks...)
	if forwarding != nil {
		f.Problems = append(f.Problems, fmt.Sprintf("%v; the components are asked through SSH whether they are ready, at %s",
			forwarding, strings.Join(probed(s), ", ")))
	}
	f.Problems = append(f.Problems, closed...)
	f.Problems = append(f.Problems, programProblems(s, f)...)
	return f, nil
}

// programProblems returns whether the proxy server's program is missing. The provider does not
// install it.
func programProblems(s component.Replica, f Observed) []string {
	if s.Konnectivity == nil {
		return nil
	}
	if dir, name := path.Split(s.Konnectivity.Program); !slices.Contains(f.Facts.Dirs[path.Clean(dir)], name) {
		return []string{s.Konnectivity.Program + " does not exist: install konnectivity's proxy-server there, " +
			"or set konnectivity.program"}
	}
	return nil
}

// probed returns the addresses of the readiness probes.
func probed(s component.Replica) []string {
	var addresses []string
	for _, c := range component.Of(s) {
		addresses = append(addresses, net.JoinHostPort(c.Probe.Address, strconv.Itoa(c.Probe.Port)))
	}
	return addresses
}

// checkAccess returns the groups that do not exist on the machine, and the sockets of KMS
// plugins that the API server could not open.
func checkAccess(ctx context.Context, h *host.Host, s component.Replica) ([]string, error) {
	if len(s.SupplementaryGroups)+len(s.Sockets()) == 0 {
		return nil, nil
	}
	out, err := h.Observe(ctx, host.Query{
		Script: accessScript,
		Vars: map[string]string{
			"groups": strings.Join(s.SupplementaryGroups, " "), "sockets": strings.Join(s.Sockets(), "\n"),
		},
	})
	if err != nil {
		return nil, fmt.Errorf("check what the API server of %s may open: %w", s.Machine(), err)
	}
	return readAccess(s, out.Output)
}

var errNotSeen = errors.New("the output of the machine is incomplete")

// readAccess parses the output of accessScript. Lines about other groups and sockets are
// ignored.
func readAccess(s component.Replica, output string) ([]string, error) {
	lines := strings.Split(output, "\n")
	if !slices.Contains(lines, "seen") {
		return nil, fmt.Errorf("check what the API server of %s may open: %w", s.Machine(), errNotSeen)
	}
	var problems []string
	for _, name := range s.SupplementaryGroups {
		if slices.Contains(lines, "no group "+name) {
			problems = append(problems, fmt.Sprintf("group %q of supplementary_groups does not exist", name))
		}
	}
	if slices.Contains(lines, "no setpriv") && runtime.Of(s).OnMachine() {
		problems = append(problems, "setpriv (util-linux) is missing: it is needed to check whether the KMS plugin's "+
			"socket can be opened")
	}
	for _, socket := range s.Sockets() {
		switch {
		case slices.Contains(lines, "no socket "+socket):
			problems = append(problems, fmt.Sprintf("the KMS plugin's socket %s does not exist", socket))
		case slices.Contains(lines, "closed "+socket) && runtime.Of(s).OnMachine():
			problems = append(problems, fmt.Sprintf("user %s may not open the KMS plugin's socket %s: name a group that may "+
				"in supplementary_groups", release.APIServer, socket))
		}
	}
	return problems, nil
}
