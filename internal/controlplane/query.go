package controlplane

import (
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

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

// statusQuery queries the record and, for each component, the running program, the digests of
// the files that it read at start, and the digests on disk.
func statusQuery() host.Query {
	q := host.Query{Contents: []string{recordPath, rollbackRecordPath}, Units: unit.Names(), Files: readAtStart(), Script: runningScript()}
	for _, name := range release.Components() {
		q.Contents = append(q.Contents, unit.StartNotePath(name), unit.Path(name))
	}
	return q
}

// healthQuery queries everything that can be observed without the description of the replica.
func healthQuery(s component.Replica) host.Query {
	q := host.Query{Contents: []string{recordPath}, Units: unit.Names(), Script: detailScript()}
	for _, c := range component.Certificates(s) {
		q.Contents = append(q.Contents, c.Path)
	}
	for _, name := range release.Components() {
		q.Contents = append(q.Contents, unit.Path(name))
	}
	return q
}

// pausedQuery queries what pausing a replica during a change of its etcd member requires.
func pausedQuery() host.Query {
	return host.Query{
		Contents: []string{recordPath}, Files: []string{pausedPath},
		Units: []string{unit.Name(release.APIServer), etcdUnitName},
	}
}

// importQuery queries what an import requires.
func importQuery() host.Query {
	q := host.Query{
		Contents: append(component.SettingPaths(), recordPath, component.APIServerCert), Dirs: []string{manifestDir},
	}
	for _, name := range release.Components() {
		q.Contents = append(q.Contents, unit.Path(name))
	}
	return q
}

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

// printScript prints files, each preceded by its name. The output is stored only in the bundle.
func printScript(paths []string) host.Script {
	return "for file in " + host.Words(paths...) + "; do\n" +
		`  if [ -r "$file" ]; then echo "` + section + `$file"; cat "$file"; echo; fi` + "\ndone\n"
}

func printed(output string, paths []string) map[string]string {
	files := printedBy(output, paths)
	for name, text := range files {
		files[name] = strings.TrimRight(text, "\n") + "\n"
	}
	return files
}
