package kubevip

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	//go:embed pods.sh
	podsFunction host.Script
	//go:embed takeover.sh
	takeoverFunctions host.Script
)

// podManifests is where the kubelet finds the static pod of kube-vip: by kube-vip's guide, and by Kubespray.
var podManifests = []string{"/etc/kubernetes/manifests/kube-vip.yaml", "/etc/kubernetes/manifests/kube-vip.yml"}

// pendingManifests is where a manifest is kept while its takeover is not complete (agent.sh).
var pendingManifests = []string{
	configDir + "/inherited/kube-vip.yaml.pending", configDir + "/inherited/kube-vip.yml.pending",
}

// What kube-vip uses if its environment does not say otherwise. Source: cmd/kube-vip.go and pkg/kubevip of 1.2.
const (
	podLeaseName     = "plndr-cp-lock"
	podLeaseDuration = 15 * time.Second
	longestManifest  = 64 << 10
)

// Why the kube-vip of somebody else is not taken over.
var (
	errOtherKubeVIP = errors.New("a kube-vip that the provider does not know has the endpoint's address")
	errOtherLease   = errors.New("a static pod of kube-vip elects by another Lease: two machines would have the address")
	errNotAPod      = errors.New("it is not the static pod that \"kube-vip manifest pod\" writes for a control plane")
)

// staticPod is the kube-vip that a machine's kubelet runs, as kube-vip's guide for kubeadm sets it up.
type staticPod struct {
	Path          string // of its manifest
	Address       string
	Port          int
	Interface     string // "" is one that kube-vip finds
	Lease         string // its name
	LeaseDuration time.Duration
}

// parseStaticPod reads a manifest. It refuses one that does more than hold the address of a control plane by a Lease.
func parseStaticPod(text string) (staticPod, error) {
	if len(text) > longestManifest {
		return staticPod{}, fmt.Errorf("%w: its size is %d bytes", errNotAPod, len(text))
	}
	var pod core.Pod
	if err := yaml.Unmarshal([]byte(text), &pod); err != nil {
		return staticPod{}, fmt.Errorf("%w: %s", errNotAPod, problem.Line(err.Error()))
	}
	all := pod.Spec.Containers
	if pod.Kind != "Pod" || len(all) != 1 || len(all[0].Command) > 0 || !slices.Equal(all[0].Args, []string{"manager"}) {
		return staticPod{}, errNotAPod
	}
	settings := map[string]string{}
	for _, variable := range all[0].Env {
		if variable.ValueFrom == nil { // the name of the node has one
			settings[variable.Name] = variable.Value
		}
	}
	return readSettings(settings)
}

// switches are the settings that must be on. Another one that is on adds something that nobody would do any more, such
// as addresses of Services.
var switches = []string{"cp_enable", "vip_arp", "vip_leaderelection"}

func readSettings(settings map[string]string) (staticPod, error) {
	for _, name := range switches {
		if settings[name] != "true" {
			return staticPod{}, fmt.Errorf("%w: %s is not on", errNotAPod, name)
		}
	}
	for name, value := range settings {
		if value == "true" && !slices.Contains(switches, name) {
			return staticPod{}, fmt.Errorf("%w: %s is on", errNotAPod, problem.Quote(name))
		}
	}
	if namespace := settings["cp_namespace"]; namespace != "" && namespace != "kube-system" {
		return staticPod{}, fmt.Errorf("%w: its Lease is in %s", errNotAPod, problem.Quote(namespace))
	}
	p := staticPod{Interface: settings["vip_interface"], Lease: podLeaseName, LeaseDuration: podLeaseDuration}
	p.Address = settings["address"] + settings["vip_address"] // the older name of it
	if address, err := netip.ParseAddr(p.Address); err != nil || address.Zone() != "" || address.String() != p.Address {
		return staticPod{}, fmt.Errorf("%w: it has no address, or a name, or the address in another spelling", errNotAPod)
	}
	if p.Interface != "" && !interfaceForm.MatchString(p.Interface) {
		return staticPod{}, fmt.Errorf("%w: interface %s", errNotAPod, problem.Quote(p.Interface))
	}
	if name := settings["vip_leasename"]; name != "" {
		p.Lease = name
	}
	if !leaseForm.MatchString(p.Lease) {
		return staticPod{}, fmt.Errorf("%w: Lease %s", errNotAPod, problem.Quote(p.Lease))
	}
	if text := settings["vip_leaseduration"]; text != "" {
		seconds, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return staticPod{}, fmt.Errorf("%w: vip_leaseduration %s", errNotAPod, problem.Quote(text))
		}
		p.LeaseDuration = time.Duration(seconds) * time.Second //nolint:gosec // 16 bits
	}
	port, err := strconv.ParseUint(settings["port"], 10, 16)
	if err != nil || port == 0 {
		return staticPod{}, fmt.Errorf("%w: port %s", errNotAPod, problem.Quote(settings["port"]))
	}
	p.Port = int(port)
	return p, nil
}

// podOn returns the static pod of kube-vip with one of these manifests on a machine. there says whether it has one.
func podOn(files map[string]host.FileState, manifests []string) (p staticPod, there bool, err error) {
	for _, at := range manifests {
		if text := files[at].Content; text != "" {
			p, err = parseStaticPod(text)
			p.Path = at
			return p, true, err
		}
	}
	return staticPod{}, false, nil
}

// podOf returns the static pod of kube-vip on a machine, also one that a takeover which was cut off has left running.
func podOf(m machine) (p staticPod, there bool, err error) {
	p, there, err = podOn(m.Facts.Files, podManifests)
	if !there && m.Report.Foreign {
		return podOn(m.Facts.Files, pendingManifests)
	}
	return p, there, err
}

// pendingTakeover returns the path of a manifest whose takeover is not complete, or "".
func pendingTakeover(m machine) string {
	for _, at := range pendingManifests {
		if _, there := m.Facts.Files[at]; there {
			return at
		}
	}
	return ""
}

// isCandidate reports whether the kube-vip of a static pod with one of these manifests can become the holder of the
// endpoint's address, by the endpoint's Lease.
func isCandidate(r endpoint.Registration, m machine, manifests []string) bool {
	pod, _, err := podOn(m.Facts.Files, manifests) // one that is not there has no address
	return err == nil && m.Report.Foreign && !announces(r) &&
		pod.Address == r.Address && pod.Lease == leaseName(r)
}

// isEnding reports whether a takeover that was cut off has left such a static pod running: without its manifest, the
// kubelet may end it at any time. Then the address is gone before another machine has it.
func isEnding(r endpoint.Registration, m machine) bool {
	return !isCandidate(r, m, podManifests) && isCandidate(r, m, pendingManifests)
}

// notInheritable returns why the endpoint cannot take the address over from a kube-vip that somebody else runs, or nil.
func notInheritable(r endpoint.Registration, m machine) error {
	pod, there, err := podOf(m)
	switch {
	case there && err != nil && m.Report.Foreign:
		return fmt.Errorf("%w: %s: %w", errOtherKubeVIP, pod.Path, err)
	case there && err == nil && pod.Address == r.Address && announces(r):
		return fmt.Errorf("%w: %s, by ARP", errOtherKubeVIP, pod.Path)
	case there && err == nil && pod.Address == r.Address && pod.Lease != leaseName(r):
		return fmt.Errorf("%w: %s instead of %s", errOtherLease, pod.Lease, leaseName(r))
	case there && err == nil && pod.Address == r.Address && pod.Port != r.Port:
		return fmt.Errorf("%w: %s has port %d", errOtherKubeVIP, pod.Path, pod.Port)
	case m.Report.Foreign && (!there || pod.Address != r.Address):
		return fmt.Errorf("%w, and it is not the one of %s", errOtherKubeVIP, strings.Join(podManifests, " or "))
	}
	return nil
}

// Import reads the endpoint that static pods of kube-vip have from the one on a machine, which is its only target then.
// there says whether it has one. What the machine says is validated as a registration that a machine has recorded.
func Import(ctx context.Context, h *host.Host) (s Spec, there bool, err error) {
	facts, err := h.Observe(ctx, host.Query{Contents: podManifests})
	if err != nil {
		return Spec{}, false, err
	}
	return importedFrom(facts, h.Address())
}

func importedFrom(facts host.Facts, address string) (s Spec, there bool, err error) {
	p, there, err := podOn(facts.Files, podManifests)
	if !there {
		return Spec{}, false, nil
	}
	s = Spec{
		Address: p.Address, Port: p.Port, Targets: map[string]string{facts.Hostname: address},
		Interface: p.Interface, LeaseName: p.Lease, LeaseDuration: p.LeaseDuration,
	}
	if err == nil {
		err = ValidateRegistration(s.Registration())
	}
	if err != nil {
		return Spec{}, true, fmt.Errorf("%s: %w", p.Path, err)
	}
	return s, true, nil
}
