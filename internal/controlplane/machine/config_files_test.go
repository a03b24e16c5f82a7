package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestListConfigFiles parses what the script prints of a real directory.
func TestListConfigFiles(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"one.yaml": "1", "two words": "2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		string(host.Assignments(map[string]string{"files_dir": dir})+listConfigFiles)).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]host.FileState{}
	addConfigFiles(files, string(out)+"600 root root xyz  bad\n")
	at := component.ConfigFilePath("one.yaml")
	if len(files) != 1 || files[at].SHA256 != Digest([]byte("1")) || files[at].Mode != 0o600 {
		t.Errorf("%v from %q", files, out)
	}
}

// TestObservedConfigFiles: an import reads no write-only content.
func TestObservedConfigFiles(t *testing.T) {
	files := map[string]host.FileState{
		component.ConfigFilePath("admission.yaml"): {
			Mode: 0o644, Owner: "kube-apiserver", SHA256: Digest([]byte("a")), Content: "a",
		},
		component.ConfigFilePath("webhook.conf"): {Mode: 0o600, Owner: "kube-apiserver", SHA256: Digest([]byte("b"))},
	}
	got := observedConfigFiles(map[string]WrittenFile{
		"admission.yaml": {}, "webhook.conf": {WriteOnly: true},
		"gone": {},
	},
		files)
	if len(got) != 2 || !got["webhook.conf"].WriteOnly || got["webhook.conf"].SHA256 != Digest([]byte("b")) ||
		got["admission.yaml"].Content != "a" || got["admission.yaml"].Mode != component.PublicMode {
		t.Errorf("%+v", got)
	}
}
