package kubevip

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// standIns are programs that change this computer, or need what it has not. $address_file exists while the address is
// there.
var standIns = map[string]string{
	"ip": `case $* in
*'address show'*) [ ! -e "$address_file" ] || echo '1: lo inet6 fd00:200::1/128 scope global' ;;
*'address replace'*) : >"$address_file" ;;
*'address delete'*) rm -f "$address_file" ;;
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

// electionStandIns are those of an agent with a Lease, which is the file $server. kube-vip holds the address.
var electionStandIns = map[string]string{
	"curl": `while [ $# -gt 0 ]; do
  case $1 in
  --output) out=$2 ;;
  --write-out) form=$2 ;;
  --data-binary) cp "${2#@}" "$server" ;;
  esac
  shift
done
cp "$server" "$out"
case $form in *' ') printf '200 200 ' ;; *) printf 200 ;; esac`,
	"kube-vip": `: >"$address_file"; exec sleep 60`,
	"ss":       `echo disconnect >>"$calls"`,
}

// TestHandOverIsFinished runs the agent of an endpoint with a Lease. It has begun to give the address away when it is
// told to end, as by a drain: the address stays until another machine has it.
func TestHandOverIsFinished(t *testing.T) {
	s := testSpec()
	s.LeaseDuration = 30 * time.Second
	dir, agent := withStandIns(t, "agent", "run")
	s.Program = filepath.Join(dir, "kube-vip")
	text := renderAgent(s.Registration(), "cp1", netip.MustParseAddr("10.0.0.11"), "eth0")
	text = strings.NewReplacer(runDir, dir, configDir, dir).Replace(text)
	lease := func(holder string) string { return `{"spec":{"holderIdentity":"` + holder + `"}}` + "\n" }
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, content string, mode fs.FileMode) {
		t.Helper()
		if err := os.WriteFile(at(name+".new"), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(at(name+".new"), at(name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, script := range electionStandIns {
		write(name, "#!/bin/sh\n"+script+"\n", 0o755)
	}
	for name, content := range map[string]string{
		"agent": text, "registered": "", "kubeconfig": "", "server": lease("cp1"),
	} {
		write(name, content, 0o600)
	}
	agent.Env = append(agent.Env, "server="+at("server"))
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	t.Cleanup(func() { _ = syscall.Kill(-agent.Process.Pid, syscall.SIGKILL) })
	await := func(what string, seen func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !seen(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never seen: %s", what)
			}
		}
	}
	held := func() bool { _, err := os.Stat(at("held")); return err == nil }
	await("the address", held)
	if err := os.Remove(at("registered")); err != nil {
		t.Fatal(err)
	}
	await("the released Lease", func() bool {
		text, _ := os.ReadFile(at("server"))
		return string(text) == lease("")
	})
	if err := agent.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if !held() {
		t.Error("the address is gone before another machine has it")
	}
	write("server", lease("cp2"), 0o600)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent does not end")
	}
	if calls, _ := os.ReadFile(at("calls")); held() || string(calls) != "disconnect\n" {
		t.Errorf("after the hand-over, the address is held: %v, and connections were closed by %q", held(), calls)
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
// before has given none: a static pod of kube-vip, or somebody else, keeps the address. A pod that a failed takeover
// has left running gets its manifest back, and one that was taken over does not.
func TestCleanKeepsAnAddressOfOthers(t *testing.T) {
	r := testSpec().Registration()
	const manifest = "manifests/kube-vip.yaml"
	for name, c := range map[string]struct {
		recorded, unit, pod, inherited bool
		held, returned                 bool
	}{
		"it was only attempted":           {pod: true, held: true},
		"somebody else gives the address": {held: true},
		"claimed, and the pod runs":       {recorded: true, unit: true, pod: true, held: true},
		"its takeover has failed": {
			recorded: true, unit: true, pod: true, inherited: true, held: true, returned: true,
		},
		"it was taken over":  {recorded: true, unit: true, inherited: true},
		"its record is lost": {unit: true},
		"its unit is lost":   {recorded: true},
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
		if c.inherited {
			files["config/inherited/kube-vip.yaml"] = "the pod"
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
