package acceptance

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// Two texts that are stored in etcd, one of them in the clear.
const (
	secretValue = "swordfish-in-a-secret"
	plainValue  = "haddock-in-a-configmap"
)

// TestProduction applies examples/production together with what its guide leaves to the
// operator: a disk for etcd on each machine, an issuer of logins, storage for snapshots with
// its credentials. After the first snapshot is uploaded, every item of the review passes, as
// far as this computer is fast enough. Then each of the three is used: users log in, a snapshot
// is restored from the storage alone, and encrypted data is not readable in it.
func TestProduction(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, names, checkout(t), "examples/production")
	bare := fingerprints(t, names...)
	identity := newIdentity(t)
	logins, remote := newLogins(t), newStorage(t)
	prepareMachines(t, names, remote)
	configure(t, w, names, identity, logins, remote)

	t.Run("rules", func(t *testing.T) { passes(t, w) })
	apply(t, w)
	awaitRotation(t, names...)
	expectEmptyPlan(t, w)
	expectMissing(t, reviewNow(t, w), "snapshots") // if the hour began meanwhile, every item passes

	text := openedOutput(t, w, identity)
	admin := "--kubeconfig=" + writeFile(t, w, "admin.conf", text)
	storeTexts(t, w, admin)
	for _, name := range names {
		t.Log(onMachine(t, shared.lab.Machine(name), documentedScript(t, "production", 1)))
	}
	review := reviewNow(t, w)
	expectMissing(t, review)
	expectContains(t, newUser(t, w).typeCommands(t, documentedScript(t, "production", 0)),
		review.Summary, "etcd-snapshot.timer")
	expectEmptyPlan(t, w)
	t.Run("people log in", func(t *testing.T) { logIn(t, w, admin, asOf(t, w, text), logins) })
	t.Run("a snapshot from the storage", func(t *testing.T) { restores(t, remote) })
	t.Run("a disk that is not mounted", func(t *testing.T) { missDisk(t, w, "cp2") })
	if t.Failed() {
		t.FailNow()
	}
	t.Run("it is protected", func(t *testing.T) {
		expectContains(t, refused(t, w, "-destroy"), "deletion_protection",
			"set deletion_protection = false on its kube_pki_bundle, apply, then destroy")
	})
	apply(t, w, "-var=deletion_protection=false")
	apply(t, w, "-destroy", "-var=deletion_protection=false")
	cleanMachines(t, names)
	expectBare(t, bare, names...)
}

// prepareMachines sets up what the guide leaves to the operator. A loop device on a file in
// memory (/run) simulates a fast dedicated disk for etcd. The speed of the lab's only disk is
// not relevant here.
func prepareMachines(t *testing.T, names []string, remote *storage) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), `for i in $(seq 0 63); do mknod /dev/loop$i b 7 $i; done
mknod /dev/loop-control c 10 237
truncate --size=2G /run/etcd-disk
mkfs.ext4 -q -L etcd /run/etcd-disk
mkdir /var/lib/etcd
mount -o loop /run/etcd-disk /var/lib/etcd
rmdir /var/lib/etcd/lost+found
umask 077
echo 'BACKUP_TOKEN=`+remote.token+`' >/etc/backup.env`)
	}
}

func cleanMachines(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name),
			"umount /var/lib/etcd\nrmdir /var/lib/etcd\nrm /etc/backup.env /run/etcd-disk /dev/loop*")
	}
}

// missDisk checks that a member whose data is missing does not start, and that the plan reports
// the reason. With its data back, it continues as the same member. A file system that is
// mounted over the data simulates the empty directory below it.
func missDisk(t *testing.T, w *workspace.Workspace, name string) {
	m := shared.lab.Machine(name)
	onMachine(t, m, `systemctl stop etcd
mount -t tmpfs -o size=1m,mode=0755 no-disk /var/lib/etcd
! systemctl start etcd`)
	expectContains(t, plan(t, w), name+": data directory /var/lib/etcd has no data of a member")
	onMachine(t, m, "umount /var/lib/etcd\nsystemctl start etcd")
	awaitRotation(t, "cp1", "cp2", "cp3")
	expectEmptyPlan(t, w)
}

// configure writes the example's variables.
func configure(t *testing.T, w *workspace.Workspace, names []string, identity *age.X25519Identity, logins loginIssuer,
	remote *storage,
) {
	t.Helper()
	seal := writeFile(t, w, "seal.txt", identity.String()+"\n")
	if err := w.WriteJSON("terraform.tfvars.json", map[string]any{
		"machines": addresses(names), "seal_identity_file": seal,
		"login": map[string]any{
			"issuer": logins.url, "audience": audience,
			"certificate_authority": logins.authority,
		},
		"snapshot_environment_file": "/etc/backup.env",
		"snapshot_upload": `curl --fail --silent --show-error --header "Authorization: Bearer $BACKUP_TOKEN" ` +
			`--upload-file "$SNAPSHOT" "` + remote.url + `/$CLUSTER/$SNAPSHOT_NAME"`,
	}); err != nil {
		t.Fatal(err)
	}
}

// reviewNow refreshes. The warnings name exactly the items that do not pass.
func reviewNow(t *testing.T, w *workspace.Workspace) readinessReview {
	t.Helper()
	text, err := w.Run(t.Context(), "apply", "-refresh-only", "-auto-approve", "-input=false", "-no-color")
	if err != nil {
		t.Fatal(err)
	}
	var r readinessReview
	answerOf(t, w, "kube_production_readiness", &r)
	t.Log(r.Summary)
	for _, item := range r.Items {
		t.Logf("%-8s %s: %s", item.Status, item.ID, item.Evidence)
		if warned := strings.Contains(unfolded(text), item.Status+": "+item.ID+": "); warned != (item.Status != "pass") {
			t.Errorf("%s is %s; warned of: %v", item.ID, item.Status, warned)
		}
	}
	if strings.Contains(unfolded(text), `in check "control_plane"`) {
		t.Errorf("the control plane is not well:\n%s", text)
	}
	return r
}

// expectMissing expects that all twenty items pass, except those in may. The item of the disks
// may also warn, only about their speed, if other work on this computer slows them down.
func expectMissing(t *testing.T, r readinessReview, may ...string) {
	t.Helper()
	var missing []string
	for _, item := range r.Items {
		if item.Status != "pass" {
			missing = append(missing, item.ID)
		}
		if item.ID == "etcd-disk" && item.Status == "warn" && !strings.Contains(item.Evidence, "the root file system;") {
			may = append(may, item.ID)
		}
	}
	if r.Total != 20 || len(r.Items) != 20 || r.Score != 20-len(missing) {
		t.Errorf("%d of %d with %d items, of which %d do not pass", r.Score, r.Total, len(r.Items), len(missing))
	}
	if strange := slices.DeleteFunc(missing, func(id string) bool { return slices.Contains(may, id) }); len(strange) > 0 {
		t.Errorf("%v do not pass", strange)
	}
}

// openedOutput opens the kubeconfig as an administrator does.
func openedOutput(t *testing.T, w *workspace.Workspace, identity *age.X25519Identity) string {
	t.Helper()
	text, err := sealOf(t, identity).Open(outputOf(t, w, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// kubectl runs kubectl within the lab and returns its output.
func kubectl(t *testing.T, w *workspace.Workspace, args ...string) string {
	t.Helper()
	out, err := tryKubectl(t, w, args...)
	if err != nil {
		t.Fatalf("kubectl: %v\n%s", err, out)
	}
	return out
}

// kubectlPath returns the path of the default release's kubectl.
func kubectlPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(shared.components, "kubernetes-v"+release(t, "kubernetes"), "kubectl")
}

func tryKubectl(t *testing.T, w *workspace.Workspace, args ...string) (string, error) {
	t.Helper()
	out, err := w.InLab(t.Context(), kubectlPath(t), args...).CombinedOutput()
	return string(out), err
}

// writeFile writes text to a file of the workspace and returns its path.
func writeFile(t *testing.T, w *workspace.Workspace, name, text string) string {
	t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func storeTexts(t *testing.T, w *workspace.Workspace, admin string) {
	t.Helper()
	kubectl(t, w, admin, "create", "secret", "generic", "hidden", "--from-literal=word="+secretValue)
	kubectl(t, w, admin, "create", "configmap", "open", "--from-literal=word="+plainValue)
}

// asOf returns kubectl's arguments for a client with nothing but a token, for the cluster of
// that kubeconfig.
func asOf(t *testing.T, w *workspace.Workspace, kubeconfig string) func(token string, args ...string) []string {
	t.Helper()
	info, err := pki.ParseKubeconfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	authority := writeFile(t, w, "ca.crt", info.CA)
	return func(token string, args ...string) []string {
		return append([]string{
			"--kubeconfig=/dev/null", "--server=" + info.Server, "--certificate-authority=" + authority,
			"--token=" + token,
		}, args...)
	}
}

// logIn checks that a token of the issuer authenticates a user of the cluster, with the mapped
// name and groups, who has the permissions of both. A token for another audience is rejected.
func logIn(
	t *testing.T, w *workspace.Workspace, admin string, as func(token string, args ...string) []string, logins loginIssuer,
) {
	ada := logins.token(t, audience)
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Groups   []string
			} `json:"userInfo"`
		}
	}
	if err := json.Unmarshal([]byte(kubectl(t, w, as(ada, "auth", "whoami", "--output=json")...)), &review); err != nil {
		t.Fatal(err)
	}
	user := review.Status.UserInfo
	if user.Username != "login:ada@example.com" || !slices.Contains(user.Groups, "login:operators") {
		t.Errorf("logged in as %+v", user)
	}
	if out, err := tryKubectl(t, w, as(ada, "get", "nodes")...); err == nil ||
		!strings.Contains(out, http.StatusText(http.StatusForbidden)) {
		t.Errorf("without a role: %v\n%s", err, out)
	}
	kubectl(t, w, admin, "create", "clusterrolebinding", "operators", "--clusterrole=cluster-admin",
		"--group=login:operators")
	kubectl(t, w, as(ada, "get", "nodes")...)
	if out, err := tryKubectl(t, w, as(logins.token(t, "another"), "auth", "whoami")...); err == nil ||
		!strings.Contains(out, http.StatusText(http.StatusUnauthorized)) {
		t.Errorf("a token for another audience: %v\n%s", err, out)
	}
}
