package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
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

// query never reads the content of a file with a private key: keys are compared by their
// digest, kubeconfigs by everything except the line of the key.
func query(s component.Replica) host.Query {
	q := host.Query{
		Contents: append(component.SettingPaths(), recordPath, creatingPath, rollbackRecordPath, component.CACert, component.EtcdClientCA),
		Files:    append(component.UnwantedFiles(s), etcdUnit),
		Dirs:     []string{path.Dir(component.Artifact(s.Version, release.APIServer).Path()), manifestDir},
		Units:    unit.Names(),
		Ports:    []int{s.APIPort()},
		Disks:    []string{installRoot, component.KubernetesDir, component.AuditLogDir},
		Script:   detailScript(),
	}
	for _, file := range component.Files(s) {
		if !slices.Contains(q.Contents, file.Path) {
			q.Files = append(q.Files, file.Path)
		}
	}
	for _, c := range component.Certificates(s) {
		q.Contents = append(q.Contents, c.Path)
		q.Files = append(q.Files, component.KeyPath(c.Path))
	}
	for _, k := range component.Kubeconfigs(s) {
		q.Files = append(q.Files, k.Path)
	}
	for _, c := range component.Of(s) {
		q.Contents = append(q.Contents, unit.File(c).Path, unit.StartNotePath(c.Name))
		q.Dirs = append(q.Dirs, unit.DropInDir(c.Name))
		if c.Probe.Port != s.APIPort() {
			q.Ports = append(q.Ports, c.Probe.Port)
		}
	}
	return q
}

// Other relevant paths on a machine.
const (
	installRoot = "/opt/kube"
	manifestDir = component.KubernetesDir + "/manifests" // of a kubelet's static pods
	etcdUnit    = unit.Dir + "/" + etcdUnitName
	kubeletConf = component.KubernetesDir + "/kubelet.conf"
)

// etcdUnitName is the unit of an etcd member on the same machine.
const etcdUnitName = "etcd.service"

const section = "=== "

// plainLines matches the lines of a kubeconfig that may be shown: known fields, each on a line
// of its own. A private key does not match, and neither does a file in another format.
const plainLines = `^[ -]*(apiVersion|kind|clusters|contexts|current-context|users|name|cluster|context|user|server|certificate-authority-data|client-certificate-data):[^{]*$`

// plainKubeconfigs are the kubeconfigs of which detailScript prints the parts that are not
// secret.
var plainKubeconfigs = []string{component.AdminConf, component.ControllerManagerConf, component.SchedulerConf}

// detailScript prints each kubeconfig without its private key, and the path of each component's
// executable.
func detailScript() host.Script {
	return `for file in ` + host.Words(plainKubeconfigs...) + `; do
  if [ -r "$file" ]; then echo "` + section + `$file"; grep -E '` + plainLines + `' "$file" || :; fi
done
` + runningScript()
}

// runningScript prints the path of each component's executable.
func runningScript() host.Script {
	return `for name in ` + host.Words(release.Components()...) + `; do
  pid=$(systemctl show --property=MainPID --value "$name.service")
  if [ "${pid:-0}" -gt 0 ]; then echo "` + section + `$name"; readlink "/proc/$pid/exe" || :; fi
done
`
}

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
