package machine

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Requirements of a machine.
const (
	// minimumSystemd is the first version with LoadCredential=, which lets two users share a
	// key.
	minimumSystemd = 247
	minimumDisk    = 1 << 30
)

// architectures are those that Kubernetes releases server programs for.
var architectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// Preflight returns every reason why the replica cannot be created on the machine. Files of an
// earlier, interrupted call for the same replica are not a reason.
func Preflight(s component.Replica, f Observed) error {
	failed := slices.Concat(hostProblems(s, f), createProblems(s, f), portProblems(s, f), Liveness(s).Problems(f.Facts),
		Facts(s).Problems(f.Facts), f.Problems)
	if len(failed) == 0 {
		return nil
	}
	return Unsuitable(s, failed)
}

// createProblems returns what belongs to somebody else. A replica of kubeadm is imported, not created.
func createProblems(s component.Replica, f Observed) []string {
	if f.TakesOver(s) {
		return append(manifestProblems(f), "import that replica instead")
	}
	failed := OwnershipProblems(s, f)
	if other := f.OtherRuntime(s); other != "" {
		failed = append(failed, other+": an apply of the existing replica changes it")
	}
	return failed
}

// Unsuitable is the error of a machine on which the replica cannot be created.
func Unsuitable(s component.Replica, failed []string) error {
	return &problem.Problem{
		Summary:   "Control-plane replica cannot be created",
		Host:      s.Machine(),
		Cause:     fmt.Sprintf("%d preflight checks failed: %s", len(failed), strings.Join(failed, "; ")),
		Unchanged: problem.Nothing,
		Next:      "fix this on the machine and apply again.",
	}
}

func hostProblems(s component.Replica, f Observed) []string {
	var failed []string
	if !slices.Contains(architectures, f.Facts.Architecture) {
		failed = append(failed, fmt.Sprintf("Kubernetes is not released for the architecture %q", f.Facts.Architecture))
	}
	version, err := strconv.Atoi(f.Facts.Systemd)
	switch {
	case f.Facts.Systemd == "":
		failed = append(failed, "systemd is not the init system")
	case err == nil && version < minimumSystemd:
		failed = append(failed, fmt.Sprintf("systemd is version %d, at least %d is required", version, minimumSystemd))
	}
	for _, place := range []string{installRoot, component.KubernetesDir, component.AuditLogDir} {
		needed := int64(minimumDisk)
		if place == component.AuditLogDir {
			needed = s.AuditSpace()
		}
		if free, ok := f.Facts.DiskFree[place]; ok && free < needed {
			failed = append(failed, fmt.Sprintf("%d MiB are free for %s, at least %d are required", free>>20, place, needed>>20))
		}
	}
	if wrong := f.Facts.ClockProblem(); wrong != "" {
		failed = append(failed, wrong)
	}
	return failed
}

func portProblems(s component.Replica, f Observed) []string {
	var failed []string
	for _, c := range component.Of(s) {
		if runtime.Of(s).State(f.Facts, c.Name).MainPID > 0 {
			continue // its own process
		}
		own := component.Listener{Address: c.Probe.Address, Port: c.Probe.Port, AllAddresses: c.Probe.AllAddresses}
		for _, l := range append([]component.Listener{own}, c.Listens...) {
			if text := portProblem(l, f); text != "" {
				failed = append(failed, text+", which "+c.Name+" needs")
			}
		}
	}
	return failed
}

// portProblem returns which process prevents a component from opening a port, or "".
func portProblem(l component.Listener, f Observed) string {
	listener, busy := f.Facts.Listeners[l.Port]
	if !busy {
		return ""
	}
	address := conflict(listener.Addresses, l.Address)
	if l.AllAddresses && address == "" && len(listener.Addresses) > 0 {
		address = listener.Addresses[0]
	}
	if address == "" {
		return ""
	}
	process := listener.Process
	if process == "" {
		process = "another process"
	}
	return fmt.Sprintf("%s listens on %s port %d", process, address, l.Port)
}

// conflict returns the listening address that prevents a program from binding own: the same
// address, or a wildcard. The virtual IP, which the endpoint's load balancer listens on, is
// neither.
func conflict(listening []string, own string) string {
	want, err := netip.ParseAddr(own)
	for _, text := range listening {
		address, bad := netip.ParseAddr(strings.Trim(text, "[]"))
		if text == "*" || bad == nil && (address.IsUnspecified() || err == nil && address.Unmap() == want) {
			return text
		}
	}
	return ""
}
