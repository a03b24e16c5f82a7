package soak

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
)

const certificate = "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n"

func TestIncomplete(t *testing.T) {
	for _, c := range []struct {
		path, text, want string
	}{
		{"/etc/kubernetes/pki/ca.crt", certificate + certificate, ""},
		{"/etc/kubernetes/pki/ca.crt", certificate[:40], "something else than PEM"},
		{"/etc/kubernetes/pki/ca.crt", certificate + certificate[:30], "something else than PEM"},
		{"/etc/kubernetes/pki/sa.key", "", "is empty"},
		{"/etc/etcd/member.json", "{\"name\": \"cp1\"}\n", ""},
		{"/etc/etcd/member.json", "{\"name\": \"cp", "unexpected end of JSON"},
		{"/etc/kubernetes/admin.conf", "users:\n- name: x\n", ""},
		{"/etc/kubernetes/admin.conf", "users:\n- name: \"x", "is not complete"},
		{"/etc/systemd/system/etcd.service", "[Service]\nExecStart=/opt/ku", "its last line does not end"},
		{"/etc/haproxy/kube/.lock", "", ""},
		{"/etc/kube-endpoint-bgp/registered", "", ""},
		{"/etc/kube-endpoint-dns/key", "", "is empty"},
		{"/etc/kube-endpoint-bgp/bird.conf", "router id 10.0.0.11;\nprotocol bgp { }\n", ""},
		{"/etc/kube-endpoint-bgp/bird.conf", "router id 10.0", "its last line does not end"},
		{"/etc/kubernetes/pki/.ca.key.kube-12-0123456789abcdef", "", ""},
		{"/etc/kubernetes/manifests/.etcd.yaml.kube", "apiVersion: v", ""},
		{"/etc/kubernetes/manifests/etcd.yaml", "apiVersion: v1\nkind: \"Po", "is not complete"},
		{"/etc/kubernetes/replica.pods/.kube-apiserver.started", "", ""},
		{"/etc/kubernetes/replica.pods/inherited/.kube-apiserver.returns", "", ""},
		{"/etc/kubernetes/replica.pods/inherited/kube-apiserver.yaml", "", "is empty"},
		{"/etc/kubernetes/replica.paused", "", ""},
	} {
		file := writtenFile{machine: "cp1", path: c.path, size: len(c.text), text: c.text}
		got := file.incomplete()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s with %q: %q, want %q", c.path, c.text, got, c.want)
		}
	}
}

func TestTruncated(t *testing.T) {
	source := t.TempDir()
	if err := os.MkdirAll(filepath.Join(source, "etcd-v3.6.16"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "etcd-v3.6.16", "etcdctl"), []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path  string
		size  int
		right bool
	}{
		{"/opt/kube/etcd/3.6.16/etcdctl", 7, true},
		{"/opt/kube/etcd/3.6.16/etcdctl", 3, false},
		{"/opt/kube/endpoint/ask", 3, true},
		{"/opt/kube/etcd/3.6.16/.installed", 3, true},
	} {
		if got := (writtenFile{path: c.path, size: c.size}).truncated(source); (got == "") != c.right {
			t.Errorf("%s with %d bytes: %q", c.path, c.size, got)
		}
	}
}

// TestForeign: where the kubelet reads manifests is nothing but manifests of the components.
func TestForeign(t *testing.T) {
	const manifest = "kind: Pod\nmetadata:\n  name: etcd\n"
	for _, c := range []struct {
		path, text string
		right      bool
	}{
		{"/etc/kubernetes/manifests/etcd.yaml", manifest, true},
		{"/etc/kubernetes/manifests/.etcd.yaml.kube", "kind: P", true},
		{"/etc/kubernetes/manifests/etcd.yaml", "kind: Pod\n", false},
		{"/etc/kubernetes/manifests/etcd.yaml", "", false},
		{"/etc/kubernetes/manifests/etcd.yaml.before", manifest, false},
		{"/etc/kubernetes/manifests/kube-apiserver.yaml", manifest, false},
		{"/etc/kubernetes/manifests/etcd", manifest, false},
		{"/etc/kubernetes/manifests/.etcd.yaml", manifest, false},
		{"/etc/etcd/etcd.yaml", manifest, true},
		{"/etc/etcd/member.json", "{}\n", true},
	} {
		if got := (writtenFile{machine: "cp1", path: c.path, text: c.text}).foreign(); (got == "") != c.right {
			t.Errorf("%s with %q: %q", c.path, c.text, got)
		}
	}
}

// mountedVolume returns a directory that is the mounted volume of a member, and a list of mounts with it.
func mountedVolume(t *testing.T) (volume, mounts string) {
	t.Helper()
	volume, other, mounts := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "mounts")
	list := fmt.Sprintf("tmpfs %s tmpfs rw 0 0\n/dev/sdb %s ext4 rw 0 0\nnone /absent none rw 0 0\n", other, volume)
	for path, text := range map[string]string{
		filepath.Join(volume, "kube-etcd-member.json"): "{}\n",
		filepath.Join(other, "other.json"):             "{}\n",
		mounts:                                         list,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return volume, mounts
}

// TestLeftoversScript runs the script for a directory instead of those of a machine.
func TestLeftoversScript(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".etcd.yaml.kube", ".kube-apiserver.started", ".ca.key.kube-12-0123456789abcdef", "replica.paused", "etcd.before",
		"etcd.yaml", ".kube-apiserver.returns", "member.json",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	volume, mounts := mountedVolume(t)
	if err := os.WriteFile(filepath.Join(volume, ".kube-etcd-member.json.kube-1-ab"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.NewReplacer("/proc/mounts", mounts, "/etc /opt /usr/local /var/lib /root /run", dir,
		"/etc/etcd", dir, "/etc/kubernetes", dir)
	script := elsewhere.Replace(leftoversScript)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	listed := strings.Fields(strings.NewReplacer(dir+"/", "", volume+"/", "volume ").Replace(string(out)))
	slices.Sort(listed)
	want := []string{
		".ca.key.kube-12-0123456789abcdef", ".etcd.yaml.kube", ".kube-apiserver.started",
		".kube-etcd-member.json.kube-1-ab", "etcd.before", "replica.paused", "volume",
	}
	if got := slices.Compact(listed); !slices.Equal(got, want) {
		t.Errorf("the script prints %q, want %q", got, want)
	}
}

func TestMisplacedKey(t *testing.T) {
	for _, c := range []struct {
		file  secretscan.KeyFile
		right bool
	}{
		{secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/ca.key", Mode: 0o600}, true},
		{secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/ca.key", Mode: 0o400}, true},
		{secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/ca.key", Mode: 0o640}, false},
		{secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/ca.key", Mode: 0o620}, false},
		{secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/ca.key", Mode: 0o644}, false},
		{secretscan.KeyFile{Path: "cp1 /tmp/ca.key", Mode: 0o600}, false},
		{secretscan.KeyFile{Path: "cp1 /var/lib/kubelet/pki/kubelet-client-current.pem", Mode: 0o600}, true},
		{secretscan.KeyFile{Path: "cp1 /var/lib/kubelet/config.yaml", Mode: 0o600}, false},
	} {
		if got := misplacedKey(c.file); (got == "") != c.right {
			t.Errorf("%v: %q", c.file, got)
		}
	}
}

// TestHunt finds each key in each place where it may not be.
func TestHunt(t *testing.T) {
	b, err := pki.Generate(pki.Options{ClusterName: "soak", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	seal, err := pki.NewSeal([]string{identity.String()}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := b.Encode(seal)
	if err != nil {
		t.Fatal(err)
	}
	s := &sweep{identity: identity.String(), sshKey: b.FrontProxyCA.PrivateKey}
	state, err := json.Marshal(map[string]any{"resources": []any{map[string]any{
		"type": "kube_pki_bundle", "instances": []any{map[string]any{"attributes": map[string]any{"bundle": sealed}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	bundles, err := s.bundles(state)
	if err != nil || len(bundles) != 1 {
		t.Fatalf("%d bundles are in the state: %v", len(bundles), err)
	}
	leaf, err := pki.Generate(pki.Options{ClusterName: "soak", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	onMachine := secretscan.KeyFile{Path: "cp1 /etc/kubernetes/pki/sa.key", Text: leaf.CA.PrivateKey}
	for _, c := range []struct{ name, text, want string }{
		{"the state", string(state), ""},
		{"the trace", "key: " + b.EtcdCA.PrivateKey, "the etcd authority"},
		{"the trace", "key: " + leaf.CA.PrivateKey, "cp1 /etc/kubernetes/pki/sa.key"},
		{"the plan", s.identity, "the identity"},
		{"the crash log", s.sshKey, "the SSH key"},
	} {
		h := s.newHunt()
		h.files, h.bundles = []secretscan.KeyFile{onMachine}, bundles
		h.texts[c.name] = []byte(c.text)
		err := h.search()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	h := s.newHunt()
	if err := h.search(); err == nil {
		t.Error("a search without keys passes")
	}
	h.bundles = bundles
	if h.add("after the cut", "cp1: /etc/x is empty"); h.search() == nil {
		t.Error("a half-written file passes")
	}
}

// TestFilesScript runs the script for a directory instead of those of a machine.
func TestFilesScript(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"member.json": "{}\n", "empty": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, mounts := mountedVolume(t)
	script := strings.NewReplacer("/etc/etcd ", dir+" ", "/proc/mounts", mounts).Replace(filesScript)
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	for line := range strings.Lines(string(out)) {
		file, err := parseWritten("cp1", line)
		if err != nil {
			t.Fatal(err)
		}
		sizes[filepath.Base(file.path)] = len(file.text)
	}
	_, other := sizes["other.json"]
	if sizes["member.json"] != 3 || sizes["kube-etcd-member.json"] != 3 || sizes["empty"] != 0 || len(sizes) < 3 ||
		other {
		t.Errorf("the script prints %q", out)
	}
	line := fmt.Sprintf("600 3 /etc/x %s\n", base64.StdEncoding.EncodeToString([]byte("{}\n")))
	for _, malformed := range []string{line[:9], strings.Replace(line, " 3 ", " three ", 1), "600 3 /etc/x !\n"} {
		if _, err := parseWritten("cp1", malformed); err == nil {
			t.Errorf("%q is accepted", malformed)
		}
	}
}
