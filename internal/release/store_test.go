package release

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// snapshotStore checks that the release has the program under the names from which machines fetch it,
// with its digest, and that the program has the provider's version.
func snapshotStore(t *testing.T, made snapshot, key string) {
	names := host.DefaultSource().URLs["kube-snapshot-store"]
	file := func(template string) string {
		_, arch, _ := strings.Cut(platform, "_")
		expand := strings.NewReplacer("{version}", made.version, "{arch}", arch, "{name}", "kube-snapshot-store").Replace
		parsed, err := url.Parse(expand(template))
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(made.dir, path.Base(parsed.Path))
	}
	archive := file(names.URL)
	if key != "" { // the digest is made with the signatures
		sum := sha256.Sum256([]byte(read(t, archive)))
		if want := hex.EncodeToString(sum[:]) + "  " + filepath.Base(archive) + "\n"; read(t, file(names.Checksum)) != want {
			t.Errorf("the digest is %q, want %q", read(t, file(names.Checksum)), want)
		}
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v\n%s", err, out)
	}
	if output := run(t, filepath.Join(dir, "kube-snapshot-store"), "version"); output != made.version+"\n" {
		t.Errorf("kube-snapshot-store has version %q, want %q", output, made.version)
	}
}
