package machine

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Imported is a member as its machine alone describes it: everything in a Spec except the
// bundle.
type Imported struct {
	ClusterID     string
	ClusterName   string
	Name          string
	Peers         map[string]string // name → address
	Version       string
	Runtime       Runtime
	Image         string // of a static pod
	Patch         string // of a static pod, in YAML
	ExtraArgs     map[string]string
	DataDir       string
	SnapshotsKept int
	ArchivesKept  int
	Snapshots     *snapshot.Settings // nil: none
	Volume        *volume.Spec       // nil: none
	LivenessProbe bool
	// MetricsAddress and TextfileDirectory are those of Spec.
	MetricsAddress    string
	TextfileDirectory string
	EarlyRenewal      time.Duration
	Limits            systemd.Limits
	Environment       map[string]string
	Settings          json.RawMessage // as Spec.Settings; the caller checks whether it matches Limits
	// Alone means that the cluster did not list its members, so Peers contains only this
	// one.
	Alone bool
	// Added describes what the next restart of a member of kubeadm brings.
	Added []string
}

// ListScript asks the member on a machine for the member list.
//
//go:embed list.sh
var ListScript host.Script

// ReadImported interprets the facts that Import queried.
func ReadImported(h *host.Host, facts host.Facts) (Imported, error) {
	f := Interpret("", h.Address(), layout.DefaultDataDir, facts, nil)
	unit := f.Definition()
	switch {
	case f.Empty():
		return Imported{}, notImported(h, "the machine has neither a unit nor data of etcd",
			"use the address of a machine with a member")
	case f.Record == nil && f.RecordErr == nil && f.IsInherited():
		return readInherited(h, f, facts)
	case f.Record == nil:
		return Imported{}, notImported(h, "the machine has etcd, but no readable "+layout.RecordPath+
			" that names its cluster: it was not created by this provider",
			"add a member on another machine in the configuration, and remove this one")
	case unit == "":
		return Imported{}, notImported(h, layout.UnitPath+" or "+layout.PodPath+
			", which describes how the member runs, is missing",
			"recreate it by an apply from the configuration")
	}
	at, err := InstallationIn(unit)
	if err != nil {
		return Imported{}, notImported(h, err.Error(), "revert the change of that file")
	}
	command := CommandIn(unit)
	if reached := command.Flags["advertise-client-urls"]; reached != membership.ClientURL(h.Address()) {
		return Imported{}, notImported(h, fmt.Sprintf("its member is advertised at %s", cmp.Or(reached, "no address")),
			"import it by that address, which the cluster uses for the machine")
	}
	recorded := f.Record.recorded()
	out := Imported{
		ClusterID: f.Record.ClusterID, ClusterName: f.Record.ClusterName, Name: f.Record.Name,
		Version: at.version, DataDir: at.DataDir, SnapshotsKept: f.Record.UpgradeSnapshots(),
		EarlyRenewal: recorded.EarlyRenewal, ArchivesKept: recorded.archivesKept(),
		Limits: systemd.LimitsIn(unit), Environment: systemd.EnvironmentIn(unit), Settings: recorded.Settings,
		Snapshots: snapshot.SettingsIn(facts.Files), LivenessProbe: timer.Managed(facts.Files[LivenessTimerPath]),
		TextfileDirectory: noFacts.DirectoryIn(facts.Files), Volume: recorded.volumeOf(unit),
	}
	if p, err := staticpod.Parse(unit); err == nil {
		out.Runtime, out.Image, out.Environment, out.Patch = StaticPod, p.Image, p.Environment, p.Patch.YAML()
	}
	if _, set := recorded.ExtraArgs[release.MetricsURLsFlag]; !set {
		out.MetricsAddress = metricsAddressIn(command.Flags)
	}
	s := Spec{
		Name: out.Name, Host: h, Version: at.version, DataDir: out.DataDir, MetricsAddress: out.MetricsAddress,
	}
	out.ExtraArgs = extraArgs(s, command.Flags, recorded.ExtraArgs)
	out.Peers, out.Alone = listedPeers(facts.Output)
	out.Peers[out.Name] = h.Address()
	return out, nil
}

func notImported(h *host.Host, cause, next string) error {
	return &problem.Problem{
		Summary: "etcd member not imported", Host: h.Address(), Cause: cause, Unchanged: problem.Nothing, Next: next + ".",
	}
}

// extraArgs returns the arguments that result in the flags of the member of s: the
// recorded ones if they do, otherwise those that differ from the defaults. Flags that the
// provider manages are excluded, so that a manual change of them is drift.
func extraArgs(s Spec, flags, recorded map[string]string) map[string]string {
	s.ExtraArgs = recorded
	if maps.Equal(ServerFlags(s), flags) {
		return recorded
	}
	s.ExtraArgs = nil
	defaults := ServerFlags(s)
	var extra map[string]string
	for flag, value := range flags {
		_, taken := release.Owned[flag]
		if standard, ok := defaults[flag]; taken || ok && standard == value {
			continue
		}
		if extra == nil {
			extra = map[string]string{}
		}
		extra[flag] = value
	}
	return extra
}

// listedPeers parses the member list that etcdctl or etcd's gateway prints: name → address. A member that
// never started has no name, and no machine knows which one it is. The lines before the list
// are a report about a static pod.
func listedPeers(output string) (peers map[string]string, alone bool) {
	list := output
	if at := strings.Index("\n"+output, "\n{"); at >= 0 {
		list = output[at:]
	}
	var answer struct {
		Members []struct {
			Name     string   `json:"name"`
			PeerURLs []string `json:"peerURLs"`
		} `json:"members"`
	}
	peers = map[string]string{}
	if json.Unmarshal([]byte(list), &answer) != nil || len(answer.Members) == 0 {
		return peers, true
	}
	for _, m := range answer.Members {
		urls := membership.URLsReported(m.PeerURLs)
		if len(urls) > 0 && ValidateName(m.Name) == nil {
			peers[m.Name] = membership.HostInURL(urls[0])
		}
	}
	return peers, false
}
