package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// observed is a machine as observed in one round trip.
type observed struct {
	facts       host.Facts
	record      record
	creating    record            // the replica whose Create was interrupted; identity only
	recordErr   error             // one of the two cannot be parsed
	rollback    *rollbackRecord   // what an interrupted change can be rolled back to
	kubeconfigs map[string]string // path → text without the private key
	running     map[string]string // component → path of the running program
	obstacles   []string          // what prevents any change; only set by inspect
}

// digests returns the digests of the files on disk.
func (f observed) digests() map[string]string {
	out := make(map[string]string, len(f.facts.Files))
	for path, state := range f.facts.Files {
		out[path] = state.SHA256
	}
	return out
}

// overrides returns the drop-ins that change how component c runs.
func (f observed) overrides(c string) []string {
	var out []string
	for _, name := range f.facts.Dirs[unit.DropInDir(c)] {
		out = append(out, path.Join(unit.DropInDir(c), name))
	}
	return out
}

// version returns the version of the running program, from its path; "" if none runs.
func (f observed) version(c string) string {
	return versionIn(strings.TrimSuffix(f.running[c], " (deleted)"), c)
}

// definedVersion returns the version that the unit file of a component starts; "" if it cannot
// be parsed.
func (f observed) definedVersion(c string) string {
	executable, _, err := unit.Parse(f.facts.Files[unit.Path(c)].Content)
	if err != nil {
		return ""
	}
	return versionIn(executable, c)
}

// effectiveVersion returns the running version or, if none runs, the version that would be
// started.
func (f observed) effectiveVersion(c string) string {
	return cmp.Or(f.version(c), f.definedVersion(c))
}

// observe reads everything that decisions about s depend on.
func observe(ctx context.Context, h *host.Host, s component.Replica) (observed, error) {
	facts, err := h.Observe(ctx, query(s))
	if err != nil {
		return observed{}, fmt.Errorf("observe replica %s: %w", s.Machine(), err)
	}
	return interpret(facts), nil
}

// Other relevant paths on a machine.
const (
	installRoot = "/opt/kube"
	manifestDir = component.KubernetesDir + "/manifests" // of a kubelet's static pods
	etcdUnit    = unit.Dir + "/" + etcdUnitName
	kubeletConf = component.KubernetesDir + "/kubelet.conf"
)

// pausedPath marks a replica that an Outage has stopped. A reboot starts the replica and
// removes the file.
const pausedPath = "/run/kube-replica.paused"

// etcdUnitName is the unit of an etcd member on the same machine.
const etcdUnitName = "etcd.service"

// interpret parses the result of query.
func interpret(facts host.Facts) observed {
	f := observed{facts: facts, kubeconfigs: printedBy(facts.Output, plainKubeconfigs), running: printedBy(facts.Output, release.Components())}
	f.record, f.recordErr = readRecord(facts.Files[recordPath].Content)
	if f.recordErr == nil {
		if f.creating, f.recordErr = readRecord(facts.Files[creatingPath].Content); f.recordErr != nil {
			f.recordErr = fmt.Errorf("%s: %w", creatingPath, f.recordErr)
		}
	}
	f.rollback = readRollbackRecord(facts.Files[rollbackRecordPath].Content)
	for name, text := range f.running {
		f.running[name] = strings.TrimSpace(text)
	}
	return f
}

// holds reports whether a replica of the cluster is on the machine.
func (f observed) holds(clusterID string) bool {
	return f.recordErr == nil && f.record.ClusterID == clusterID
}

// gone reports whether the machine has neither a unit nor a file that only a replica has. It
// implies that the machine is reachable. CA certificates do not count, because etcd and kubelet
// have them too.
func (f observed) gone(s component.Replica) bool {
	for _, c := range component.Of(s) {
		if _, ok := f.facts.Files[unit.File(c).Path]; ok {
			return false
		}
	}
	for _, file := range ownFiles(s) {
		if _, ok := f.facts.Files[file]; ok {
			return false
		}
	}
	for _, unit := range f.facts.Units {
		if unit.Active == "active" {
			return false
		}
	}
	return true
}

// ownFiles returns the files that only a replica has on a machine.
func ownFiles(s component.Replica) []string {
	files := append(component.SettingPaths(), recordPath, creatingPath, rollbackRecordPath, component.AdminConf, component.ClientCA, component.SigningCA, component.CAKey, component.FrontProxyCA, component.EtcdClientCA, component.SAPub, component.SAKey, component.EncryptionConfigPath)
	for _, c := range component.Certificates(s) {
		files = append(files, c.Path, component.KeyPath(c.Path))
	}
	for _, k := range component.Kubeconfigs(s) {
		if k.Path != component.AdminConf {
			files = append(files, k.Path)
		}
	}
	return files
}
