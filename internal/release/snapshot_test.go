// Package release tests releases: it builds one as goreleaser would publish it,
// and installs it as users do. It needs neither root nor a network.
package release

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// snapshot is a release that goreleaser has built.
type snapshot struct {
	dir     string
	version string // without a "v"
}

// name returns the name of a file of the provider: registries look for these names.
func (s snapshot) name(rest string) string {
	return "terraform-provider-kube_" + s.version + "_" + rest
}

// path returns the path of a file of the provider.
func (s snapshot) path(rest string) string { return filepath.Join(s.dir, s.name(rest)) }

// review returns the path of a file of kube-review.
func (s snapshot) review(rest string) string {
	return filepath.Join(s.dir, "kube-review_"+s.version+"_"+rest)
}

// store returns the path of a file of kube-snapshot-store.
func (s snapshot) store(rest string) string {
	return filepath.Join(s.dir, "kube-snapshot-store_"+s.version+"_"+rest)
}

// platform is the platform of the snapshots in tests: this computer's.
const platform = runtime.GOOS + "_" + runtime.GOARCH

// newSnapshot builds a release of the checkout for this platform, with the
// configuration and the script of real releases. home is a GNUPGHOME, and key the
// fingerprint of the signing key; "" leaves the release unsigned.
func newSnapshot(t *testing.T, home, key string) snapshot {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	dist := filepath.Join(t.TempDir(), "dist")
	command := offline(t, filepath.Join(root, "tools", "goreleaser", "release"), "snapshot", "--config",
		configuration(t, root, dist))
	command.Dir = root
	command.Env = append(os.Environ(), "GOPROXY=off", "GPG_FINGERPRINT="+key, "GNUPGHOME="+home)
	started := time.Now()
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the snapshot: %v\n%s", err, out)
	}
	t.Logf("built in %s", time.Since(started).Round(time.Second))

	text, err := os.ReadFile(filepath.Join(dist, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		Version string `json:"version"`
	}
	if err := json.Unmarshal(text, &metadata); err != nil || metadata.Version == "" {
		t.Fatalf("metadata.json has no version: %v\n%s", err, text)
	}
	return snapshot{dir: dist, version: metadata.Version}
}

// configuration returns the checkout's goreleaser configuration with another output
// directory, and one platform instead of all: "goreleaser release" has no flag for that.
func configuration(t *testing.T, root, dist string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["dist"] = dist
	for _, program := range config["builds"].([]any) {
		program := program.(map[string]any)
		program["goos"], program["goarch"] = []string{runtime.GOOS}, []string{runtime.GOARCH}
	}
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "goreleaser.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// offline returns a command in a network namespace of its own, without a route. If
// this computer creates no namespaces, the command gets proxies that do not answer.
func offline(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cut := []string{"--net", "--"}
	if os.Geteuid() != 0 {
		cut = append([]string{"--map-current-user"}, cut...)
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(cut, "true")...).CombinedOutput(); err == nil {
		args = append(append(cut, name), args...)
		name = "unshare"
	} else {
		t.Logf("this computer creates no network namespaces (%v: %s): the proxies do not answer instead", err, out)
		for _, variable := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			t.Setenv(variable, "http://127.0.0.1:1")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, name, args...)
}

// gpgKey creates a key of a kind that the Terraform registry accepts (RSA) in a
// GNUPGHOME of its own, and returns the home and the fingerprint.
func gpgKey(t *testing.T) (home, fingerprint string) {
	t.Helper()
	home, err := os.MkdirTemp("", "gpg") // short: the agent's socket is in it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GNUPGHOME", home)
	t.Cleanup(func() {
		_ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run()
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	out, err := exec.CommandContext(t.Context(), "gpg", "--batch", "--quiet", "--status-fd=1", "--passphrase=",
		"--quick-generate-key", "Test of a release <test@example.com>", "rsa3072", "sign", "1d").Output()
	if err != nil {
		t.Fatalf("create a key: %v", err)
	}
	created := regexp.MustCompile(`KEY_CREATED . ([0-9A-F]{40})`).FindSubmatch(out)
	if created == nil {
		t.Fatalf("gpg names no key: %s", out)
	}
	return home, string(created[1])
}
