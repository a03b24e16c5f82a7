package drill

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// standIns are programs that are called instead of systemd's, and write down how. The fetching unit brings a snapshot,
// and then goes on until it may end. The unit of the drill reports at once.
var standIns = map[string]string{
	"systemctl": `echo "systemctl $*" >>"$DRILL_TEST/asked"
`,
	"systemd-run": `echo "systemd-run $*" >>"$DRILL_TEST/asked"
case "$*" in
*--unit=kube-restore-drill-guard*)
  for word; do last=$word; done
  printf '%s\n' "$last" >"$DRILL_TEST/guard"
  ;;
*--unit=kube-restore-drill-fetch.service*)
  cat >"$DRILL_TEST/input"
  for word; do case $word in --setenv=*) export "${word#--setenv=}" ;; esac; done
  sh -euc 'eval "$FETCH_COMMANDS"' <"$DRILL_TEST/input"
  : >"$DRILL_TEST/fetching"
  if [ -e "$DRILL_TEST/refused" ]; then echo 'it is encrypted' >&2; exit 1; fi
  until [ -e "$DRILL_TEST/go-on" ]; do sleep 0.02; done
  ;;
*'--unit=kube-restore-drill '*) echo 'revision 5' >"$DRILL_TEST/run/report" ;;
esac
`,
	// The newest program that fetches from a bucket.
	"sort": "echo \"$DRILL_TEST/store\"\n",
	"store": `echo "$*" >>"$DRILL_TEST/called"
echo 'not encrypted' >"$SNAPSHOT"
echo '20260102T030405Z-cp1.db is in it'
`,
}

// drillIn prepares start.sh for a drill with a snapshot from the bucket, in a directory with standIns.
func drillIn(t *testing.T, dir, identity, environment string) *exec.Cmd {
	t.Helper()
	if _, err := os.Stat("/usr/lib/systemd/systemd-socket-proxyd"); err != nil {
		testrun.Missing(t, "systemd-socket-proxyd")
	}
	for name, text := range standIns {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh -eu\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	vars := host.Assignments(map[string]string{
		"root": filepath.Join(dir, "archive"), "run": filepath.Join(dir, "run"), "kind": "bucket", "snapshot": "",
		"commands": "", "environment": environment, "config": filepath.Join(dir, "config"),
		"data": filepath.Join(dir, "data"), "reserve": "0", "memory_min": "0", "first_port": "36443", "limit": "3600",
		"tools": "/none", "etcd_cluster": "a1",
	})
	command := exec.CommandContext(t.Context(), "sh", "-euc",
		string(vars+machine.DrillFunctions+machine.RestoreFunctions+startScript))
	var stdin strings.Builder
	for name, text := range map[string]string{"job.sh": "true", "tls.key": "key", "identity": identity} {
		stdin.WriteString(name + " " + base64.StdEncoding.EncodeToString([]byte(text)) + "\n")
	}
	command.Stdin = strings.NewReader(stdin.String())
	command.Env = append(os.Environ(), "DRILL_TEST="+dir, "PATH="+dir+":"+os.Getenv("PATH"))
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return command
}

// awaitFile waits until a file is there.
func awaitFile(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is missing", name)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// filesWith returns the files below directories that contain a text.
func filesWith(text string, dirs ...string) string {
	out, _ := exec.Command("grep", append([]string{"-rlF", text}, dirs...)...).Output() // 1: none
	return string(out)
}

// TestKilledWhileFetching: a drill that is killed with SIGKILL while its snapshot is fetched, so that no trap runs and
// the unit that would clean up never starts, has the age identity in no file, and the guard removes the rest.
func TestKilledWhileFetching(t *testing.T) {
	dir := t.TempDir()
	const identity = "AGE-SECRET-KEY-1TEST"
	command := drillIn(t, dir, identity+"\n", "")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, filepath.Join(dir, "fetching"))
	if err := syscall.Kill(-command.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // killed
	if got := read(t, filepath.Join(dir, "input")); got != identity+"\n" {
		t.Errorf("the fetching unit reads %q", got)
	}
	archive, run := filepath.Join(dir, "archive"), filepath.Join(dir, "run")
	if files := filesWith(identity, archive, run); files != "" {
		t.Errorf("the identity is in %s", files)
	}
	if asked := read(t, filepath.Join(dir, "asked")); !strings.Contains(asked, "--unit=kube-restore-drill-guard") ||
		strings.Index(asked, "--unit=kube-restore-drill-guard") > strings.Index(asked, "--unit=kube-restore-drill-fetch") ||
		!strings.Contains(asked, "--on-active=3600 ") {
		t.Fatalf("there is no guard before the snapshot is fetched:\n%s", asked)
	}
	guard := exec.Command("sh", "-c", read(t, filepath.Join(dir, "guard")))
	guard.Env = command.Env
	if out, err := guard.CombinedOutput(); err != nil {
		t.Fatalf("the guard: %v: %s", err, out)
	}
	asked := read(t, filepath.Join(dir, "asked"))
	if !strings.HasSuffix(asked, "systemctl stop kube-restore-drill-fetch.service kube-restore-drill.service\n") {
		t.Errorf("the guard has not ended what fetches:\n%s", asked)
	}
	for _, left := range []string{filepath.Join(archive, "drill"), run} {
		if _, err := os.Stat(left); err == nil {
			t.Errorf("the guard has left %s", left)
		}
	}
}

// TestNewestOnMachine: a snapshot that is named after a time that is yet to come is not the newest one.
func TestNewestOnMachine(t *testing.T) {
	_, find, _ := strings.Cut(string(startScript), "\nfind_snapshot() {")
	find, _, _ = strings.Cut("find_snapshot() {"+find, "# expected prints")
	root := t.TempDir()
	soon := time.Now().UTC().Add(5*time.Minute).Format(snapshot.TimeLayout) + "-cp1.db"
	for _, step := range []struct{ file, want string }{
		{"scheduled/21260102T030405Z-cp1.db", "there is no snapshot in " + root},
		{"requested/20260102T030405Z-cp1.db", root + "/requested/20260102T030405Z-cp1.db\n"},
		{"upgrades/" + soon, root + "/upgrades/" + soon + "\n"},
	} {
		file := filepath.Join(root, step.file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		script := "kind=newest ahead=600 received=/none root=" + root + "\nfail() { echo \"$*\"; exit; }\n" + find +
			"\nfind_snapshot\necho \"$snapshot\"\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), step.want) {
			t.Errorf("with %s: %v, %s", step.file, err, out)
		}
	}
}

// TestDrillEnvironment: a snapshot in the bucket is fetched with the variables of its upload, which may name a proxy.
// Fetch commands have those of the drill.
func TestDrillEnvironment(t *testing.T) {
	at := place{dataDir: "/var/lib/etcd", environment: "/etc/upload.env"}
	for want, source := range map[string]Source{
		"/etc/upload.env": {},
		"/root/drill.env": {Fetch: "true", EnvironmentFile: "/root/drill.env"},
		"":                {Fetch: "true"},
	} {
		if got := (Spec{Source: source}).startVars(at)["environment"]; got != want {
			t.Errorf("%+v: the environment is %q, want %q", source, got, want)
		}
	}
	if got := (Spec{}).startVars(place{etcdCluster: "a1"})["etcd_cluster"]; got != "a1" {
		t.Errorf("the etcd cluster is %q", got)
	}
	dir := t.TempDir()
	command := drillIn(t, dir, "", "/etc/upload.env")
	if err := os.WriteFile(filepath.Join(dir, "go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if asked := read(t, filepath.Join(dir, "asked")); !strings.Contains(asked,
		"--property=EnvironmentFile=/etc/upload.env --setenv=SNAPSHOT=") {
		t.Errorf("the snapshot is fetched without the environment:\n%s", asked)
	}
	if called := read(t, filepath.Join(dir, "called")); called != "-config "+filepath.Join(dir, "config")+
		" get -out "+filepath.Join(dir, "archive/drill/received.db")+" -newest -etcd a1\n" {
		t.Errorf("the program is called with %s", called)
	}
}

// TestGuardOfADrill: the guard of an earlier drill is ended before this one has data, and this one's when the unit
// runs, which then removes the data itself.
func TestGuardOfADrill(t *testing.T) {
	dir := t.TempDir()
	command := drillIn(t, dir, "", "")
	if err := os.WriteFile(filepath.Join(dir, "go-on"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command.CombinedOutput()
	const want = "revision 5\nport 36443\nsource bucket\nname 20260102T030405Z-cp1.db\n"
	if err != nil || !strings.HasSuffix(string(out), want) {
		t.Fatalf("%v: %s", err, out)
	}
	var order []string
	for line := range strings.Lines(read(t, filepath.Join(dir, "asked"))) {
		switch {
		case strings.HasPrefix(line, "systemctl stop kube-restore-drill-guard.timer"):
			order = append(order, "guard ends")
		case strings.Contains(line, "--unit=kube-restore-drill-guard "):
			order = append(order, "guard")
		case strings.Contains(line, "--unit=kube-restore-drill "):
			order = append(order, "unit")
		}
	}
	if got := strings.Join(order, ", "); got != "guard ends, guard, unit, guard ends" {
		t.Errorf("the order is %s", got)
	}
	if left := read(t, filepath.Join(dir, "run", "tls.key")); left != "key" {
		t.Errorf("the unit's key is %q", left)
	}
}

// TestFailedFetch: a drill whose snapshot is not fetched says so, goes no further, and leaves nothing.
func TestFailedFetch(t *testing.T) {
	dir := t.TempDir()
	command := drillIn(t, dir, "", "")
	if err := os.WriteFile(filepath.Join(dir, "refused"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := command.CombinedOutput()
	if err == nil || string(out) != "the snapshot was not fetched from the bucket: it is encrypted\n" {
		t.Errorf("%v: %s", err, out)
	}
	asked := read(t, filepath.Join(dir, "asked"))
	if strings.Contains(asked, "--unit=kube-restore-drill ") ||
		!strings.HasSuffix(asked, "systemctl reset-failed kube-restore-drill-guard.service\n") {
		t.Errorf("systemd was asked\n%s", asked)
	}
	for _, left := range []string{"archive", "run"} {
		if _, err := os.Stat(filepath.Join(dir, left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}
