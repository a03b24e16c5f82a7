package machine

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// opening returns a replica whose API server opens plugins' sockets as a member of groups.
func opening(t *testing.T, groups []string, sockets ...string) component.Replica {
	t.Helper()
	s := componenttest.Stacked(t)
	bundle := *s.Bundle
	s.Bundle, s.SupplementaryGroups = &bundle, groups
	bundle.Encryption = pki.Encryption{
		Kind: pki.KMS, Name: "a", Resources: []string{"secrets"}, Endpoint: "unix://" + sockets[0],
	}
	if len(sockets) > 1 {
		bundle.EncryptionRotation = pki.Rotation[pki.Encryption]{
			Generation: 1,
			Other: &pki.Encryption{
				Kind: pki.KMS, Name: "b", Resources: []string{"secrets"}, Endpoint: "unix://" + sockets[1],
			},
		}
	}
	return s
}

func TestParseAccess(t *testing.T) {
	s := opening(t, []string{"kms", "hsm"}, "/run/a.sock", "/run/b.sock")
	for output, want := range map[string][]string{
		"seen\n": nil,
		"no group hsm\nclosed /run/a.sock\nno socket /run/b.sock\nseen\n": {
			`group "hsm"`, "user kube-apiserver may not open the KMS plugin's socket /run/a.sock",
			"socket /run/b.sock does not exist",
		},
		"closed /etc/shadow\n\x1b[31mno group x\nseen\n": nil, // not requested
		"no setpriv\nseen\n":                             {"setpriv (util-linux) is missing"},
	} {
		problems, err := readAccess(s, output)
		if err != nil || len(problems) != len(want) {
			t.Errorf("%q: %q, %v", output, problems, err)
			continue
		}
		for i, part := range want {
			if !strings.Contains(problems[i], part) {
				t.Errorf("%q: %q, want %q", output, problems[i], part)
			}
		}
	}
	if _, err := readAccess(s, "no group hsm\n"); err == nil {
		t.Error("an answer that breaks off is taken for one")
	}
}

// TestAccess runs the script of machines, on sockets of this computer.
func TestAccess(t *testing.T) {
	if os.Geteuid() != 0 {
		testrun.Missing(t, "to be another user needs root")
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		testrun.Missing(t, "setpriv (util-linux) is missing")
	}
	group, err := user.LookupGroup("games")
	if err != nil {
		testrun.Missing(t, err)
	}
	dir, err := os.MkdirTemp("/run", "kube-access") // not below a directory that only root can enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		t.Fatal(err)
	}
	listen := func(name string, mode os.FileMode) string {
		at := filepath.Join(dir, name)
		listener, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		if err := os.Chown(at, 0, gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(at, mode); err != nil {
			t.Fatal(err)
		}
		return at
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	shared, private := listen("it's shared.sock", 0o660), listen("private.sock", 0o600)
	observe := func(s component.Replica) []string {
		t.Helper()
		values := host.Assignments(map[string]string{
			"groups": strings.Join(s.SupplementaryGroups, " "), "sockets": strings.Join(s.Sockets(), "\n"),
		})
		out, err := exec.CommandContext(t.Context(), "sh", "-c", string(values+accessScript)).Output()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := readAccess(s, string(out))
		if err != nil {
			t.Fatal(err)
		}
		return problems
	}
	expect := func(what string, problems []string, want ...string) {
		t.Helper()
		ok := len(problems) == len(want)
		for i := range min(len(problems), len(want)) {
			ok = ok && strings.Contains(problems[i], want[i])
		}
		if !ok {
			t.Errorf("%s: %q, want %q", what, problems, want)
		}
	}
	expect("a member of the group", observe(opening(t, []string{"games"}, shared)))
	expect("nobody's member", observe(opening(t, nil, shared)), "may not open the KMS plugin's socket "+shared)
	expect("a socket of root's", observe(opening(t, []string{"games"}, shared, private)),
		"may not open the KMS plugin's socket "+private)
	expect("no socket", observe(opening(t, []string{"games"}, dir)), "does not exist")
	expect("no group", observe(opening(t, []string{"no-such-group"}, shared)), `group "no-such-group"`, "may not open")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	expect("a directory on the way", observe(opening(t, []string{"games"}, shared)), "may not open")
}
