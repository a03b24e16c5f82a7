package machine

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Artifacts returns the programs of the product: the server, and the two tools that
// snapshots need and that operators use in an emergency.
func Artifacts(version string) []host.Artifact {
	var all []host.Artifact
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		all = append(all, host.Artifact{Product: layout.Product, Version: version, Name: name})
	}
	return all
}

// ArtifactDir returns the directory of the programs of a version.
func ArtifactDir(version string) string { return path.Dir(Artifacts(version)[0].Path()) }

const (
	// defaultQuota is the largest database size that etcd recommends (8 GiB). etcd's own
	// default, 2 GiB, is the first limit that growing clusters reach. The quota does not
	// allocate space.
	defaultQuota = 8 << 30
	// compactionRetention is the retention of etcd's own compaction. The API servers
	// compact every five minutes, which leaves nothing for it to do. It limits the history
	// if they are configured not to compact, and the history of what other clients write.
	// Compacting a compacted revision again is no error (etcd's Periodic).
	compactionRetention = "1h"
)

// ServerFlags returns the server's arguments: kubeadm's (v1.36), overridden by the user's.
// They exclude how the cluster is formed: that is in bootstrap.env and matters only until
// the member is established, so a change of peers changes no flag and restarts nothing.
func ServerFlags(s Spec) map[string]string {
	server, peer := pki.EtcdServer(s.Name, s.Host.Address()), pki.EtcdPeer(s.Name, s.Host.Address())
	all := map[string]string{
		"name":                        s.Name,
		"data-dir":                    s.Directory(),
		clientURLsFlag:                s.listenClientURLs(),
		"advertise-client-urls":       s.ClientURL(),
		"listen-peer-urls":            s.PeerURL(),
		"initial-advertise-peer-urls": s.PeerURL(),
		release.MetricsURLsFlag:       s.listenMetricsURLs(),
		"cert-file":                   CertificatePath(server),
		"key-file":                    keyPath(server),
		"trusted-ca-file":             layout.CAPath,
		"client-cert-auth":            "true",
		"peer-cert-file":              CertificatePath(peer),
		"peer-key-file":               keyPath(peer),
		"peer-trusted-ca-file":        layout.CAPath,
		"peer-client-cert-auth":       "true",
		release.QuotaFlag:             strconv.Itoa(defaultQuota),
	}
	// 3.5 has these two as experimental flags; 10000 is the default from 3.6 on.
	minor, _, err := release.Parse(s.Version)
	if err != nil { // refused before any machine is changed
		minor = release.NewestMinor
	}
	if minor == 5 {
		all[release.CorruptFlag] = "true"
		all["experimental-watch-progress-notify-interval"] = "5s"
		all["snapshot-count"] = "10000"
	} else {
		all[release.ProgressFlag] = "5s"
	}
	if !compacts(s.ExtraArgs) {
		all["auto-compaction-mode"], all["auto-compaction-retention"] = "periodic", compactionRetention
	}
	maps.Copy(all, s.ExtraArgs)
	all[release.MetricsURLsFlag] = release.WithMetricsURL(all[release.MetricsURLsFlag])
	if gates := release.GatesOf(s.ExtraArgs); minor >= 6 && len(gates) > 0 {
		all[release.GatesFlag] = strings.Join(gates, ",")
	}
	return all
}

// clientURLsFlag has the listeners for clients.
const clientURLsFlag = "listen-client-urls"

// listenClientURLs returns the value of clientURLsFlag. kubeadm's API server on a machine with an IPv6 address uses the
// member at its loopback address of IPv6.
func (s Spec) listenClientURLs() string {
	urls := "https://127.0.0.1:2379,"
	if strings.Contains(s.Host.Address(), ":") {
		urls += loopback6URL + ","
	}
	return urls + s.ClientURL()
}

// loopback6URL is where kubeadm's member listens on a machine with an IPv6 address, besides that address.
const loopback6URL = "https://[::1]:2379"

// Quota returns the database quota of a member of s, in bytes.
func (s Spec) Quota() int64 {
	if text, set := s.ExtraArgs[release.QuotaFlag]; set {
		return release.Quota(text)
	}
	return defaultQuota
}

// compacts reports whether the user configures etcd's compaction. The two flags are
// meaningful only together, so one of them is not combined with the default of the other.
func compacts(args map[string]string) bool {
	_, mode := args["auto-compaction-mode"]
	_, retention := args["auto-compaction-retention"]
	return mode || retention
}

// renderUnit renders the systemd unit.
//
// The two assertions keep an established member whose data directory was emptied from
// starting: it would start under its old member ID without the votes and entries that it
// has acknowledged. TimeoutStartSec is infinite because a member without quorum is not
// ready until there is a quorum, and killing it does not help.
func renderUnit(s Spec) string {
	dir := s.Directory()
	section := systemd.UnitSection{
		Description: "etcd member " + s.Name, Documentation: "https://etcd.io/docs/",
		Lines: []string{"AssertPathExists=|" + dir + "/member", "AssertPathExists=|" + layout.EnvPath},
	}
	if s.Volume != nil {
		section.Lines = append(section.Lines, s.Volume.UnitLines()...)
	}
	command := systemd.Command{Program: Artifacts(s.Version)[0].Path(), Flags: ServerFlags(s)}
	return section.String() + `[Service]
Type=notify
User=` + layout.User + `
Group=` + layout.User + `
EnvironmentFile=-` + layout.EnvPath + `
RuntimeDirectory=` + layout.RuntimeDir + `
RuntimeDirectoryMode=0755
` + systemd.StartNote(layout.StartNote, layout.UnitPath, layout.CAPath) + `
` + command.ExecStart() + `
Restart=always
RestartSec=1
TimeoutStartSec=infinity
LimitNOFILE=65536
` + s.Limits.Lines(layout.Unit) + systemd.EnvironmentLines(s.Environment) + `OOMScoreAdjust=-997
IOSchedulingClass=best-effort
IOSchedulingPriority=0
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictRealtime=yes
ReadWritePaths=` + dir + `
` + systemd.Sandbox + systemd.InstallSection
}

// Environment returns bootstrap.env, which configures how a member that is not yet
// established joins or forms its cluster. members is name → peer URL.
func Environment(token, state string, members map[string]string) string {
	var initial []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		initial = append(initial, name+"="+members[name])
	}
	return fmt.Sprintf("ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=%s\nETCD_INITIAL_CLUSTER_TOKEN=%s\n",
		strings.Join(initial, ","), state, token)
}
