package acceptance

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestGrowEtcd applies examples/growing-etcd: etcd grows from one member, which three API servers use, to three
// members, and shrinks to one again after a review. The API servers change one after the other, so none of the clients
// waits for etcd.
func TestGrowEtcd(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, names, checkout(t), "examples/growing-etcd")
	bare := fingerprints(t, names...)
	use := func(members ...string) {
		t.Helper()
		if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
			"machines": addresses(names), "members": members,
		}); err != nil {
			t.Fatal(err)
		}
	}
	use("cp1")
	apply(t, w)
	criteria := load.Unnoticed().Excusing(droppedWrites...)
	for _, step := range []struct {
		name     string
		members  []string
		reviewed []string // what the review of the plan says
		criteria load.Criteria
	}{
		{"three", names, []string{"etcd: from 1 to 3 members, one at a time. Quorum changes from 1 to 2."}, criteria},
		{"one again", names[:1], []string{
			"etcd: from 3 to 1 members, one at a time. Quorum changes from 2 to 1.",
			"Members are removed one at a time, each only if the others keep quorum.",
		}, criteria.Excusing(stoppedMembers)},
	} {
		t.Run(step.name, func(t *testing.T) {
			use(step.members...)
			expectContains(t, reviewed(t, w), append(step.reviewed, "**A person decides**")...)
			l := startClients(t, load.Config{
				Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: step.criteria,
				Etcd: directWriter(t, "cp1", func() []string { return names }),
			})
			apply(t, w)
			undisturbed(t, l)
			count := strings.TrimSpace(onMachine(t, shared.lab.Machine("cp1"), ctl+"etcdctl member list | wc -l"))
			if count != strconv.Itoa(len(step.members)) {
				t.Errorf("etcd has %s members, want %d", count, len(step.members))
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// reviewed returns what kube-review says about a plan on which a person decides.
func reviewed(t *testing.T, w *workspace.Workspace) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kube-review")
	if err := build.Provider(t.Context(), "cmd/kube-review", program); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "plan")
	plan(t, w, "-out="+file)
	text, err := w.Run(t.Context(), "show", "-json", file)
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	write(t, policy, yearPolicy)
	command := exec.CommandContext(t.Context(), program, "-policy", policy)
	command.Stdin = strings.NewReader(text)
	out, err := command.Output()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != 4 {
		t.Fatalf("kube-review ended with %v, want 4 (a person decides):\n%s", err, out)
	}
	t.Logf("kube-review:\n%s", out)
	return string(out)
}
