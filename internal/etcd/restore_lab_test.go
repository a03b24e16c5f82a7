package etcd

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRestoreOnMachines loses a cluster and restores it from each source of snapshots. TestRestoreMatrixOnMachines has
// damaged snapshots, and survivors.
func TestRestoreOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdres", "10.79.0.0/24", []string{newRelease}, testRestoreOnMachines)
}

func testRestoreOnMachines(t *testing.T) {
	r := newRig(t)
	r.all("create", r.create)
	r.ctl("cp1", "put /registry/masterleases/10.9.9.9 stale", "put /registry/pods/a one",
		"put /registry/configmaps/kube-system/kube-root-ca.crt -- '"+r.specs["cp1"].Bundle.Known(pki.Kubernetes)+"'",
		"snapshot save /root/good.db", "put /registry/pods/a two")

	r.request("serving", machine.Restore{Snapshot: "/root/good.db"})
	r.refusesRestore("the cluster serves")

	before := r.revision("cp1")
	r.lose(everyone...)
	r.request("absent", machine.Restore{Snapshot: "/root/absent.db"})
	r.refusesRestore("none of the machines")
	r.request("one", machine.Restore{Snapshot: "/root/good.db"})
	r.all("restore all from a snapshot", r.update)
	r.wantData("one", before)
	r.unchanged()

	r.fromFile()
	r.fetched()
	r.otherCluster()
}

// fromFile restores a file of the operator's computer on machines that have nothing.
func (r *rig) fromFile() {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "snapshot.db")
	if err := os.WriteFile(file, []byte(r.sh("cp1", "cat /root/good.db | base64 -w 0")), 0o600); err != nil {
		r.t.Fatal(err)
	}
	decode(r.t, file)
	before := r.revision("cp1")
	r.lose(everyone...)
	for _, name := range everyone {
		r.rebuild(name)
	}
	r.request("four", machine.Restore{File: file})
	r.all("restore new machines from a file", r.create)
	r.wantData("one", before)
}

// fetched restores what commands fetch.
func (r *rig) fetched() {
	r.t.Helper()
	before := r.revision("cp1")
	for _, name := range everyone {
		r.sh(name, "echo FROM=/root/good.db >/root/env; [ -e /root/good.db ] || echo none >/root/good.db")
	}
	r.lose(everyone...)
	r.request("five", machine.Restore{Fetch: "exit 3", EnvironmentFile: "/root/env"})
	r.refusesRestore("the fetch commands failed")
	r.request("five", machine.Restore{Fetch: "cp \"$FROM\" \"$SNAPSHOT\"", EnvironmentFile: "/root/env"})
	r.all("restore what is fetched", r.update)
	r.wantData("one", before)
}

// otherCluster refuses the snapshot of a cluster with other certificates or keys.
func (r *rig) otherCluster() {
	r.t.Helper()
	other, err := pki.Generate(pki.Options{ClusterName: "other", Algorithm: pki.ECDSAP256, Now: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	r.ctl("cp1", "put /registry/configmaps/kube-system/kube-root-ca.crt -- '"+other.Known(pki.Kubernetes)+"'",
		"snapshot save /root/other.db", "put /registry/secrets/x/y k8s:enc:secretbox:v1:key7:"+strings.Repeat("x", 99),
		"snapshot save /root/encrypted.db")
	r.lose(everyone...)
	r.request("six", machine.Restore{Snapshot: "/root/other.db"})
	r.refusesRestore("accept_other_ca")
	r.request("six", machine.Restore{Snapshot: "/root/encrypted.db", AcceptOtherCA: true})
	r.refusesRestore(`secretbox key "key7"`)
	r.request("six", machine.Restore{Snapshot: "/root/other.db", AcceptOtherCA: true})
	r.all("restore the data of another cluster on request", r.update)
}

func decode(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// request sets the restore of every member.
func (r *rig) request(id string, want machine.Restore) {
	want.ID, want.Bump = id, machine.BumpAutomatically
	for name, s := range r.specs {
		s.Restore = &want
		r.specs[name] = s
	}
}

// refusesRestore expects that the restore is refused for a reason, and that every member is left
// as it was.
func (r *rig) refusesRestore(want string) {
	r.t.Helper()
	before := r.machinesState()
	ctx, cancel := context.WithTimeout(r.t.Context(), max(r.limit, 2*time.Minute))
	defer cancel()
	for name, err := range together(r.t, r.specs, func(s Spec) error { return r.update(ctx, s) }, everyone...) {
		if err == nil || !strings.Contains(err.Error(), want) {
			r.t.Errorf("%s: %v, want a refusal with %q", name, err, want)
		}
	}
	if after := r.machinesState(); after != before {
		r.t.Errorf("a refused restore has changed the machines from\n%s\nto\n%s", before, after)
	}
	r.t.Logf("  refused: %s", want)
}

// machinesState is what a refusal must not change.
func (r *rig) machinesState() string {
	var out strings.Builder
	for _, name := range everyone {
		out.WriteString(r.sh(name, "cat /etc/etcd/member.json 2>/dev/null || true; "+
			"ls -A /var/lib/etcd /var/lib/etcd-archive 2>/dev/null || true; "+
			"stat -c %i /var/lib/etcd/member 2>/dev/null || true"))
	}
	return out.String()
}

// lose makes members lose their data, as a broken disk does.
func (r *rig) lose(names ...string) {
	r.t.Helper()
	for _, name := range names {
		r.sh(name, "systemctl kill -s KILL etcd; systemctl stop etcd; rm -rf /var/lib/etcd/member")
	}
}

// rebuild makes a machine lose everything of its member.
func (r *rig) rebuild(name string) {
	r.t.Helper()
	r.sh(name, "systemctl disable --quiet etcd; rm -rf /var/lib/etcd /etc/etcd /etc/systemd/system/etcd.service "+
		"/etc/kubernetes/pki/etcd /opt/kube; systemctl daemon-reload; userdel etcd")
}

// ctlFunction is etcdctl for the member of a machine, which follows the directory of the programs.
const ctlFunction = "/etcdctl --endpoints=https://127.0.0.1:2379 --cacert=" +
	layout.CAPath + " --cert=" + layout.PKIDir + "/healthcheck-client.crt --key=" + layout.PKIDir +
	"/healthcheck-client.key \"$@\" 2>/dev/null; }\n"

// ctl runs commands of etcdctl on the member of a machine. A member that has moved to a machine of another name has
// the newer release.
func (r *rig) ctl(name string, commands ...string) string {
	r.t.Helper()
	script := "set -e\nc() { " + machine.ArtifactDir(cmp.Or(r.specs[name].Version, newRelease)) + ctlFunction
	for _, command := range commands {
		script += "c " + command + "\n"
	}
	return r.sh(name, script)
}

func (r *rig) revision(name string) int64 {
	r.t.Helper()
	var status []struct {
		Status struct {
			Header struct{ Revision int64 }
		}
	}
	err := json.Unmarshal([]byte(r.ctl(name, "endpoint status --write-out=json")), &status)
	if err != nil || len(status) != 1 {
		r.t.Fatal(err, status)
	}
	return status[0].Status.Header.Revision
}

// wantData checks what every member serves, that it serves later revisions than before, and
// that nobody is registered.
func (r *rig) wantData(value string, before int64) {
	r.t.Helper()
	for _, name := range everyone {
		got := strings.Fields(r.ctl(name, "get /registry/pods/a --print-value-only",
			"get /registry/masterleases/ --prefix --keys-only", "member list --write-out=simple | wc -l"))
		if want := []string{value, strconv.Itoa(len(everyone))}; strings.Join(got, " ") != strings.Join(want, " ") {
			r.t.Errorf("%s serves %v, want %v", name, got, want)
		}
		if now := r.revision(name); now <= before {
			r.t.Errorf("%s serves revision %d, and %d before", name, now, before)
		}
	}
	r.ctl("cp3", "put /registry/pods/b written")
	r.all("read", r.same)
}

// unchanged applies the same configuration again.
func (r *rig) unchanged() {
	r.t.Helper()
	const process = "systemctl show --property=MainPID etcd; cat /etc/etcd/member.json"
	before := map[string]string{}
	for _, name := range everyone {
		before[name] = r.sh(name, process)
	}
	r.all("the same again", r.update)
	for _, name := range everyone {
		if r.sh(name, process) != before[name] {
			r.t.Errorf("%s was changed by the same configuration", name)
		}
	}
}
