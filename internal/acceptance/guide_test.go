package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestGettingStarted follows the guide literally, with its configuration and its commands, and
// then the guides on troubleshooting and on drift review. Only the addresses are those of the
// lab, the module and kube-review are those of the checkout, and programs come from a
// directory, because the machines have no internet access.
func TestGettingStarted(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	machines(t)
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("10.0.0.100", vip, "10.0.0.11", address("cp1"), "10.0.0.12", address("cp2"), "10.0.0.13",
		address("cp3"))
	released := regexp.MustCompile(`github\.com/kubequorum/terraform-provider-kube//(modules/[a-z-]+)\?ref=v[0-9.]+`)
	configuration := released.ReplaceAllString(here.Replace(strings.Join(guideBlocks(t, "getting-started", "hcl"), "\n")),
		filepath.Join(root, "$1"))
	w := storyFrom(t, names, t.TempDir(), func(w *workspace.Workspace) error {
		return w.MakeFrom(t.Context(), fstest.MapFS{"main.tf": {Data: []byte(configuration)}}, t.Output())
	})
	bare := fingerprints(t, names...)
	override(t, w, fmt.Sprintf("provider \"kube\" {\n  artifacts = { directory = %q }\n}\n", shared.components))
	user, output := newUser(t, w), ""
	for n := range 2 {
		output = user.typeCommands(t, here.Replace(documentedScript(t, "getting-started", n)))
	}
	if !strings.HasSuffix(output, "ok") { // the last command queries /readyz
		t.Errorf("the guide's last command does not say that the API is ready:\n%s", output)
	}
	expectEmptyPlan(t, w)
	user.typeCommands(t, documentedScript(t, "troubleshooting", 0))
	if log, err := os.ReadFile(filepath.Join(w.Dir, "apply.log")); err != nil || !strings.Contains(string(log), "[INFO]") {
		t.Errorf("the log of an apply says nothing: %v\n%s", err, log)
	}
	if err := build.Provider(t.Context(), "cmd/kube-review", filepath.Join(user.home, "bin", "kube-review")); err != nil {
		t.Fatal(err)
	}
	expectContains(t, user.typeCommands(t, documentedScript(t, "drift-review", 0)),
		"### Control plane: plan", "Nothing to do")
	expectContains(t, refused(t, w, "-destroy"),
		"set deletion_protection = false on its kube_pki_bundle, apply, then destroy")
	override(t, w, "module \"control_plane\" {\n  pki = { deletion_protection = false }\n}\n")
	apply(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// guideBlocks returns the fenced blocks of that language in a guide.
func guideBlocks(t *testing.T, guide, language string) []string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "templates", "guides", guide+".md"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		out = append(out, match[1])
	}
	if len(out) == 0 {
		t.Fatalf("the guide %s has no block of %s", guide, language)
	}
	return out
}

// inExample replaces the names that the guides use by those of the examples.
var inExample = strings.NewReplacer("kube_etcd_member.prod", "kube_etcd_member.this",
	"kube_control_plane_replica.prod", "kube_control_plane_replica.this")

// user simulates a user at a shell in a directory, with the lab's key as their own.
type user struct {
	w    *workspace.Workspace
	home string
}

// newUser provides the user of a workspace with the CLI, kubectl and the key.
func newUser(t *testing.T, w *workspace.Workspace) user {
	t.Helper()
	u := user{w: w, home: t.TempDir()}
	kubernetes, err := build.Set(t.Context(), "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	terraform := os.Getenv("KUBE_TEST_TERRAFORM")
	if terraform == "" {
		if terraform, err = build.Terraform(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		".ssh/id_ed25519": shared.lab.PrivateKeyPath(), "bin/terraform": terraform,
		"bin/kubectl": filepath.Join(kubernetes, "kubectl"),
	} {
		path := filepath.Join(u.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	w.Env = append(w.Env, "HOME="+u.home)
	return u
}

// typeCommands runs a script in the user's directory and returns its output. Applies are
// auto-approved.
func (u user) typeCommands(t *testing.T, script string) string {
	t.Helper()
	command := u.w.InLab(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir = u.w.Dir
	command.Env = append(append(os.Environ(), u.w.Env...), "HOME="+u.home,
		"PATH="+filepath.Join(u.home, "bin")+":"+os.Getenv("PATH"),
		"TF_CLI_CONFIG_FILE="+u.w.CLIConfig(), "TF_CLI_ARGS_apply=-auto-approve -no-color", "CHECKPOINT_DISABLE=1")
	out, err := command.CombinedOutput()
	t.Logf("%s%s", script, out)
	if err != nil {
		t.Fatalf("the guide's commands fail: %v", err)
	}
	recordBlocks(t, script)
	return string(out)
}
