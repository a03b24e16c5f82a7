package acceptance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// fleet is the example with clusters of one machine each, because the lab has four.
type fleet struct {
	dir        string // of the example
	terragrunt string
	w          *workspace.Workspace // for its mirror of the provider
}

// clusters maps the example's folders to the machine that each uses here.
var clusters = map[string]string{
	"staging/berlin": "cp1", "staging/paris": "cp2", "production/berlin": "cp3", "production/paris": "cp4",
}

// TestFleet runs the example through the operations of a fleet: a first apply of everything, a
// release that one changed line promotes to the canary wave and another one to the rest, and a
// machine that is dead during all changes and fails only its own cluster.
func TestFleet(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3", "cp4"}
	f := newFleet(t, all)
	bare := fingerprints(t, all...)
	f.documented(t, 0)
	f.planned(t)
	f.locked(t)
	older, newer := minorBefore(t, 1).kubernetes, defaults(t).kubernetes
	f.runs(t, newer, "cp1", "cp2")
	f.runs(t, older, "cp3", "cp4")

	t.Run("a promotion is one line for each wave", func(t *testing.T) {
		before := processes(t, "cp1", "cp2")
		f.replace(t, "production/environment.hcl", `canary_release = "2026-10"`, `canary_release = "2026-11"`)
		f.planned(t, "production/berlin")
		f.run(t, "apply")
		f.runs(t, newer, "cp3")
		f.runs(t, older, "cp4")
		f.replace(t, "production/environment.hcl", `release = "2026-10"`, `release = "2026-11"`)
		f.planned(t, "production/paris")
		f.run(t, "apply")
		f.planned(t)
		f.runs(t, newer, all...)
		expectRestarted(t, before, nil)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("one broken machine breaks only its cluster", func(t *testing.T) {
		if err := shared.lab.Machine("cp3").PowerOff(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.replace(t, "root.hcl", "etcd         = {", `etcd         = { extra_args = { "max-txn-ops" = "129" },`)
		out, err := f.command(t, "apply")
		if err == nil {
			t.Fatal("an apply with a dead machine has succeeded")
		}
		t.Log(out)
		expectContains(t, unfolded(out), "production/berlin", "unreachable over SSH")
		for _, name := range []string{"cp1", "cp2", "cp4"} {
			expectContains(t, onMachine(t, shared.lab.Machine(name),
				"systemctl is-active etcd && cat /proc/$(pidof etcd)/cmdline | tr '\\0' ' '"), "max-txn-ops=129")
		}
		if err := shared.lab.Machine("cp3").Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.run(t, "apply")
		f.planned(t)
	})
	if t.Failed() {
		t.FailNow()
	}
	if out, err := f.command(t, "destroy"); err == nil {
		t.Error("production was destroyed in spite of its protection")
	} else {
		expectContains(t, unfolded(out), "deletion_protection")
	}
	f.replace(t, "production/environment.hcl", "deletion_protection = true", "deletion_protection = false")
	f.run(t, "apply")
	f.run(t, "destroy")
	expectBare(t, bare, all...)
}

func newFleet(t *testing.T, names []string) fleet {
	t.Helper()
	terragrunt, err := build.Set(t.Context(), "terragrunt")
	if err != nil {
		t.Fatal(err)
	}
	tree := checkout(t)
	f := fleet{
		dir: filepath.Join(tree, "examples", "fleet"), terragrunt: terragrunt,
		w: storyOf(t, names, "control-plane"),
	}
	write(t, filepath.Join(f.dir, "seal.txt"), newIdentity(t).String()+"\n")
	inventory := map[string]string{}
	for i, cluster := range []string{"staging/berlin", "staging/paris", "production/berlin", "production/paris"} {
		environment, name, _ := strings.Cut(cluster, "/")
		wave := map[string]string{"production/berlin": "  wave: canary\n"}[cluster]
		inventory[environment] += fmt.Sprintf("%s:\n%s  endpoint: { address: %s%d }\n  machines:\n    %s: { address: %s }\n",
			name, wave, strings.TrimSuffix(vip, "100"), 100+i, clusters[cluster], address(clusters[cluster]))
	}
	for environment, text := range inventory {
		if err := os.WriteFile(filepath.Join(f.dir, environment, "inventory.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// command runs terragrunt for all clusters.
func (f fleet) command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = "'" + arg + "'"
	}
	return f.shell(t, "terragrunt run --all -- "+strings.Join(quoted, " "))
}

// shell runs a script in the fleet's directory. Terragrunt asks nothing.
func (f fleet) shell(t *testing.T, script string) (string, error) {
	t.Helper()
	cmd := f.w.InLab(context.WithoutCancel(t.Context()), "bash", "-euo", "pipefail", "-c", script)
	terraform := os.Getenv("KUBE_TEST_TERRAFORM")
	if terraform == "" {
		var err error
		if terraform, err = build.Terraform(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(f.terragrunt)+":"+os.Getenv("PATH"),
		"TG_NON_INTERACTIVE=true", "TG_NO_COLOR=true",
		"TG_TF_PATH="+terraform, "TF_CLI_CONFIG_FILE="+f.w.CLIConfig(), "CHECKPOINT_DISABLE=1",
		"FLEET_SSH_KEY="+shared.lab.PrivateKeyPath(), "FLEET_KNOWN_HOSTS="+shared.lab.KnownHostsPath(), "FLEET_PROGRAMS="+
			shared.components,
		"FLEET_BACKEND=local", "FLEET_SEAL="+filepath.Join(f.dir, "seal.txt"),
	)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// documented runs the n-th block of commands of the guide that this test runs.
func (f fleet) documented(t *testing.T, n int) {
	t.Helper()
	script := documentedScript(t, "fleet", n)
	out, err := f.shell(t, script)
	if err != nil {
		t.Fatalf("%s%v\n%s", script, err, out)
	}
	recordBlocks(t, script)
	t.Log(out)
}

func (f fleet) run(t *testing.T, args ...string) {
	t.Helper()
	out, err := f.command(t, args...)
	if err != nil {
		t.Fatalf("terragrunt run --all %v: %v\n%s", args, err, out)
	}
	t.Log(out)
}

// changesOf matches the clusters for which Terragrunt prints planned changes.
var changesOf = regexp.MustCompile(`\[(\S+)\] \S+: (?:Plan: |Changes to Outputs)`)

// planned expects changes in the plans of exactly these clusters.
func (f fleet) planned(t *testing.T, want ...string) {
	t.Helper()
	out, err := f.command(t, "plan", "-detailed-exitcode")
	var exit *exec.ExitError
	if changes := errors.As(err, &exit) && exit.ExitCode() == 2; err != nil && !changes || changes != (len(want) > 0) {
		t.Fatalf("plan of all: %v, and changes are expected of %q\n%s", err, want, out)
	}
	observed := map[string]bool{}
	for _, match := range changesOf.FindAllStringSubmatch(out, -1) {
		observed[match[1]] = true
	}
	if got := slices.Sorted(maps.Keys(observed)); !slices.Equal(got, want) {
		t.Errorf("there are changes for %q, want %q\n%s", got, want, out)
	}
}

// replace edits a file of the fleet.
func (f fleet) replace(t *testing.T, name, old, young string) {
	t.Helper()
	path := filepath.Join(f.dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(string(text), old, young, 1)
	if edited == string(text) {
		t.Fatalf("%s does not have %s", name, old)
	}
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}

// locked checks that each cluster has a lock file with the provider's digest, that a fresh
// checkout installs with it, and that digests of other platforms can be added.
func (f fleet) locked(t *testing.T) {
	t.Helper()
	entry := regexp.MustCompile(
		`provider "\S+/kubequorum/kube" \{\n  version     = "\S+"\n  constraints = "[^"]+"\n  hashes = \[\n    ` +
			`"h1:\S+=",\n  \]\n\}`)
	read := func() map[string]string {
		files := map[string]string{}
		for cluster := range clusters {
			text, err := os.ReadFile(filepath.Join(f.dir, cluster, ".terraform.lock.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			if files[cluster] = string(text); !entry.MatchString(files[cluster]) {
				t.Errorf("the lock file of %s does not have the provider with one digest:\n%s", cluster, text)
			}
			if err := os.RemoveAll(filepath.Join(f.dir, cluster, ".terragrunt-cache")); err != nil {
				t.Fatal(err)
			}
		}
		return files
	}
	before := read()
	f.documented(t, 1)
	f.run(t, "providers", "lock", "-fs-mirror="+filepath.Join(f.w.Dir, "mirror"), "-platform="+runtime.GOOS+"_"+
		runtime.GOARCH)
	if after := read(); !maps.Equal(after, before) {
		t.Errorf("the lock files have changed:\n%q\nbefore:\n%q", after, before)
	}
}

// runs expects a version of the API servers on these machines.
func (f fleet) runs(t *testing.T, version string, names ...string) {
	t.Helper()
	for _, name := range names {
		expectContains(t, onMachine(t, shared.lab.Machine(name), "readlink /proc/$(pidof kube-apiserver)/exe"),
			"/"+version+"/")
	}
}
