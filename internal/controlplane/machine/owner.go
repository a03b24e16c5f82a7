package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// ErrNoEvidence means that a machine has parts of a replica without an owner.
var ErrNoEvidence = errors.New("it holds part of a replica, and no record says of which one")

// Owner reports whether the machine has s, or nothing at all, so that it may be cleaned.
// Otherwise it returns the owner. Parts of a replica without an owner are an error.
func (f Observed) Owner(s component.Replica) (mine bool, other string, err error) {
	held, begun := f.Identity()
	switch {
	case f.RecordErr != nil:
		return false, "", f.RecordErr
	case held.IsFor(s):
		return true, "", nil
	case held.ClusterID != "" && begun:
		return false, "the beginning of " + Describe(held), nil
	case held.ClusterID != "":
		return false, Describe(held), nil
	case !f.IsEmpty(s):
		return false, "", ErrNoEvidence
	}
	return true, "", nil
}

// OwnershipProblems detects a machine that belongs to another control plane, whose keys would be
// overwritten.
func OwnershipProblems(s component.Replica, f Observed) []string {
	var failed []string
	held, begun := f.Identity()
	if f.TakesOver(s) {
		return takeOverProblems(s, f)
	}
	if !f.mayOwnManifests(s) {
		failed = manifestProblems(f)
	}
	_, hasCA := f.Facts.Files[component.CACert]
	part := ""
	if begun {
		part = "the beginning of "
	}
	switch {
	case f.RecordErr != nil:
		failed = append(failed, f.RecordErr.Error())
	case held.ClusterID != "" && held.ClusterID != s.Bundle.ClusterID:
		failed = append(failed, fmt.Sprintf("it holds %sa replica of another cluster, %q (%s)",
			part, held.ClusterName, held.ClusterID))
	case held.ClusterID != "" && held.Name != s.Name:
		failed = append(failed, fmt.Sprintf("it holds %sreplica %q of this cluster", part, held.Name))
	case held.ClusterID == "" && hasCA && !f.sharesCA(s):
		failed = append(failed, component.CACert+" is another cluster's authority")
	}
	return failed
}

// mayOwnManifests reports whether the manifests of components on the machine are those of s, as far as the record says.
// If that is lost, the provider's definitions and a CA of the bundle are the evidence.
func (f Observed) mayOwnManifests(s component.Replica) bool {
	if held, _ := f.Identity(); held.ClusterID != "" {
		return held.IsFor(s) && held.Runtime == component.StaticPod
	}
	return s.Runtime == component.StaticPod && f.sharesCA(s) &&
		!slices.ContainsFunc(release.Components(), func(name string) bool {
			_, defined := f.Facts.Files[runtime.Of(s).Path(name)]
			return !defined
		})
}

// sharesCA reports whether the Kubernetes CA on the machine is one that the bundle of s knows.
func (f Observed) sharesCA(s component.Replica) bool {
	return sharesCertificate(f.Facts.Files[component.CACert].Content, s.Bundle.Known(pki.Kubernetes))
}

// OtherRuntime describes what runs the components of the replica on the machine, if s wants another runtime, or returns
// "".
func (f Observed) OtherRuntime(s component.Replica) string {
	held, _ := f.Identity()
	if held.ClusterID == "" || held.Runtime == s.Runtime {
		return ""
	}
	return fmt.Sprintf("its components run by %s, and runtime is %q", cmp.Or(held.Runtime, component.Systemd),
		cmp.Or(s.Runtime, component.Systemd))
}

// sharesCertificate reports whether two PEM texts have a certificate in common.
func sharesCertificate(a, b string) bool {
	known := pki.CertificatesIn(b)
	return slices.ContainsFunc(pki.CertificatesIn(a), func(der string) bool { return slices.Contains(known, der) })
}

// StopScript returns a script that stops the replica for good, by whatever runs it.
func (f Observed) StopScript(s component.Replica) host.Script {
	stop := runtime.Of(s).Stop()
	if f.OtherRuntime(s) != "" { // a change of the runtime was cut off
		stop += f.Runtime().Stop()
	}
	return stop
}

// Remove stops and removes the replica if the machine is still as observed. changed means that it
// is not, and that nothing was removed. With keepRecord, the records stay until ForgetScript: the machine is not empty
// before, and a Delete that was cut off is completed by the next one.
func (f Observed) Remove(
	ctx context.Context, h *host.Host, s component.Replica, keepRecord bool,
) (changed bool, err error) {
	out, err := h.Run(ctx, host.Command{
		Script: f.removeScript(s, keepRecord),
		Vars:   map[string]string{"record": f.Facts.Files[RecordPath].SHA256, "creating": f.Facts.Files[CreatingPath].SHA256},
	})
	return strings.TrimSpace(out) == answerChanged, err
}

// HasNode reports whether containerd and a kubelet have been installed on the machine, for whatever replica or member.
func (f Observed) HasNode() bool { return node.Recorded(f.Facts.Files) }

// IsGone reports whether nothing is left of the replica: neither a part of it, nor what a Create that was given up has
// installed before, unless the etcd member of the machine needs that.
func (f Observed) IsGone(s component.Replica) bool {
	_, member := f.Facts.Files[etcdRecord]
	return f.IsEmpty(s) && (member || !f.HasNode())
}

func (f Observed) removeScript(s component.Replica, keepRecord bool) host.Script {
	script := guardScript() + stopTimers() + f.StopScript(s) + cleanScript(s, f.writtenPaths())
	if !keepRecord {
		script += ForgetScript()
	}
	return script
}

// answerChanged is what guardScript prints if it stops.
const answerChanged = "changed"

// guardScript ends the script if the machine changed since it was observed. $record and
// $creating are the digests of the two files, or empty if there is none. Without either file,
// no unit of a replica may exist.
func guardScript() host.Script {
	return `digest() { if [ -e "$1" ]; then sha256sum <"$1" | cut -d ' ' -f 1; fi; }
held=yes
if [ "$(digest ` + RecordPath + `)" != "$record" ] || [ "$(digest ` + CreatingPath +
		`)" != "$creating" ]; then held=; fi
for unit in ` + host.Words(definitions()...) + `; do
  if [ -z "$record$creating" ] && [ -e "$unit" ]; then held=; fi
done
if [ -z "$held" ]; then echo ` + answerChanged + `; exit 0; fi
`
}

// definitions returns what all components that a replica may have are started from, by any runtime.
func definitions() []string {
	var paths []string
	for _, by := range runtime.All() {
		for _, name := range component.Names() {
			paths = append(paths, by.Path(name))
		}
	}
	return paths
}

// cleanScript removes what a replica has written to a machine, except what etcd or a kubelet on
// it need. The audit log stays and becomes owned by root: it is evidence, and another user with
// the same UID must not read it. The records stay until ForgetScript, so that the script can be repeated after an
// interruption.
func cleanScript(s component.Replica, written []string) host.Script {
	var files []string
	for _, file := range append(written, OwnFiles(s)...) {
		if file != RecordPath && file != CreatingPath {
			files = append(files, file)
		}
	}
	var forget host.Script // also what a former runtime has left
	for _, by := range runtime.All() {
		forget += by.Forget()
	}
	return clearTimers() + host.Discard(definitions()...) + forget + host.Discard(files...) +
		`if [ ! -e ` + EtcdUnit + ` ] && [ ! -e ` + EtcdPod + ` ] && [ ! -e ` + EtcdManifest + ` ] &&
  [ "$(ls -A ` + component.EtcdDir + ` 2>/dev/null)" = ` + host.Words(path.Base(component.EtcdCA)) + ` ]; then
  ` + host.Discard(component.EtcdCA) + `fi
if [ ! -e ` + kubeletConf + ` ]; then ` + host.Discard(component.CACert) + `fi
rm -f ` + host.Words(append(PausedPaths(), kubelet.CordonMark)...) + `
rm -rf ` + KeptFilesDir + `
if [ -d ` + installRoot + `/kubernetes ]; then # the kubelet stays, and what it runs
  find ` + installRoot + `/kubernetes -type f ! -name kubelet ! -name kubelet.sha256 -delete
  find ` + installRoot + `/kubernetes -depth -type d -empty -delete
fi
if [ -d ` + component.AuditLogDir + ` ]; then chown -hR root:root ` + component.AuditLogDir + `; fi
` + host.RemoveUsers(component.Names()...) +
		host.Flush(append(runtime.Of(s).Directories(), component.FilesDir, component.PKIDir, component.KubernetesDir,
			installRoot, component.AuditLogDir, path.Dir(component.AuditLogDir),
			"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc")...)
}

// ForgetScript returns a script that removes the records of a replica of which nothing else is left, and directories
// that are empty then.
func ForgetScript() host.Script {
	dirs := []string{
		component.FilesDir, component.EtcdDir, component.PKIDir, component.KubernetesDir, installRoot, component.AuditLogDir,
	}
	return host.Discard(RecordPath, CreatingPath) + `for dir in ` + host.Words(dirs...) + `; do
  if [ -d "$dir" ]; then rmdir --ignore-fail-on-non-empty "$dir"; fi
done
` + host.Flush(append(dirs, path.Dir(component.AuditLogDir))...)
}
