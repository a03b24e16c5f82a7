package controlplane

import (
	"context"
	"errors"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var errNoEvidence = errors.New("it holds part of a replica, and no record says of which one")

// owner reports whether the machine has s, or nothing at all, so that it may be cleaned.
// Otherwise it returns the owner. Parts of a replica without an owner are an error.
func (f observed) owner(s component.Replica) (mine bool, other string, err error) {
	held, begun := f.identity()
	switch {
	case f.recordErr != nil:
		return false, "", f.recordErr
	case held.of(s):
		return true, "", nil
	case held.ClusterID != "" && begun:
		return false, "the beginning of " + describe(held), nil
	case held.ClusterID != "":
		return false, describe(held), nil
	case !f.gone(s):
		return false, "", errNoEvidence
	}
	return true, "", nil
}

// remove stops and removes the replica if the machine is still as observed. changed means that it
// is not, and that nothing was removed.
func (f observed) remove(ctx context.Context, h *host.Host, s component.Replica) (changed bool, err error) {
	out, err := h.Run(ctx, host.Command{
		Script: guardScript(s) + unit.Stop() + cleanScript(s),
		Vars:   map[string]string{"record": f.facts.Files[recordPath].SHA256, "creating": f.facts.Files[creatingPath].SHA256},
	})
	return strings.TrimSpace(out) == answerChanged, err
}

// answerChanged is what guardScript prints if it stops.
const answerChanged = "changed"

// guardScript ends the script if the machine changed since it was observed. $record and
// $creating are the digests of the two files, or empty if there is none. Without either file,
// no unit of a replica may exist.
func guardScript(s component.Replica) host.Script {
	var definitions []string
	for _, c := range component.Of(s) {
		definitions = append(definitions, unit.File(c).Path)
	}
	return `digest() { if [ -e "$1" ]; then sha256sum <"$1" | cut -d ' ' -f 1; fi; }
held=yes
if [ "$(digest ` + recordPath + `)" != "$record" ] || [ "$(digest ` + creatingPath + `)" != "$creating" ]; then held=; fi
for unit in ` + host.Words(definitions...) + `; do
  if [ -z "$record$creating" ] && [ -e "$unit" ]; then held=; fi
done
if [ -z "$held" ]; then echo ` + answerChanged + `; exit 0; fi
`
}

// cleanScript removes what a replica has written to a machine, except what etcd or a kubelet on
// it need. The audit log stays and becomes owned by root: it is evidence, and another user with
// the same UID must not read it. The records are removed last, so that the script can be
// repeated after an interruption.
func cleanScript(s component.Replica) host.Script {
	var definitions, files []string
	for _, c := range component.Of(s) {
		definitions = append(definitions, unit.File(c).Path)
	}
	for _, file := range ownFiles(s) {
		if file != recordPath && file != creatingPath {
			files = append(files, file)
		}
	}
	return host.Discard(definitions...) + `systemctl daemon-reload
` + host.Discard(files...) + `if [ ! -e ` + etcdUnit + ` ]; then ` + host.Discard(component.EtcdCA) + `fi
if [ ! -e ` + kubeletConf + ` ]; then ` + host.Discard(component.CACert) + `fi
rm -f ` + pausedPath + `
rm -rf ` + installRoot + `/kubernetes
if [ -d ` + component.AuditLogDir + ` ]; then chown -hR root:root ` + component.AuditLogDir + `; fi
for user in ` + host.Words(release.Components()...) + `; do
  if id -u "$user" >/dev/null 2>&1; then userdel "$user"; fi
  if getent group "$user" >/dev/null; then groupdel "$user"; fi
done
` + host.Discard(recordPath, creatingPath) + `for dir in ` + host.Words(component.EtcdDir, component.PKIDir, component.KubernetesDir, installRoot, component.AuditLogDir) + `; do
  if [ -d "$dir" ]; then rmdir --ignore-fail-on-non-empty "$dir"; fi
done
`
}
