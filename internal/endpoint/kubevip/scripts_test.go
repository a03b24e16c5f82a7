package kubevip

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// standIns are programs that change this computer, or need what it has not. $address_file exists while the address is
// there, and $address_file.kept while it cannot be removed.
var standIns = map[string]string{
	"ip": `case $* in
*'address show'*) [ ! -e "$address_file" ] || echo '1: lo inet6 fd00:200::1/128 scope global' ;;
*'address replace'*) : >"$address_file" ;;
*'address delete'*) [ -e "$address_file.kept" ] || rm -f "$address_file" ;;
esac`,
	"curl":           "echo 200",
	"systemd-notify": ":",
	"ss":             ":",
	"cmp":            ":",
	"systemctl":      `echo "$*" >>"$calls"`,
	"kube-vip":       "exec sleep 60",
}

// withStandIns returns a directory with the stand-ins, and a shell that finds them first.
func withStandIns(t *testing.T, args ...string) (string, *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range standIns {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell := exec.CommandContext(t.Context(), "/bin/sh", args...)
	shell.Dir = dir
	shell.Env = []string{
		"PATH=" + dir + ":" + os.Getenv("PATH"), "address_file=" + filepath.Join(dir, "held"),
		"calls=" + filepath.Join(dir, "calls"), "CREDENTIALS_DIRECTORY=" + dir,
	}
	return dir, shell
}

// TestAddressIsHeld runs the agent of an endpoint by BGP: the machine gets the address again when something has removed
// it, while kube-vip runs on, which would announce it all the same.
func TestAddressIsHeld(t *testing.T) {
	s := bgpSpec()
	s.Address, s.Targets = "fd00:200::1", map[string]string{"cp1": "fd00::11"} // IPv6 needs no setting of an interface
	dir, agent := withStandIns(t, "agent", "run")
	s.Program = filepath.Join(dir, "kube-vip")
	text := renderAnnouncer(s.Registration(), "cp1", netip.MustParseAddr("fd00::11"), "eth0")
	text = strings.NewReplacer(runDir, dir, configDir, dir).Replace(text)
	for name, content := range map[string]string{"agent": text, "registered": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL)
		_ = agent.Wait()
	})
	held := filepath.Join(dir, "held")
	for _, when := range []string{"kube-vip has started", "something has removed it"} {
		deadline := time.Now().Add(20 * time.Second)
		for _, err := os.Stat(held); errors.Is(err, fs.ErrNotExist); _, err = os.Stat(held) {
			if time.Now().After(deadline) {
				t.Fatalf("the machine does not have the address, although %s", when)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := os.Remove(held); err != nil {
			t.Fatal(err)
		}
	}
}

// electionStandIns are those of an agent with a Lease, which is the file $server. kube-vip holds the address. Each line
// of the file $conflicts is a change of the Lease that is refused.
var electionStandIns = map[string]string{
	"curl": `code=200 change=
while [ $# -gt 0 ]; do
  case $1 in
  --output) out=$2 ;;
  --write-out) form=$2 ;;
  --data-binary) change=${2#@} ;;
  esac
  shift
done
if [ -n "$change" ] && [ -s "$conflicts" ]; then
  sed -i 1d "$conflicts"
  code=409
elif [ -n "$change" ]; then
  cp "$change" "$server"
fi
cp "$server" "$out"
case $form in *' ') printf '200 200 ' ;; *) printf $code ;; esac`,
	"kube-vip": `: >"$address_file"; exec sleep 60`,
	"ss":       `echo disconnect >>"$calls"`,
}

// elected is the agent of an endpoint with a Lease, which runs in a directory with stand-ins.
type elected struct {
	t     *testing.T
	dir   string
	shell *exec.Cmd
	ended chan error
}

func lease(holder string) string { return `{"spec":{"holderIdentity":"` + holder + `"}}` + "\n" }

// startElected starts the agent of cp1, and returns when its machine has the address.
func startElected(t *testing.T, conflicts int) elected {
	t.Helper()
	s := testSpec()
	s.LeaseDuration = 30 * time.Second
	dir, shell := withStandIns(t, "agent", "run")
	e := elected{t, dir, shell, make(chan error, 1)}
	s.Program = e.at("kube-vip")
	text := renderAgent(s.Registration(), "cp1", netip.MustParseAddr("10.0.0.11"), "eth0")
	text = strings.NewReplacer(runDir, dir, configDir, dir).Replace(text)
	for name, script := range electionStandIns {
		e.write(name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
	for name, content := range map[string]string{
		"agent": text, "registered": "", "kubeconfig": "", "server": lease("cp1"),
		"conflicts": strings.Repeat("409\n", conflicts),
	} {
		e.write(name, content, 0o600)
	}
	shell.Env = append(shell.Env, "server="+e.at("server"), "conflicts="+e.at("conflicts"))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { e.ended <- shell.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) })
	e.await("the address", e.held)
	return e
}

func (e elected) at(name string) string { return filepath.Join(e.dir, name) }

func (e elected) write(name, content string, mode fs.FileMode) {
	e.t.Helper()
	if err := os.WriteFile(e.at(name+".new"), []byte(content), mode); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(e.at(name+".new"), e.at(name)); err != nil {
		e.t.Fatal(err)
	}
}

func (e elected) read(name string) string {
	text, _ := os.ReadFile(e.at(name))
	return string(text)
}

func (e elected) held() bool { _, err := os.Stat(e.at("held")); return err == nil }

func (e elected) await(what string, seen func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !seen(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.t.Fatalf("never seen: %s", what)
		}
	}
}

// drain takes the replica out of rotation, which the agent sees.
func (e elected) drain() {
	e.t.Helper()
	if err := os.Remove(e.at("registered")); err != nil {
		e.t.Fatal(err)
	}
}

// TestHandOverIsFinished runs the agent of an endpoint with a Lease. It has begun to give the address away when it is
// told to end, as by a drain: the address stays until another machine has it. The Lease was changed twice meanwhile, by
// what its kube-vip had sent before.
func TestHandOverIsFinished(t *testing.T) {
	e := startElected(t, 2)
	e.drain()
	e.await("the released Lease", func() bool { return e.read("server") == lease("") })
	if err := e.shell.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if !e.held() {
		t.Error("the address is gone before another machine has it")
	}
	e.write("server", lease("cp2"), 0o600)
	select {
	case err := <-e.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent does not end")
	}
	if calls := e.read("calls"); e.held() || calls != "disconnect\n" {
		t.Errorf("after the hand-over, the address is held: %v, and connections were closed by %q", e.held(), calls)
	}
}

// TestHandOverFails: the Lease is never released. The machine drops the address all the same, and tells its clients.
func TestHandOverFails(t *testing.T) {
	e := startElected(t, 100)
	e.drain()
	e.await("the end of the address", func() bool { return !e.held() })
	if calls := e.read("calls"); calls != "disconnect\n" || e.read("server") != lease("cp1") {
		t.Errorf("connections were closed by %q, and the Lease is %s", calls, e.read("server"))
	}
}

// state returns what state.sh prints on the machine.
func (e elected) state() []string {
	e.t.Helper()
	vars := variables(testSpec().Registration())
	vars["own"], vars["vip"], vars["program"], vars["sha256"] = "10.0.0.11", testSpec().Address, e.at("kube-vip"), ""
	vars["config"], vars["run"], vars["metrics"] = e.dir, e.dir, ""
	state := exec.CommandContext(e.t.Context(), "/bin/sh", "-euc",
		string(host.Assignments(vars))+"pods() { :; }\n"+string(stateScript))
	state.Env = e.shell.Env
	out, err := state.CombinedOutput()
	if err != nil {
		e.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

// TestStranger: another machine holds the Lease while this one has the address. The agent removes it, so this is
// reported only if it cannot: when the holder changes, it is so for a moment.
func TestStranger(t *testing.T) {
	e := startElected(t, 0)
	e.write("kube-vip", "#!/bin/sh\nexec sleep 60\n", 0o755) // the next one does not get the Lease
	e.write("held.kept", "", 0o600)
	e.await("the Lease", func() bool { return slices.Contains(e.state(), "lease") })
	if slices.Contains(e.state(), "stranger") {
		t.Error("the holder is reported")
	}
	e.write("server", lease("cp2"), 0o600)
	e.await("an address that cannot be removed", func() bool { return slices.Contains(e.state(), "stranger") })
	if err := os.Remove(e.at("held.kept")); err != nil {
		t.Fatal(err)
	}
	e.await("the end of the address", func() bool { return !e.held() })
	e.await("the end of the report", func() bool { return !slices.Contains(e.state(), "stranger") })
	if state := e.state(); !slices.Contains(state, "lease") {
		t.Errorf("the machine says %q", state)
	}
}

// TestHang: a kube-vip that writes nothing for twice as long as its Lease lasts hangs. A step of the time of day is no
// such time.
func TestHang(t *testing.T) {
	text := renderAgent(testSpec().Registration(), "cp1", netip.MustParseAddr("10.0.0.11"), "eth0")
	_, shell := withStandIns(t, "-euc", text+`
date() { command date --date='1 day' "$@"; }
tell() { if hangs; then echo hangs; else echo lives; fi; }
sleep 60 &
child=$!
clock
born=$now moved=$now lived=yes
tell
tell
clock() { now=$((moved + 2 * duration)); }
tell
kill $child
`, "agent", "none")
	if out, err := shell.CombinedOutput(); err != nil || string(out) != "lives\nlives\nhangs\n" {
		t.Errorf("%s%v", out, err)
	}
}

// TestApplyRestarts: an agent is restarted if its files have changed, and if its machine has lost the address that it
// announces. One by ARP may not have it, and one without kube-vip must not. A unit that was disabled is only enabled.
func TestApplyRestarts(t *testing.T) {
	announced, elected := bgpSpec().Registration(), testSpec().Registration()
	for name, c := range map[string]struct {
		r             endpoint.Registration
		running, held bool
		changed       string
		restarted     bool
	}{
		"has lost the address": {announced, true, false, "", true},
		"has the address":      {announced, true, true, "", false},
		"is not in rotation":   {announced, false, false, "", false},
		"is no holder":         {elected, true, false, "", false},
		"was disabled":         {announced, true, true, "/etc/systemd/system/multi-user.target.wants/" + unitName, false},
		"other directories":    {elected, true, true, programDir + " " + configDir, false},
		"another agent":        {elected, true, true, programDir + " " + agentPath, true},
		"another unit":         {announced, true, true, unitPath, true},
		"other peers":          {announced, true, true, peersPath + " " + agentPath + ".old", true},
	} {
		dir, shell := withStandIns(t)
		vars := variables(c.r)
		vars["cluster"], vars["vip"], vars["replica"] = c.r.ClusterID, c.r.Address, ""
		vars["config"], vars["run"], vars["manifests"] = dir, dir, ""
		files := map[string]string{"endpoint.json": c.r.Record("cp1")}
		if c.running {
			files["pid"] = strconv.Itoa(os.Getpid())
		}
		if c.held {
			files["held"] = ""
		}
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		shell.Env = append(shell.Env, "CHANGED="+c.changed)
		shell.Args = append(shell.Args, "-euc", string(host.Assignments(vars)+endpoint.OwnerFunctions()+applyScript))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		calls, _ := os.ReadFile(filepath.Join(dir, "calls"))
		want := "is-active --quiet " + unitName + "\n"
		if c.restarted {
			want += "restart " + unitName + "\n"
		}
		if string(calls) != want {
			t.Errorf("%s: systemctl is called with %q, want %q", name, calls, want)
		}
	}
}

// TestCleanKeepsAnAddressOfOthers: the address goes with the endpoint that has given it. A registration that has failed
// before has given none: a static pod of kube-vip, or somebody else, keeps the address. A pod whose takeover is not
// complete gets its manifest back, and one that was taken over does not.
func TestCleanKeepsAnAddressOfOthers(t *testing.T) {
	r := testSpec().Registration()
	const manifest = "manifests/kube-vip.yaml"
	for name, c := range map[string]struct {
		recorded, unit, pod bool
		inherited           string
		held, returned      bool
	}{
		"it was only attempted":           {pod: true, held: true},
		"somebody else gives the address": {held: true},
		"claimed, and the pod runs":       {recorded: true, unit: true, pod: true, held: true},
		"its takeover has failed": {
			recorded: true, unit: true, pod: true, inherited: "kube-vip.yaml.pending", held: true, returned: true,
		},
		"its takeover has failed later": {recorded: true, unit: true, inherited: "kube-vip.yaml.pending", returned: true},
		"it was taken over":             {recorded: true, unit: true, inherited: "kube-vip.yaml"},
		"its record is lost":            {unit: true},
		"its unit is lost":              {recorded: true},
	} {
		dir, shell := withStandIns(t)
		config := filepath.Join(dir, "config")
		files := map[string]string{"held": "", "manifests/other.yaml": "", "etc/wants": "", "opt/x": ""}
		if c.recorded {
			files["config/endpoint.json"] = r.Record("cp1")
		}
		if c.unit {
			files["unit"] = ""
		}
		if c.inherited != "" {
			files["config/inherited/"+c.inherited] = "the pod"
		}
		for file, content := range files {
			path := filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		systemctl := "#!/bin/sh\n[ \"$1\" != cat ] || [ -e " + filepath.Join(dir, "unit") + " ]\n"
		if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(systemctl), 0o755); err != nil {
			t.Fatal(err)
		}
		vars := variables(r)
		vars["cluster"], vars["vip"], vars["replica"] = r.ClusterID, r.Address, "cp1"
		vars["config"], vars["manifests"] = config, filepath.Join(dir, manifest)
		pods := "pods() { :; }\n"
		if c.pod {
			pods = "pods() { echo 4711; }\n"
		}
		clean := strings.NewReplacer("/etc", dir+"/etc", "/opt", dir+"/opt", "/run", dir+"/run").Replace(string(cleanScript))
		shell.Args = append(shell.Args, "-euc", string(host.Assignments(vars)+host.FlushFunction())+pods+
			string(endpoint.OwnerFunctions())+clean)
		if out, err := shell.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "ours\n") {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		there := func(file string) bool { _, err := os.Stat(filepath.Join(dir, file)); return err == nil }
		if there("held") != c.held || there(manifest) != c.returned || there("config") {
			t.Errorf("%s: the machine has the address: %v, the manifest: %v, the directory: %v", name, there("held"),
				there(manifest), there("config"))
		}
	}
}
