package secretscan

import (
	"encoding/base64"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"terraform.tfstate": "state", "mirror/provider": "program", "sub/crash.log": "crash",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Files(dir, func(name string) bool { return name == "mirror" })
	if want := []string{"sub/crash.log", "terraform.tfstate"}; err != nil ||
		!slices.Equal(slices.Sorted(maps.Keys(files)), want) {
		t.Errorf("read %q, %v, want %q", slices.Sorted(maps.Keys(files)), err, want)
	}
}

func TestParseKeys(t *testing.T) {
	content := base64.StdEncoding.EncodeToString([]byte("key\n"))
	got, err := ParseKeys("600 /etc/a.key " + content + "\n644 /etc/b " + content + "\n")
	want := []KeyFile{{"/etc/a.key", 0o600, "key\n"}, {"/etc/b", 0o644, "key\n"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
	for _, out := range []string{"600 /etc/a.key\n", "rw- /etc/a.key aGk=\n", "600 /etc/a.key !\n"} {
		if _, err := ParseKeys(out); err == nil {
			t.Errorf("%q is accepted", out)
		}
	}
}

// TestKeysScript runs the script for a directory and the volume of a member, instead of a whole machine.
func TestKeysScript(t *testing.T) {
	dir, volume, mounts := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "mounts")
	for path, text := range map[string]string{
		filepath.Join(volume, "kube-etcd-member.json"): "{}\n",
		filepath.Join(volume, "archive.key"):           plantedKeys(t)[0].pem,
		mounts:                                         "/dev/sdb " + volume + " ext4 rw 0 0\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"ca.key": plantedKeys(t)[0].pem, "ca.crt": "public\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	script := strings.NewReplacer("find / /run ", "find "+dir+" ", "/proc/mounts", mounts).Replace(KeysScript)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := ParseKeys(string(out))
	slices.SortFunc(files, func(a, b KeyFile) int { return strings.Compare(filepath.Base(b.Path), filepath.Base(a.Path)) })
	if err != nil || len(files) != 2 || files[0].Path != filepath.Join(dir, "ca.key") || files[0].Mode != 0o640 ||
		!files[0].Exposed() || files[1].Path != filepath.Join(volume, "archive.key") {
		t.Errorf("the script prints %q, %v", out, err)
	}
}

// TestBundle finds every secret of a bundle, and those of a kubeconfig.
func TestBundle(t *testing.T) {
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	s := New()
	if n, err := s.AddBundle(b); n != 4 || err != nil {
		t.Errorf("the bundle has %d secrets, %v, want three authorities and the service accounts", n, err)
	}
	key := plantedKeys(t)[0]
	kubeconfig := "users:\n- name: admin\n  user:\n    client-key-data: " +
		base64.StdEncoding.EncodeToString([]byte(key.pem)) + "\n"
	if n := s.AddFile("the kubeconfig", kubeconfig); n != 1 {
		t.Errorf("the kubeconfig has %d keys", n)
	}
	for name, text := range map[string]string{"the bundle": b.EtcdCA.PrivateKey, "the kubeconfig": string(key.der)} {
		if len(s.In([]byte("log: "+text))) == 0 {
			t.Errorf("the key of %s is not found", name)
		}
	}
	if s.Len() == 0 {
		t.Error("nothing is searched for")
	}
}
