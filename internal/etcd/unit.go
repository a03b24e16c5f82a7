package etcd

import (
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// artifacts are the programs of the product: the server, and the two tools
// that snapshots need and that an operator reaches for in an emergency.
func artifacts(version string) []host.Artifact {
	var all []host.Artifact
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		all = append(all, host.Artifact{Product: product, Version: version, Name: name})
	}
	return all
}

func artifactDir(version string) string { return path.Dir(artifacts(version)[0].Path()) }

const (
	// defaultQuota is the largest database that etcd recommends (8 GiB); its own
	// default, 2 GiB, is what clusters that grow run into first. Nothing is
	// allocated for it.
	defaultQuota = 8 << 30
	// compactionRetention is of the history that etcd itself keeps. The API servers
	// compact every five minutes, which leaves this nothing to do; it bounds the
	// history where they are told not to, and of what other clients write.
	// Compacting again what is compacted is no error (etcd's Periodic).
	compactionRetention = "1h"
)

// serverFlags are the server's arguments: kubeadm's (v1.34), with the user's over
// them. How the cluster is formed is not among them: that is in bootstrap.env
// and matters only until the member is established, so a change of peers
// changes no flag and restarts nothing.
func serverFlags(s Spec) map[string]string {
	server, peer := pki.EtcdServer(s.Name, s.Host.Address()), pki.EtcdPeer(s.Name, s.Host.Address())
	all := map[string]string{
		"name":                        s.Name,
		"data-dir":                    s.dataDir(),
		"listen-client-urls":          "https://127.0.0.1:2379," + s.ClientURL(),
		"advertise-client-urls":       s.ClientURL(),
		"listen-peer-urls":            s.PeerURL(),
		"initial-advertise-peer-urls": s.PeerURL(),
		"listen-metrics-urls":         "http://" + net.JoinHostPort("127.0.0.1", "2381"),
		"cert-file":                   certificatePath(server),
		"key-file":                    keyPath(server),
		"trusted-ca-file":             caPath,
		"client-cert-auth":            "true",
		"peer-cert-file":              certificatePath(peer),
		"peer-key-file":               keyPath(peer),
		"peer-trusted-ca-file":        caPath,
		"peer-client-cert-auth":       "true",
		release.QuotaFlag:             strconv.Itoa(defaultQuota),
	}
	// 3.5 has these two as experimental flags; 10000 is the default from 3.6 on.
	minor, _, err := release.Parse(s.Version)
	if err != nil { // refused before a machine is touched
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
	if gates := release.GatesOf(s.ExtraArgs); minor >= 6 && len(gates) > 0 {
		all[release.GatesFlag] = strings.Join(gates, ",")
	}
	return all
}

// quota is the size that the database of a member of s may have, in bytes.
func (s Spec) quota() int64 {
	if text, set := s.ExtraArgs[release.QuotaFlag]; set {
		return release.Quota(text)
	}
	return defaultQuota
}

// compacts: the user decides how etcd compacts. The two flags mean something
// together only, so that one of them alone is not mixed with the other's default.
func compacts(args map[string]string) bool {
	_, mode := args["auto-compaction-mode"]
	_, retention := args["auto-compaction-retention"]
	return mode || retention
}

// renderUnit is the systemd unit.
//
// The two assertions keep an established member whose data directory was
// emptied from starting: it would come up under its old member id without what
// it has promised. TimeoutStartSec is infinite because a member without quorum
// is not ready for as long as that lasts, and killing it does not help.
func renderUnit(s Spec) string {
	dir := s.dataDir()
	section := systemd.UnitSection{
		Description: "etcd member " + s.Name, Documentation: "https://etcd.io/docs/",
		Lines: []string{"AssertPathExists=|" + dir + "/member", "AssertPathExists=|" + envPath},
	}
	command := systemd.Command{Program: artifacts(s.Version)[0].Path(), Flags: serverFlags(s)}
	return section.String() + `[Service]
Type=notify
User=` + user + `
Group=` + user + `
EnvironmentFile=-` + envPath + `
RuntimeDirectory=` + runtimeDir + `
RuntimeDirectoryMode=0755
` + systemd.StartNote(startNote, unitPath, caPath) + `
` + command.ExecStart() + `
Restart=always
RestartSec=1
TimeoutStartSec=infinity
LimitNOFILE=65536
` + s.Limits.Lines() + `OOMScoreAdjust=-997
IOSchedulingClass=best-effort
IOSchedulingPriority=0
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictRealtime=yes
ReadWritePaths=` + dir + `
` + systemd.Sandbox + systemd.InstallSection
}

// environment is bootstrap.env: how a member that is not yet established comes
// to its cluster. members is name → peer URL.
func environment(token, state string, members map[string]string) string {
	var initial []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		initial = append(initial, name+"="+members[name])
	}
	return fmt.Sprintf("ETCD_INITIAL_CLUSTER=%s\nETCD_INITIAL_CLUSTER_STATE=%s\nETCD_INITIAL_CLUSTER_TOKEN=%s\n",
		strings.Join(initial, ","), state, token)
}
