package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// found is a machine as it was seen in one round trip.
type found struct {
	facts       host.Facts
	record      record
	creating    record            // whose Create was cut off: of the record no more than the identity
	recordErr   error             // one of the two is there and cannot be read
	before      *before           // what a change that is not done has left to go back to
	kubeconfigs map[string]string // path → text without the private key
	running     map[string]string // component → path of the program that runs
	obstacles   []string          // what keeps any change from being made; only inspect looks for it
}

// digests gives the digests of what is on disk.
func (f found) digests() map[string]string {
	out := make(map[string]string, len(f.facts.Files))
	for path, state := range f.facts.Files {
		out[path] = state.SHA256
	}
	return out
}

// overrides are the files by which somebody changes how component c runs.
func (f found) overrides(c string) []string {
	var out []string
	for _, name := range f.facts.Dirs[unitOverrides(c)] {
		out = append(out, path.Join(unitOverrides(c), name))
	}
	return out
}

// version is that of the running program, which its path names; "" when none runs.
func (f found) version(c string) string {
	return versionIn(strings.TrimSuffix(f.running[c], " (deleted)"), c)
}

// placedVersion is that of the program which the definition of a component
// names, so that would be started; "" when there is none that can be read.
func (f found) placedVersion(c string) string {
	executable, _, err := unitParse(f.facts.Files[unitPath(c)].Content)
	if err != nil {
		return ""
	}
	return versionIn(executable, c)
}

// effectiveVersion is the one that runs; of a component that does not, the one
// that would be started.
func (f found) effectiveVersion(c string) string {
	return cmp.Or(f.version(c), f.placedVersion(c))
}

// observe looks at everything that any decision about s needs.
func observe(ctx context.Context, h *host.Host, s Replica) (found, error) {
	facts, err := h.Observe(ctx, query(s))
	if err != nil {
		return found{}, fmt.Errorf("observe replica %s: %w", s.machine(), err)
	}
	return interpret(facts), nil
}

// query never asks for the content of a file that holds a private key: keys
// are judged by their digest, kubeconfigs by all but the key's line.
func query(s Replica) host.Query {
	q := host.Query{
		Contents: append(settingPaths(), recordPath, creatingPath, beforePath, caCert, etcdClientCA),
		Files:    append(unwantedFiles(s), etcdUnit),
		Dirs:     []string{path.Dir(program(s.Version, release.APIServer).Path()), manifestDir},
		Units:    unitNames(),
		Ports:    []int{s.port()},
		Disks:    []string{installRoot, kubernetesDir, auditLogDir},
		Script:   detailScript(),
	}
	for _, file := range fixedFiles(s) {
		if !slices.Contains(q.Contents, file.Path) {
			q.Files = append(q.Files, file.Path)
		}
	}
	for _, c := range certificates(s) {
		q.Contents = append(q.Contents, c.path)
		q.Files = append(q.Files, keyOf(c.path))
	}
	for _, k := range kubeconfigs(s) {
		q.Files = append(q.Files, k.path)
	}
	for _, c := range components(s) {
		q.Contents = append(q.Contents, unitDefinition(c).Path, startNotePath(c.name))
		q.Dirs = append(q.Dirs, unitOverrides(c.name))
		if c.probe.port != s.port() {
			q.Ports = append(q.Ports, c.probe.port)
		}
	}
	return q
}

// Other places on a machine that matter here.
const (
	installRoot = "/opt/kube"
	manifestDir = kubernetesDir + "/manifests" // of a kubelet's static pods
	etcdUnit    = unitDir + "/" + etcdUnitName
	kubeletConf = kubernetesDir + "/kubelet.conf"
)

// etcdUnitName is the unit of an etcd member on the same machine.
const etcdUnitName = "etcd.service"

const section = "=== "

// plainLines are the lines of a kubeconfig that can be shown: those of known
// fields, in the form in which every field has its own line. A private key, or
// a file that somebody wrote in another form, does not match.
const plainLines = `^[ -]*(apiVersion|kind|clusters|contexts|current-context|users|name|cluster|context|user|server|certificate-authority-data|client-certificate-data):[^{]*$`

// plainKubeconfigs are those of which detailScript prints what is no secret.
var plainKubeconfigs = []string{adminConf, controllerManagerConf, schedulerConf}

// detailScript prints each kubeconfig without its private key, and the
// executable of each component.
func detailScript() host.Script {
	return `for file in ` + host.Words(plainKubeconfigs...) + `; do
  if [ -r "$file" ]; then echo "` + section + `$file"; grep -E '` + plainLines + `' "$file" || :; fi
done
` + runningScript()
}

// runningScript prints the executable of each component.
func runningScript() host.Script {
	return `for name in ` + host.Words(release.Components()...) + `; do
  pid=$(systemctl show --property=MainPID --value "$name.service")
  if [ "${pid:-0}" -gt 0 ]; then echo "` + section + `$name"; readlink "/proc/$pid/exe" || :; fi
done
`
}

// interpret reads what query asked for.
func interpret(facts host.Facts) found {
	f := found{facts: facts, kubeconfigs: printedBy(facts.Output, plainKubeconfigs), running: printedBy(facts.Output, release.Components())}
	f.record, f.recordErr = readRecord(facts.Files[recordPath].Content)
	if f.recordErr == nil {
		if f.creating, f.recordErr = readRecord(facts.Files[creatingPath].Content); f.recordErr != nil {
			f.recordErr = fmt.Errorf("%s: %w", creatingPath, f.recordErr)
		}
	}
	f.before = readBefore(facts.Files[beforePath].Content)
	for name, text := range f.running {
		f.running[name] = strings.TrimSpace(text)
	}
	return f
}

// gone: the machine answers and holds neither a unit nor a file that only a
// replica has. The authorities' certificates do not count: etcd and kubelet
// have them too.
func (f found) gone(s Replica) bool {
	for _, c := range components(s) {
		if _, ok := f.facts.Files[unitDefinition(c).Path]; ok {
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

// ownFiles are the files that no one but a replica has on a machine.
func ownFiles(s Replica) []string {
	files := append(settingPaths(), recordPath, creatingPath, beforePath, adminConf, clientCA, signingCA, caKey, frontProxyCA, etcdClientCA, saPub, saKey, encryptionConfig)
	for _, c := range certificates(s) {
		files = append(files, c.path, keyOf(c.path))
	}
	for _, k := range kubeconfigs(s) {
		if k.path != adminConf {
			files = append(files, k.path)
		}
	}
	return files
}
