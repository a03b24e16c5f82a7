package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// The commands from the guide.
const (
	stopAll = `systemctl stop kube-scheduler kube-controller-manager kube-apiserver etcd
mkdir -p -m 0700 /var/lib/etcd-archive/before-restore
mv /var/lib/etcd/member /var/lib/etcd-archive/before-restore/`

	restoreOne = `token=$(grep -o '"cluster_id": *"[^"]*"' /etc/etcd/member.json | cut -d '"' -f 4)
/opt/kube/etcd/3.5.35/etcdutl snapshot restore ` +
		`/var/lib/etcd-archive/upgrades/20261122T014110Z-etcd-3.5.35-to-3.6.16.db \
  --data-dir=/var/lib/etcd --name=cp1 --initial-cluster=cp1=https://10.0.0.11:2380 ` +
		`--initial-advertise-peer-urls=https://10.0.0.11:2380 \
  --initial-cluster-token="$token" --bump-revision=1000000000 --mark-compacted
chown -R etcd:etcd /var/lib/etcd
id=$(printf '%s' "https://10.0.0.11:2380$token" | sha1sum | cut -c -16 | sed 's/^0*//')
sed -i "s/\"member_id\": *\"[0-9a-f]*\"/\"member_id\": \"$id\"/" /etc/etcd/member.json
sed -i 's|/etcd/3.6.16/|/etcd/3.5.35/|; ` +
		`s|--feature-gates=InitialCorruptCheck=true|--experimental-initial-corrupt-check=true|
  s|--watch-progress-|--experimental-watch-progress-|' /etc/systemd/system/etcd.service
systemctl daemon-reload
systemctl start etcd`

	restoreRest = `terraform state rm kube_etcd_member.prod
terraform apply`
)

// TestUpgradeUndone goes back to etcd 3.5 when all members run 3.6, in the only possible way:
// with the snapshot from before, by the guide's commands.
func TestUpgradeUndone(t *testing.T) {
	to := defaults(t)
	from := versions{minorBefore(t, 1).etcd, to.kubernetes}
	s := newUpgradeStory(t, from)
	client := credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	make := func(name string) {
		client.must(t, endpointURL, http.MethodPost, "/api/v1/namespaces",
			core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}, nil)
	}
	make("before")
	before := s.snapshots(t) // of other tests
	s.choose(t, to)
	apply(t, s.w)
	make("after")
	saved := slices.DeleteFunc(s.snapshots(t), func(path string) bool { return slices.Contains(before, path) })
	if len(saved) != 1 {
		t.Fatalf("saved were %q, want one snapshot", saved)
	}
	holder, path, _ := strings.Cut(saved[0], ":")

	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), asInGuide(t, stopAll))
	}
	onMachine(t, shared.lab.Machine(holder), strings.NewReplacer(
		"/var/lib/etcd-archive/upgrades/20261122T014110Z-etcd-3.5.35-to-3.6.16.db", path, "cp1", holder, "10.0.0.11",
		address(holder),
	).Replace(asInGuide(t, restoreOne)))
	asInGuide(t, restoreRest)
	if _, err := s.w.Run(t.Context(), "state", "rm", "kube_etcd_member.this"); err != nil {
		t.Fatal(err)
	}
	s.choose(t, from)
	apply(t, s.w)
	expectServing(t, s.w, s.names, from.etcd, from.kubernetes)
	client.must(t, endpointURL, http.MethodGet, "/api/v1/namespaces/before", nil, nil)
	if code, text, err := client.call(t.Context(), endpointURL, http.MethodGet, "/api/v1/namespaces/after", nil,
		nil); err != nil || code != http.StatusNotFound {
		t.Errorf("what was written since is still there: HTTP %d, %v: %s", code, err, text)
	}
	s.over(t)
}

// asInGuide returns a script that the guide contains literally.
func asInGuide(t *testing.T, script string) string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile(filepath.Join(root, "templates", "guides", "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), fmt.Sprintf("```sh\n%s\n```", script)) {
		t.Errorf("the guide does not give these commands:\n%s", script)
	}
	return script
}
