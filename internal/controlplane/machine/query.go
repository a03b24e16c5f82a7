package machine

import (
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
)

// Query never reads the content of a file with a private key: keys are compared by their
// digest, kubeconfigs by everything except the line of the key.
func Query(s component.Replica) host.Query {
	q := host.Query{
		Contents: append(component.SettingPaths(), RecordPath, CreatingPath, RollbackRecordPath, component.CACert,
			component.FrontProxyCA, component.EtcdClientCA, component.SAPub),
		Files:  append(component.UnwantedFiles(s), EtcdUnit, etcdRecord, node.RecordPath),
		Dirs:   []string{path.Dir(component.Artifact(s.Version, release.APIServer).Path()), ManifestDir},
		Ports:  []int{s.APIPort()},
		Disks:  []string{installRoot, component.KubernetesDir, component.AuditLogDir},
		Script: detailScript(runtime.Of(s)),
	}
	for _, file := range component.Files(s) {
		q.Files = append(q.Files, file.Path)
	}
	for _, c := range component.Certificates(s) {
		q.Contents = append(q.Contents, c.Path)
		q.Files = append(q.Files, component.KeyPath(c.Path))
	}
	for _, k := range component.Kubeconfigs(s) {
		q.Files = append(q.Files, k.Path)
	}
	configFilesQuery(&q, s)
	by := runtime.Of(s)
	by.AddStates(&q, component.Names()...)
	by.AddStartNotes(&q, append(component.NamesOf(s), component.KonnectivityServer)...)
	for _, c := range component.Of(s) {
		q.Contents = append(q.Contents, by.Path(c.Name))
		if dir := by.DropIns(c.Name); dir != "" {
			q.Dirs = append(q.Dirs, dir)
		}
		if c.Probe.Port != s.APIPort() {
			q.Ports = append(q.Ports, c.Probe.Port)
		}
		for _, l := range c.Listens {
			q.Ports = append(q.Ports, l.Port)
		}
	}
	konnectivityQuery(&q, s)
	q.Files = append(q.Files, kubelet.Former)
	q.Script = kubelet.CredentialsReport() + q.Script // the rest prints sections, which end with the next one
	if s.ManageKubelet {
		q.Contents = append(q.Contents, kubelet.DropIn)
		q.Script = kubelet.Report() + q.Script
	} else {
		q.Script = kubelet.IsCordoned() + q.Script // by a change that was cut off before the kubelet ceased to follow
	}
	Liveness(s).AddTo(&q)
	Facts(s).AddTo(&q)
	return q
}

// konnectivityQuery adds the program that the user installs, and what a proxy server that is not
// wanted any more has left.
func konnectivityQuery(q *host.Query, s component.Replica) {
	if s.Konnectivity != nil {
		q.Dirs = append(q.Dirs, path.Dir(s.Konnectivity.Program))
	}
	if file := runtime.Of(s).Path(component.KonnectivityServer); !slices.Contains(q.Contents, file) {
		q.Contents = append(q.Contents, file)
	}
}

// StatusQuery queries the record, the authorities and the certificate for etcd and, for each component, the running
// program, the digests of the files that it read at start, and the digests on disk.
func StatusQuery() host.Query {
	q := host.Query{
		Contents: []string{RecordPath, RollbackRecordPath, component.EtcdClientCA, component.EtcdClientCert},
		Files:    readAtStart(), Script: runningScript(runtime.All()...),
	}
	for _, by := range runtime.All() {
		by.AddStates(&q, component.Names()...)
		by.AddStartNotes(&q, component.Names()...)
	}
	addDefinitions(&q)
	return q
}

// HealthQuery queries everything that can be observed without the description of the replica.
func HealthQuery(s component.Replica) host.Query {
	q := host.Query{Contents: []string{RecordPath}, Script: detailScript(runtime.All()...)}
	for _, c := range component.Certificates(s) {
		q.Contents = append(q.Contents, c.Path)
	}
	q.Contents = append(q.Contents, component.KonnectivityCert)
	for _, by := range runtime.All() {
		by.AddStates(&q, component.Names()...)
	}
	addDefinitions(&q)
	return q
}

// addDefinitions adds the definitions of every runtime: it is not known which one the machine has.
func addDefinitions(q *host.Query) { q.Contents = append(q.Contents, definitions()...) }

// PausedQuery queries what pausing a replica during a change of its etcd member requires.
func PausedQuery() host.Query {
	q := host.Query{
		Contents: []string{RecordPath}, Files: append(PausedPaths(), EtcdManifest), Units: []string{EtcdUnitName},
	}
	for _, by := range runtime.All() {
		by.AddStates(&q, release.APIServer)
	}
	return q
}

// ForeignQuery queries what HasForeignAPIServer requires, and the authority of the cluster.
func ForeignQuery() host.Query {
	q := host.Query{Contents: []string{RecordPath, CreatingPath, component.CACert}}
	for _, by := range runtime.All() {
		by.AddStates(&q, release.APIServer)
	}
	return q
}

// ImportQuery queries what an import requires.
func ImportQuery() host.Query {
	q := host.Query{
		Contents: slices.Concat(component.SettingPaths(), FactsPaths,
			[]string{RecordPath, FilesListPath, component.APIServerCert, LivenessTimerPath, kubelet.DropIn}),
		Files: []string{node.RecordPath},
		Dirs:  []string{ManifestDir},
		// A replica of kubeadm has no record.
		Script: plainKubeconfigScript(),
	}
	q.Contents = append(q.Contents, component.CACert, EtcdManifest)
	runtime.Named(component.StaticPod).AddStates(&q, release.Components()...)
	addDefinitions(&q)
	q.Script = kubelet.CredentialsReport() + q.Script // before the rest, as in Query
	return q
}

// SectionHeading begins the line before each section of a script's output: see Sections.
const SectionHeading = "=== "

// PlainLines matches the lines of a kubeconfig that may be shown: known fields, each on a line
// of its own. A private key does not match, and neither does a file in another format.
const PlainLines = `^[ -]*(apiVersion|kind|clusters|contexts|current-context|users|name|cluster|context|user|server|` +
	`certificate-authority-data|client-certificate-data):[^{]*$`

// plainKubeconfigs are the kubeconfigs of which detailScript prints the parts that are not
// secret.
var plainKubeconfigs = []string{
	component.AdminConf, component.ControllerManagerConf, component.SchedulerConf, component.KonnectivityConf,
	component.LeaseConf,
}

// detailScript prints each kubeconfig without its private key, and the path of each component's
// executable.
func detailScript(by ...runtime.Runtime) host.Script {
	return plainKubeconfigScript() + runningScript(by...) + configFilesScript()
}

// plainKubeconfigScript prints each kubeconfig without its private key.
func plainKubeconfigScript() host.Script {
	return `for file in ` + host.Words(plainKubeconfigs...) + `; do
  if [ -r "$file" ]; then echo "` + SectionHeading + `$file"; grep -E '` + PlainLines + `' "$file" || :; fi
done
`
}

// runningScript prints the path of each component's executable.
func runningScript(any ...runtime.Runtime) host.Script {
	var script host.Script
	for _, by := range any {
		script += `for name in ` + host.Words(release.Components()...) + `; do
  pid=` + by.MainPID(`"$name"`) + `
  if [ "${pid:-0}" -gt 0 ]; then echo "` + SectionHeading + `$name"; readlink "/proc/$pid/exe" || :; fi
done
`
	}
	return script
}

// PrintFiles prints files, each preceded by its name. The output is stored only in the bundle.
func PrintFiles(paths []string) host.Script {
	return "for file in " + host.Words(paths...) + "; do\n" +
		`  if [ -r "$file" ]; then echo "` + SectionHeading + `$file"; cat "$file"; echo; fi` + "\ndone\n"
}

// PrintedFiles parses the output of PrintFiles, by path.
func PrintedFiles(output string, paths []string) map[string]string {
	files := Sections(output, paths)
	for name, text := range files {
		files[name] = strings.TrimRight(text, "\n") + "\n"
	}
	return files
}
