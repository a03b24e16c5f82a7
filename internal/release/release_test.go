package release

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestRelease builds a release twice, checks its contents, and installs it with
// Terraform and with OpenTofu from a filesystem mirror.
func TestRelease(t *testing.T) {
	if os.Getenv("KUBE_TEST_RELEASE") == "" {
		testrun.Elsewhere(t, "make test-release runs it")
	}
	home, key := "", ""
	if _, err := exec.LookPath("gpg"); err == nil {
		home, key = gpgKey(t)
	}
	made := newSnapshot(t, home, key)

	t.Run("sums", func(t *testing.T) { sums(t, made) })
	t.Run("signatures", func(t *testing.T) {
		if key == "" {
			testrun.Missing(t, "gpg is not installed (kube-lab setup installs it): the release is not signed")
		}
		signatures(t, made, key)
	})
	t.Run("archive", func(t *testing.T) { archive(t, made) })
	t.Run("manifest", func(t *testing.T) { manifest(t, made) })
	t.Run("bill of materials", func(t *testing.T) {
		const module = "github.com/kubequorum/terraform-provider-kube"
		materials(t, made, made.path(platform+".cdx.json"), module, "terraform-provider-kube_v"+made.version)
		materials(t, made, made.review(platform+".cdx.json"), module, "kube-review")
		materials(t, made, made.store(platform+".cdx.json"), module+"/tools/snapshot-store", "kube-snapshot-store")
	})
	t.Run("kube-snapshot-store", func(t *testing.T) { snapshotStore(t, made, key) })
	t.Run("kube-review", func(t *testing.T) { kubeReview(t, made) })
	t.Run("reproducible", func(t *testing.T) {
		again := newSnapshot(t, "", "")
		if first, second := read(t, made.path("SHA256SUMS")), read(t, again.path("SHA256SUMS")); first != second {
			t.Errorf("the same commit gives another release:\n%s\n%s", first, second)
		}
		for _, file := range []string{".tar.gz", ".cdx.json"} {
			if read(t, made.review(platform+file)) != read(t, again.review(platform+file)) {
				t.Errorf("the same commit gives another kube-review%s", file)
			}
			if read(t, made.store(platform+file)) != read(t, again.store(platform+file)) {
				t.Errorf("the same commit gives another kube-snapshot-store%s", file)
			}
		}
		if _, err := os.Stat(again.path("SHA256SUMS.sig")); !os.IsNotExist(err) {
			t.Errorf("a snapshot without a key has a signature: %v", err)
		}
	})
	t.Run("terraform", func(t *testing.T) {
		terraform, err := build.RealTerraform(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		install(t, made, terraform, "registry.terraform.io")
	})
	t.Run("tofu", func(t *testing.T) {
		tofu, err := build.Tofu(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		install(t, made, tofu, "registry.opentofu.org")
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sums checks that SHA256SUMS has the digests of the provider's zip and the manifest,
// and no other: the Terraform registry rejects a release whose SHA256SUMS lists more.
func sums(t *testing.T, made snapshot) {
	var names []string
	for line := range strings.Lines(read(t, made.path("SHA256SUMS"))) {
		digest, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		names = append(names, name)
		file := filepath.Join(made.dir, name)
		if name == made.name("manifest.json") { // the file of the checkout, published under this name
			file = manifestFile(t)
		}
		if sum := sha256.Sum256([]byte(read(t, file))); hex.EncodeToString(sum[:]) != digest {
			t.Errorf("SHA256SUMS has another digest of %s", name)
		}
	}
	slices.Sort(names)
	want := []string{made.name(platform + ".zip"), made.name("manifest.json")}
	if !slices.Equal(names, want) {
		t.Errorf("SHA256SUMS lists %q, want %q", names, want)
	}
}

// signatures checks that each published file is in SHA256SUMS or has a detached binary
// signature, and that these and SHA256SUMS's own are by the key.
func signatures(t *testing.T, made snapshot, key string) {
	var published []struct{ Name, Path, Type string }
	if err := json.Unmarshal([]byte(read(t, filepath.Join(made.dir, "artifacts.json"))), &published); err != nil {
		t.Fatal(err)
	}
	listed, signed := read(t, made.path("SHA256SUMS")), 0
	for _, file := range published {
		if !slices.Contains([]string{"Archive", "SBOM", "Checksum"}, file.Type) {
			continue
		}
		if strings.Contains(listed, "  "+file.Name+"\n") {
			continue
		}
		signed++
		path := filepath.Join(made.dir, file.Name)
		if out, err := verify(t, path+".sig", path); err != nil || !strings.Contains(out, "VALIDSIG "+key) {
			t.Errorf("the signature of %s is not the key's: %v\n%s", file.Name, err, out)
		}
	}
	if signed != 6 { // SHA256SUMS, three bills of materials, kube-review, kube-snapshot-store
		t.Errorf("%d files are signed:\n%+v", signed, published)
	}
	changed := filepath.Join(t.TempDir(), "SHA256SUMS")
	if err := os.WriteFile(changed, []byte(listed+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := verify(t, made.path("SHA256SUMS.sig"), changed); err == nil {
		t.Errorf("the signature is that of a changed file too:\n%s", out)
	}
}

func verify(t *testing.T, signature, signed string) (string, error) {
	t.Helper()
	gpg := exec.CommandContext(t.Context(), "gpg", "--batch", "--status-fd=1", "--verify", signature, signed)
	out, err := gpg.CombinedOutput()
	return string(out), err
}

// archive checks that the zip has the provider, executable, under the name that
// Terraform looks for, and the license, and that the provider has the release's version.
func archive(t *testing.T, made snapshot) {
	zipped, err := zip.OpenReader(made.path(platform + ".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	program := "terraform-provider-kube_v" + made.version
	var names []string
	for _, file := range zipped.File {
		names = append(names, file.Name)
		if file.Name != program {
			continue
		}
		if file.Mode().Perm() != 0o755 {
			t.Errorf("the provider's mode is %v", file.Mode())
		}
		if output := run(t, extract(t, file), "-version"); output != made.version+"\n" {
			t.Errorf("the provider has version %q, want %q", output, made.version)
		}
	}
	slices.Sort(names)
	if want := []string{"CHANGELOG.md", "LICENSE", program}; !slices.Equal(names, want) {
		t.Errorf("the zip has %q, want %q", names, want)
	}
}

func extract(t *testing.T, file *zip.File) string {
	t.Helper()
	content, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	path := filepath.Join(t.TempDir(), file.Name)
	target, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, content); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).Output()
	if err != nil {
		t.Fatalf("run %s: %v", name, err)
	}
	return string(out)
}

// manifest checks that the manifest names the protocol that the provider speaks.
func manifest(t *testing.T, made snapshot) {
	var output struct {
		Version  int `json:"version"`
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(read(t, manifestFile(t))), &output); err != nil {
		t.Fatal(err)
	}
	// main serves protocol 6 alone (providerserver.ServeOpts, ProtocolVersion).
	if output.Version != 1 || !slices.Equal(output.Metadata.Protocols, []string{"6.0"}) {
		t.Errorf("the manifest has %+v", output)
	}
	if !strings.Contains(read(t, made.path("SHA256SUMS")), made.name("manifest.json")) {
		t.Error("the manifest is not published with the release")
	}
}

func manifestFile(t *testing.T) string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "terraform-registry-manifest.json")
}

// materials checks that a bill of materials names the release of a module, and the modules
// that "go version -m" finds in the program.
func materials(t *testing.T, made snapshot, file, module, program string) {
	var bill struct {
		Format   string `json:"bomFormat"`
		Metadata struct {
			Component struct{ Name, Version string } `json:"component"`
		} `json:"metadata"`
		Components []struct{ Name, Version string } `json:"components"`
	}
	if err := json.Unmarshal([]byte(read(t, file)), &bill); err != nil {
		t.Fatal(err)
	}
	component := bill.Metadata.Component
	if bill.Format != "CycloneDX" || component.Name != module || component.Version != "v"+made.version {
		t.Errorf("the bill of %s is of %+v in format %q", program, component, bill.Format)
	}
	listed := map[string]string{}
	for _, component := range bill.Components {
		listed[component.Name] = component.Version
	}
	programs, err := filepath.Glob(filepath.Join(made.dir, "*", program))
	if err != nil || len(programs) != 1 {
		t.Fatalf("programs of the snapshot: %q, %v", programs, err)
	}
	modules := 0
	for line := range strings.Lines(run(t, "go", "version", "-m", programs[0])) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" {
			modules++
			if listed[fields[1]] != fields[2] {
				t.Errorf("the bill has %s in version %q, and %s has %s", fields[1], listed[fields[1]], program, fields[2])
			}
		}
	}
	if modules == 0 || listed["std"] == "" {
		t.Errorf("%s has %d modules, and the standard library's version is %q", program, modules, listed["std"])
	}
}
