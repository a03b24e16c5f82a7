package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// imports returns the IDs from which the example's resources are imported, machines and a
// backup, by address in the configuration.
func imports(backup, kubeconfig string, names ...string) map[string]string {
	ids := map[string]string{
		"kube_pki_bundle.this":             "file:" + backup,
		"kube_control_plane_endpoint.this": address(names[0]),
		"kube_kubeconfig.admin":            kubeconfig,
	}
	for _, name := range names {
		ids[fmt.Sprintf("kube_etcd_member.this[%q]", name)] = address(name)
		ids[fmt.Sprintf("kube_control_plane_replica.this[%q]", name)] = address(name)
	}
	return ids
}

// importBlocks returns the import blocks for ids.
func importBlocks(ids map[string]string) string {
	var text strings.Builder
	for to, id := range ids {
		fmt.Fprintf(&text, "import {\n  to = %s\n  id = %q\n}\n", to, id)
	}
	return text.String()
}

// machineSnapshot is the state of a control plane's machines before an import: the running processes,
// and every file with its content and its change times.
type machineSnapshot struct {
	names []string
	seen  map[string]string
}

func observeMachines(t *testing.T, names ...string) machineSnapshot {
	t.Helper()
	u := machineSnapshot{names: names, seen: map[string]string{}}
	for _, name := range names {
		u.seen[name] = u.observe(t, name)
	}
	return u
}

func (machineSnapshot) observe(t *testing.T, name string) string {
	t.Helper()
	m := shared.lab.Machine(name)
	return starts(t, m) + onMachine(t, m,
		`systemctl show -p Id -p MainPID -p ActiveEnterTimestampMonotonic kube-endpoint-haproxy kube-endpoint-keepalived
find /etc /opt/kube -xdev -type f -printf '%p %m %T@ %C@ ' -exec sha256sum {} \; | sort`)
}

func (u machineSnapshot) expect(t *testing.T) {
	t.Helper()
	for _, name := range u.names {
		before, after := strings.Split(u.seen[name], "\n"), strings.Split(u.observe(t, name), "\n")
		for _, line := range after {
			if !slices.Contains(before, line) {
				t.Errorf("%s was touched: %s", name, line)
			}
		}
		if len(after) != len(before) {
			t.Errorf("%s has %d files and processes, before it had %d", name, len(after), len(before))
		}
	}
}

// TestImport removes a control plane from the state and imports all of it, from its machines
// and a backup of its bundle, in every way that Terraform supports. The machines do not change,
// and the plan afterwards is empty except for real differences.
func TestImport(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	machines(t)
	bare := fingerprints(t, names...)
	w := newWorkspace(t, len(names))
	write(t, filepath.Join(w.Dir, settingsFile), withSettings)
	apply(t, w)
	expectHealthy(t, w, names) // the state also contains what is observed now
	i := &importing{
		w: w, names: names, backup: filepath.Join(t.TempDir(), "bundle"),
		kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), before: observeMachines(t, names...),
	}
	write(t, i.backup, textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"))
	write(t, i.kubeconfig, outputOf(t, w, "kubeconfig"))
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"by blocks", i.byBlocks},
		{"by the command", i.byCommand},
		{"by identity", i.byIdentity},
		{"with generated configuration", i.generated},
		{"with a bundle of elsewhere", i.otherBundle},
		{"nothing there", i.refusals},
		{"changed by hand", i.changed},
		{"set up by an earlier version", i.earlier},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// importing is a control plane that is repeatedly removed from the state and imported.
type importing struct {
	w          *workspace.Workspace
	names      []string
	backup     string // of the bundle
	kubeconfig string
	before     machineSnapshot
}

// forget removes the state.
func (i *importing) forget(t *testing.T) {
	t.Helper()
	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup"} {
		if err := os.Remove(filepath.Join(i.w.Dir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

func (i *importing) blocks(t *testing.T, text string) {
	t.Helper()
	write(t, filepath.Join(i.w.Dir, "imports.tf"), text)
}

// valuesBy returns the state by address.
func valuesBy(t *testing.T, w *workspace.Workspace) map[string]string {
	t.Helper()
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, r := range resources {
		var values map[string]any
		if err := json.Unmarshal(r.Values, &values); err != nil {
			t.Fatal(err)
		}
		text, err := json.MarshalIndent(values, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		all[r.Address] = string(text)
	}
	return all
}

func (i *importing) byBlocks(t *testing.T) {
	before := valuesBy(t, i.w)
	i.forget(t)
	i.blocks(t, importBlocks(imports(i.backup, "file:"+i.kubeconfig, i.names...)))
	expectContains(t, plan(t, i.w), "9 to import, 0 to add, 0 to change, 0 to destroy.")
	apply(t, i.w)
	i.blocks(t, "")
	expectEmptyPlan(t, i.w)
	i.before.expect(t)
	for at, values := range valuesBy(t, i.w) {
		if values != before[at] {
			t.Errorf("%s was imported as\n%s\nbut was\n%s", at, values, before[at])
		}
	}
	expectHealthy(t, i.w, i.names)
}

// byCommand imports the resources one after the other. Members get their bundle once it is
// imported.
func (i *importing) byCommand(t *testing.T) {
	i.forget(t)
	ids := imports(i.backup, address("cp2"), i.names...)
	order := slices.Sorted(maps.Keys(ids))
	// The bundle comes last.
	slices.SortStableFunc(order, func(a, b string) int { return strings.Compare(ids[a][:1], ids[b][:1]) })
	for _, to := range order {
		if _, err := i.w.Run(t.Context(), "import", "-input=false", "-no-color", to, ids[to]); err != nil {
			t.Fatal(err)
		}
	}
	expectEmptyPlan(t, i.w)
	i.before.expect(t)
}

// byIdentity imports resources with an identity, if the CLI supports it (1.12).
func (i *importing) byIdentity(t *testing.T) {
	text, err := i.w.Run(t.Context(), "version", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var version struct {
		Terraform string `json:"terraform_version"`
	}
	var major, minor int
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(version.Terraform, "%d.%d", &major, &minor); err != nil || major == 1 && minor < 12 {
		testrun.Elsewhere(t, "version "+version.Terraform+" has no identities: Terraform 1.12 and OpenTofu 1.12 have")
	}
	i.forget(t)
	blocks := importBlocks(map[string]string{"kube_pki_bundle.this": "file:" + i.backup, "kube_kubeconfig.admin": "file:" +
		i.kubeconfig})
	identified := func(to, identity string) {
		blocks += fmt.Sprintf("import {\n  to = %s\n  identity = { %s }\n}\n", to, identity)
	}
	identified("kube_control_plane_endpoint.this", fmt.Sprintf("address = %q, host = %q", vip, address("cp3")))
	for _, name := range i.names {
		identified(fmt.Sprintf("kube_etcd_member.this[%q]", name), fmt.Sprintf("address = %q", address(name)))
		identified(fmt.Sprintf("kube_control_plane_replica.this[%q]", name), fmt.Sprintf("address = %q", address(name)))
	}
	i.blocks(t, blocks)
	expectContains(t, plan(t, i.w), "9 to import, 0 to add, 0 to change, 0 to destroy.")
	apply(t, i.w)
	i.blocks(t, "")
	expectEmptyPlan(t, i.w)
	i.before.expect(t)
}

// refusals checks that objects that do not exist, or that this provider does not manage, are
// not imported.
func (i *importing) refusals(t *testing.T) {
	i.forget(t)
	for _, c := range []struct{ to, id, fragments string }{
		{"kube_etcd_member.this[\"cp1\"]", "cp1", "is not the IP address of a machine"},
		{"kube_pki_bundle.this", "file:/does/not/exist", "read the backup of a bundle"},
		{"kube_pki_bundle.this", "file:" + i.kubeconfig, "it is not the JSON of a bundle"},
		{"kube_kubeconfig.admin", "file:" + i.backup, "read kubeconfig"},
	} {
		_, err := i.w.Run(t.Context(), "import", "-input=false", "-no-color", c.to, c.id)
		if err == nil {
			t.Errorf("%s was imported from %s", c.to, c.id)
			continue
		}
		expectContains(t, unfolded(err.Error()), c.fragments)
	}
	i.before.expect(t)
}

// changed checks that manual changes are imported as they are, and that the plan shows them.
func (i *importing) changed(t *testing.T) {
	i.forget(t)
	onMachine(t, shared.lab.Machine("cp2"),
		`sed -i 's/--snapshot-count=[0-9]*/&/; s|--watch-progress-notify-interval=5s|--watch-progress-notify-interval=7s|' \
  /etc/systemd/system/etcd.service
sed -i 's|--goaway-chance=0.001|--goaway-chance=0.002|; s|--audit-log-maxage=7|--audit-log-maxage=8|' \
  /etc/systemd/system/kube-apiserver.service
sed -i 's|^MemoryMax=1G$|MemoryMax=2G|' /etc/systemd/system/kube-controller-manager.service`)
	before := observeMachines(t, i.names...)
	i.blocks(t, importBlocks(imports(i.backup, "file:"+i.kubeconfig, i.names...)))
	text := plan(t, i.w)
	before.expect(t)
	expectContains(t, text, "9 to import, 0 to add, 2 to change, 0 to destroy.",
		`kube_etcd_member.this["cp2"] will be updated in-place`,
		`kube_control_plane_replica.this["cp2"] will be updated in-place`,
		`"watch-progress-notify-interval" = "7s"`, `"goaway-chance" = "0.002"`, "8 -> 7", `"2G" -> "1G"`)
	apply(t, i.w)
	i.blocks(t, "")
	expectEmptyPlan(t, i.w)
	expectHealthy(t, i.w, i.names)
}

// TestImportWithoutBackup imports after the state and the backup of a bundle are lost, from the
// machines alone. They provide everything except the keys of two authorities. The plan is still
// empty, and a rotation replaces the two.
func TestImportWithoutBackup(t *testing.T) {
	machines(t)
	names := []string{"cp1", "cp2"}
	bare := fingerprints(t, names...)
	w := newWorkspace(t, len(names))
	apply(t, w)
	i := &importing{w: w, names: names, before: observeMachines(t, names...)}
	i.forget(t)
	ids := imports("", address("cp1"), names...)
	ids["kube_pki_bundle.this"] = address("cp2")
	i.blocks(t, importBlocks(ids))
	override(t, w, "resource \"kube_pki_bundle\" \"this\" {\n  deletion_protection = true\n}\n") // as imported
	expectContains(t, plan(t, w), "7 to import, 0 to add, 0 to change, 0 to destroy.",
		"No machine has the private keys of these CAs: etcd, front-proxy")
	apply(t, w)
	i.blocks(t, "")
	override(t, w, "")
	apply(t, w)
	i.before.expect(t)
	expectHealthy(t, w, names)
	for stage := 1; stage <= 3; stage++ {
		rotation := fmt.Sprintf("-var=rotation={etcd=%[1]d,front_proxy=%[1]d}", stage)
		apply(t, w, rotation)
	}
	useAPI(t, w)
	rotated := "-var=rotation={etcd=3,front_proxy=3}"
	onMachine(t, shared.lab.Machine("cp1"),
		"rm /etc/kubernetes/pki/etcd/server.crt /etc/kubernetes/pki/front-proxy-client.crt")
	apply(t, w, rotated) // both are issued again
	apply(t, w, "-destroy", rotated)
	expectBare(t, bare, names...)
}

// asEarlierVersion removes from a machine what earlier versions did not record.
const asEarlierVersion = `sed -i -zE 's/,\n  "configured": \{.*\n  \}\n\}/\n}/' \
  /etc/etcd/member.json /etc/kubernetes/replica.json
! grep configured /etc/etcd/member.json /etc/kubernetes/replica.json
sed -i -E '/^  "(cluster_id|cluster_name|address)"/d' /etc/haproxy/kube/endpoint.json`

// earlier checks that settings that an earlier version did not record are imported as not set.
// Here the difference is between no extra_args and empty ones, and the change only updates a
// record on the machine. The only drift is the missing owner of the endpoint, whose repair also
// only updates a record and restarts nothing.
func (i *importing) earlier(t *testing.T) {
	for _, name := range i.names {
		onMachine(t, shared.lab.Machine(name), asEarlierVersion)
	}
	const leftOut = "-var=etcd_extra_args=null"
	before := startsOfAll(t, i.names)
	expectContains(t, plan(t, i.w), "0 to add, 1 to change, 0 to destroy.",
		"does not record that the host belongs to this endpoint")
	for _, fragments := range []string{
		"9 to import, 0 to add, 4 to change, 0 to destroy.",
		"9 to import, 0 to add, 0 to change, 0 to destroy.",
	} {
		i.forget(t)
		i.blocks(t, importBlocks(imports(i.backup, "file:"+i.kubeconfig, i.names...)))
		expectContains(t, plan(t, i.w, leftOut), fragments)
		apply(t, i.w, leftOut)
		i.blocks(t, "")
		expectEmptyPlan(t, i.w, leftOut)
	}
	if now := startsOfAll(t, i.names); now != before {
		t.Errorf("processes were restarted:\nbefore:\n%s\nafter:\n%s", before, now)
	}
}
