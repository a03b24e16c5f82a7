package acceptance

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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
// its credentials, a scraper. After the first snapshot is uploaded and restored by a drill, the control plane is ready:
// every item of the review passes or is accepted, as far as this computer is fast enough. Then each of
// the three is used: users log in, a
// snapshot is restored from the storage alone, and encrypted data is not readable in it.
func TestProduction(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, names, checkout(t), "examples/production")
	bare := fingerprints(t, names...)
	identity := newIdentity(t)
	logins, remote := newLogins(t), newStorage(t)
	prepareMachines(t, names, remote)
	configure(t, w, names, identity, logins, remote)
	compactOften(t, w)

	t.Run("rules", func(t *testing.T) { passes(t, w) })
	apply(t, w)
	awaitRotation(t, names...)
	expectEmptyPlan(t, w)
	first := reviewNow(t, w)
	expectMissing(t, first, "snapshots", "metrics", "compaction") // if the hour began meanwhile, snapshots passes
	if first.Ready {
		t.Error("nobody reads metrics, and the control plane is ready")
	}
	etcd, err := tls.X509KeyPair([]byte(outputOf(t, w, "etcd_client_certificate")),
		[]byte(opened(t, identity, outputOf(t, w, "etcd_client_key"))))
	if err != nil {
		t.Fatal(err)
	}
	scrape(t, names, credentialsOf(t, opened(t, identity, outputOf(t, w, "prometheus_kubeconfig"))),
		"https://%s:6443", "https://%s:10257", "https://%s:10259")
	scrape(t, names, credentials{tls: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{etcd}}},
		"https://%s:2382")

	text := openedOutput(t, w, identity)
	admin := "--kubeconfig=" + writeFile(t, w, "admin.conf", text)
	storeTexts(t, w, admin)
	for _, name := range names {
		t.Log(onMachine(t, shared.lab.Machine(name), "set -e\n"+documentedScript(t, "production", 1)))
	}
	restoreDrilled(t, w, remote)
	review := awaitReady(t, w)
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

// prepareMachines sets up what the guide leaves to the operator. A device in memory (zram) simulates
// a fast disk with a queue of its own for etcd. The speed of the lab's only disk is not relevant here.
func prepareMachines(t *testing.T, names []string, remote *storage) {
	t.Helper()
	for _, name := range names {
		t.Cleanup(func() { // whatever the test has left
			_, _ = shared.lab.Machine(name).Run(context.WithoutCancel(t.Context()), releaseDisk)
		})
		onMachine(t, shared.lab.Machine(name), `n=$(cat /sys/class/zram-control/hot_add)
echo $n >/run/etcd-disk
echo 2G >/sys/block/zram$n/disksize
mknod /dev/etcd-disk b $(tr : ' ' </sys/block/zram$n/dev)
mkfs.ext4 -q -L etcd /dev/etcd-disk
mkdir /var/lib/etcd
mount /dev/etcd-disk /var/lib/etcd
rmdir /var/lib/etcd/lost+found
umask 077
echo 'BACKUP_TOKEN=`+remote.token+`' >/etc/backup.env`)
	}
}

func cleanMachines(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), releaseDisk+"rmdir /var/lib/etcd\nrm /etc/backup.env")
	}
}

// releaseDisk removes the device again.
const releaseDisk = `if [ -e /run/etcd-disk ]; then
  systemctl stop etcd 2>/dev/null || :
  umount /var/lib/etcd
  n=$(cat /run/etcd-disk)
  echo 1 >/sys/block/zram$n/reset
  echo $n >/sys/class/zram-control/hot_remove
  rm /dev/etcd-disk /run/etcd-disk
fi
`

// compactOften shortens the interval of compactions, so that one can be seen in the time of a test.
func compactOften(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	file := filepath.Join(w.Dir, "production.tf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const before = `    extra_args = { apiserver = {`
	changed := strings.Replace(string(text), before, before+` etcd-compaction-interval = "1m",`, 1)
	if changed == string(text) {
		t.Fatalf("the example has no %s", before)
	}
	write(t, file, changed)
}

// scrape reads the metrics of components every few seconds, as Prometheus does: over connections that stay open. The
// URLs are without the address of a machine.
func scrape(t *testing.T, names []string, login credentials, urls ...string) {
	t.Helper()
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: login.insecure().tls}, Timeout: timeout,
	}
	t.Cleanup(client.CloseIdleConnections)
	read := func(url string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			return
		}
		if response, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(3 * time.Second) {
			for _, name := range names {
				for _, at := range urls {
					read(fmt.Sprintf(at, address(name)) + "/metrics")
				}
			}
		}
	}()
}

// awaitReady reviews until the control plane is ready. What takes time is the first compaction.
func awaitReady(t *testing.T, w *workspace.Workspace) readinessReview {
	t.Helper()
	for end := time.Now().Add(6 * time.Minute); ; time.Sleep(5 * time.Second) {
		review := reviewNow(t, w)
		if review.Ready {
			return review
		}
		if time.Now().After(end) {
			t.Fatal("the control plane does not become ready")
		}
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
		// The example's own, and a disk of this computer that may be slow.
		"accepted": []string{"certificates", "etcd-disk"},
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

// restoreDrilled sets snapshot_fetch, as the guide says when the first snapshot is uploaded, so that the apply runs a
// restore drill.
func restoreDrilled(t *testing.T, w *workspace.Workspace, remote *storage) {
	t.Helper()
	if err := w.WriteJSON("drill.auto.tfvars.json", map[string]any{
		"snapshot_fetch": `curl --fail --silent --show-error --header "Authorization: Bearer $BACKUP_TOKEN" ` +
			`--output "$SNAPSHOT" "` + remote.url + `/newest"`,
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
}

// reviewNow refreshes. The warnings name exactly the items that neither pass nor are accepted, unless
// the control plane is ready.
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
		warned := strings.Contains(unfolded(text), item.Status+": "+item.ID+": ")
		if warned != (item.Status != "pass" && !item.Accepted) {
			t.Errorf("%s is %s; warned of: %v", item.ID, item.Status, warned)
		}
	}
	if strings.Contains(unfolded(text), `in check "control_plane"`) {
		t.Errorf("the control plane is not well:\n%s", text)
	}
	return r
}

// expectMissing expects that all twenty items pass, except those in may, and those that the example
// accepts. The item of the disks may also warn, only about their speed, if other work on this computer
// slows them down.
func expectMissing(t *testing.T, r readinessReview, may ...string) {
	t.Helper()
	var missing []string
	may = append(may, "certificates")
	for _, item := range r.Items {
		if item.Status != "pass" {
			missing = append(missing, item.ID)
		}
		own := strings.Contains(item.Evidence, "on a disk of its own") &&
			!strings.Contains(item.Evidence, "file system")
		if item.ID == "etcd-disk" && item.Status == "warn" && own {
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
	return opened(t, identity, outputOf(t, w, "kubeconfig"))
}

func opened(t *testing.T, identity *age.X25519Identity, sealed string) string {
	t.Helper()
	text, err := sealOf(t, identity).Open(sealed)
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
