package staticpod

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Stand-ins for the programs of a machine. The container runs as long as the file $STATE/running exists.
var programs = map[string]string{
	"ctr": `for last; do :; done
case "$*" in
*"tasks ls")
  echo "TASK PID STATUS"
  [ ! -e "$STATE/running" ] || echo "$ID $$ RUNNING"
  echo "other 1 RUNNING"
  ;;
*"containers ls"*'"io.kubernetes.container.name"==etcd') echo "$ID"; echo 0123456789abcdef ;;
*"containers info $ID") printf '{\n    "Labels": {\n        "io.kubernetes.pod.name": "%s"\n    }\n}\n' "$POD" ;;
*"containers info"*) exit 1 ;;
*"images ls"*"name==there:1") echo there:1 ;;
*"images ls"*"name=="*) grep -sxF "${last#name==}" "$STATE/names" || : ;;
*"images pull"*) echo "$*" >>"$STATE/pulled" ;;
*"images import"*) tar -tf "$last" >/dev/null && cat "$STATE/imported" >>"$STATE/names" ;;
*"images tag"*) echo "$last" >>"$STATE/names" ;;
*) exit 1 ;;
esac`,
	"crictl": `case "$*" in
*"ps --all --quiet"*"container.name=etcd") echo "$ID"; echo 0123456789abcdef ;;
*inspect*"$ID")
  if [ -e "$STATE/running" ]; then echo "$POD $ID CONTAINER_RUNNING $$"; else echo "$POD $ID CONTAINER_EXITED 0"; fi
  ;;
*inspect*) exit 1 ;;
*"ps --all --quiet --id $ID") echo "$ID" ;;
*"ps --all --quiet --id "*) ;;
*"images --quiet there:1") echo sha256:1 ;;
*"images --quiet"*) ;;
*"pull --quiet"*) echo "$*" >>"$STATE/pulled" ;;
*) exit 1 ;;
esac`,
	"systemctl": `case "$*" in
*ActiveState*MainPID*)
  echo "ActiveState=$(cat "$STATE/kubelet" 2>/dev/null || echo active)"
  echo "MainPID=$(cat "$STATE/pid" 2>/dev/null || echo 0)"
  ;;
*ActiveState*) cat "$STATE/kubelet" 2>/dev/null || echo active ;;
*NRestarts*) cat "$STATE/restarts" 2>/dev/null || echo 0 ;;
*ActiveEnterTimestampMonotonic*) echo 1000000000 ;; # 1000 s after the boot
"restart kubelet.service") cat "$STATE/program" >"$STATE/runs" 2>/dev/null || : >"$STATE/runs" ;;
*MainPID*) cat "$STATE/pid" 2>/dev/null || echo 0 ;;
esac`,
	"ss": `[ ! -e "$STATE/listens" ] || echo LISTEN`,
}

// shell runs a script with stand-ins for some programs, and returns its output. The pod of the container is that of
// the component etcd.
func shell(t *testing.T, dir string, with []string, script host.Script) (string, error) {
	t.Helper()
	return shellWith(t, dir, "etcd-cp1", with, script)
}

// shellWith is shell with another name of the container's pod.
func shellWith(t *testing.T, dir, pod string, with []string, script host.Script) (string, error) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range with {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+programs[name]+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const places = "pod_manifests=$STATE/manifests\npod_logs=$STATE/logs\n" +
		"pod_program=$STATE/program\npod_former=$STATE/program.before\npod_uptime=$STATE/uptime\n"
	command := exec.Command("sh", "-euc", string(Functions()+places+script))
	command.Env = []string{
		"PATH=" + bin + ":/usr/bin:/bin", "STATE=" + dir, "ID=" + strings.Repeat("ab", 32), "POD=" + pod,
		"CONTAINER_RUNTIME_ENDPOINT=unix:///run/x.sock",
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestContainersOf reads the containers from both tools.
func TestContainersOf(t *testing.T) {
	for _, tool := range []string{"ctr", "crictl"} {
		dir := t.TempDir()
		for _, running := range []bool{true, false} {
			if running {
				write(t, dir+"/running", "")
			} else if err := os.Remove(dir + "/running"); err != nil {
				t.Fatal(err)
			}
			out, err := shell(t, dir, []string{tool, "systemctl", "ss"}, Report("etcd", "there:1")+Report("other", "x:1"))
			s := Read(out, "etcd")
			_, runs := s.Running()
			if err != nil || s.Runtime != tool || !s.Answers || !s.HasImage || runs != running || len(s.Containers) == 0 ||
				s.Containers[0].ID != strings.Repeat("ab", 32) || s.Kubelet != "active" {
				t.Errorf("%s, running %v: %v: %+v\n%s", tool, running, err, s, out)
			}
		}
		out, err := shell(t, dir, []string{tool}, pull("there:1")+pull("x:1"))
		pulled, _ := os.ReadFile(dir + "/pulled")
		if err != nil || strings.Count(string(pulled), "\n") != 1 || !strings.Contains(string(pulled), "x:1") {
			t.Errorf("%s: %v: %s pulled %q", tool, err, out, pulled)
		}
	}
	out, err := shell(t, t.TempDir(), []string{"systemctl"}, Report("etcd", ""))
	if s := Read(out, "etcd"); err != nil || s.Answers || s.Runtime != "" || s.HasImage {
		t.Errorf("without a runtime: %v: %+v", err, s)
	}
}

// TestContainersOfOtherPods: a container of the same name in another pod of the machine is not the component's.
func TestContainersOfOtherPods(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host = strings.ToLower(host)
	for name, c := range map[string]struct {
		kubelet []string // its words; nil: none runs
		pods    []string // that the machine has
		node    string   // "": it is not known
	}{
		"no kubelet":                     {},
		"another program":                {kubelet: []string{"runc", "--hostname-override=cp1"}},
		"a name":                         {kubelet: []string{"/usr/bin/kubelet", "--hostname-override=CP1"}, node: "cp1"},
		"a name in another word":         {kubelet: []string{"kubelet", "--v=2", "--hostname-override", "cp1"}, node: "cp1"},
		"the machine's, with a pod":      {kubelet: []string{"kubelet"}, pods: []string{"etcd-" + host}, node: host},
		"the machine's, without one":     {kubelet: []string{"kubelet"}},
		"the machine's was another name": {kubelet: []string{"kubelet"}, pods: []string{"etcd-old-" + host}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir+"/running", "")
			write(t, dir+"/pid", strconv.Itoa(standIn(t, c.kubelet))+"\n")
			for _, pod := range c.pods {
				write(t, dir+"/logs/kube-system_"+pod+"_0123/x/0.log", "")
			}
			on := cmp.Or(c.node, host)
			for pod, belongs := range map[string]bool{
				"etcd-" + on: true, "": true, "backup-29384-x7k2p": false, "etcd": false, "etcd-events-cp9": true,
				"etcd-cp9": true, "etcd-events-" + on: c.node == "",
			} {
				expectBelongs(t, dir, pod, belongs)
			}
		})
	}
}

// standIn starts a process with the command line of a kubelet, and returns its number; 0 without words.
func standIn(t *testing.T, words []string) int {
	t.Helper()
	if words == nil {
		return 0
	}
	process := exec.Command("sh")
	process.Args = append([]string{words[0], "-c", "sleep 600; :", "x"}, words[1:]...)
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL)
		_ = process.Wait()
	})
	return process.Process.Pid
}

// expectBelongs: whether the container and the log of a pod are those of the component etcd.
func expectBelongs(t *testing.T, dir, pod string, belongs bool) {
	t.Helper()
	for _, tool := range []string{"ctr", "crictl"} {
		out, err := shellWith(t, dir, pod, []string{tool, "systemctl"}, "pod_containers etcd\n")
		if err != nil || strings.Contains(out, "RUNNING") != belongs {
			t.Errorf("%s: the container of %q belongs: %v: %v %q", tool, pod, !belongs, err, out)
		}
	}
	if pod == "" {
		return
	}
	own := filepath.Join(dir, "logs", "kube-system_"+pod+"_4567")
	write(t, own+"/etcd/3.log", "a line\n")
	out, err := shellWith(t, dir, pod, []string{"systemctl"}, Log("etcd", 1)+"pod_directories etcd\n")
	if err != nil || strings.Contains(out, own) != belongs {
		t.Errorf("the log of %q belongs: %v: %v %q", pod, !belongs, err, out)
	}
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
}

// TestPlaceAndStop places a definition and takes it away, each twice, with a copy beside it.
func TestPlaceAndStop(t *testing.T) {
	dir := t.TempDir()
	definition, placed := dir+"/etcd.yaml", dir+"/manifests/etcd.yaml"
	write(t, definition, string(example().Manifest()))
	tools := []string{"ctr", "systemctl", "ss"}
	for range 2 {
		if out, err := shell(t, dir, tools, "pod_place etcd $STATE/etcd.yaml\n"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		info, err := os.Stat(placed)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info, err)
		}
		if names, err := os.ReadDir(dir + "/manifests"); err != nil || len(names) != 1 {
			t.Errorf("the directory has %v, %v", names, err)
		}
	}
	copied := dir + "/manifests/etcd.yaml.bak"
	write(t, copied, string(example().Manifest()))
	write(t, dir+"/manifests/other.yaml", strings.ReplaceAll(string(example().Manifest()), " etcd", " other"))
	write(t, dir+"/manifests/events.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: etcd-events\n"+
		"  namespace: kube-system\n  labels:\n    name: etcd\nspec:\n  containers:\n  - image: etcd\n    name: etcd\n"+
		"  volumes:\n  - name: etcd\n")
	for text, duplicate := range map[string]bool{
		"{\n  \"metadata\": {\n    \"name\": \"etcd\",\n    \"namespace\": \"kube-system\"\n  }\n}\n": true,
		"metadata:\n    labels:\n        a: b\n    name: 'etcd'\n    namespace: kube-system\n":        true,
		"metadata:\n  name: etcd\n  namespace: other\n":                                               false,
		"metadata:\n  name: etcd\n": false,
	} {
		write(t, dir+"/manifests/judged", text)
		if out, _ := shell(t, dir, tools, "pod_duplicates etcd\n"); strings.Contains(out, "judged") != duplicate {
			t.Errorf("%q is a duplicate: %v", text, !duplicate)
		}
	}
	if err := os.Remove(dir + "/manifests/judged"); err != nil {
		t.Fatal(err)
	}
	if out, _ := shell(t, dir, tools, "pod_duplicates etcd\n"); out != copied+"\n" {
		t.Errorf("duplicates: %q", out)
	}
	for range 2 {
		if out, err := shell(t, dir, tools, "pod_stop etcd $STATE/moved 120 2379 2380\n"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if names, err := os.ReadDir(dir + "/manifests"); err != nil || len(names) != 2 || names[1].Name() != "other.yaml" {
			t.Errorf("the directory has %v, %v", names, err)
		}
		if _, err := os.Stat(dir + "/moved/etcd.yaml.bak"); err != nil {
			t.Error(err)
		}
	}
	for file, want := range map[string]string{"running": "RUNNING", "listens": "have not ended"} {
		write(t, dir+"/"+file, "")
		out, err := shell(t, dir, tools, "pod_stop etcd $STATE/moved 1 2379\n")
		if err == nil || !strings.Contains(out, want) || !strings.Contains(out, "kubelet.service is active") {
			t.Errorf("%s: %v: %s", file, err, out)
		}
		if err := os.Remove(dir + "/" + file); err != nil {
			t.Fatal(err)
		}
	}
	// Without a kubelet, the manifest of a running container stays where it is.
	write(t, placed, string(example().Manifest()))
	write(t, dir+"/kubelet", "inactive\n")
	write(t, dir+"/running", "")
	out, err := shell(t, dir, tools, "pod_stop etcd $STATE/moved 120 2379\n")
	_, gone := os.Stat(placed)
	if err == nil || gone != nil || !strings.Contains(out, "kubelet.service is inactive, and only") {
		t.Errorf("stopped without a kubelet: %v, %v: %s", err, gone, out)
	}
	if err := os.Remove(dir + "/running"); err != nil {
		t.Fatal(err)
	}
	if out, err := shell(t, dir, tools, "pod_stop etcd $STATE/moved 120 2379\n"); err != nil {
		t.Errorf("a pod that does not run: %v: %s", err, out)
	}
	// A runtime that does not answer is no evidence that a container has ended.
	if out, err := shell(t, dir, []string{"systemctl", "ss"}, "pod_stop etcd $STATE/moved 1 2379\n"); err == nil {
		t.Errorf("stopped without a runtime: %s", out)
	}
}

// TestKubeletBack: a change of the kubelet's program that was cut off is taken back before a pod is placed, if the
// kubelet does not stay up. What was there before the change is kept once, however often the change begins.
func TestKubeletBack(t *testing.T) {
	for name, c := range map[string]struct {
		former, active, restarts, uptime string
		back                             bool
	}{
		"it runs":                   {"former", "active", "0", "1003.5", false},
		"it has failed":             {"former", "failed", "0", "1003.5", true},
		"systemd starts it again":   {"former", "activating", "1", "1003.5", true},
		"it runs for a moment":      {"former", "active", "2", "1003.5", true},
		"it has run since":          {"former", "active", "2", "1060.5", false},
		"it was stopped by hand":    {"former", "inactive", "0", "1003.5", false},
		"there was no drop-in":      {"", "failed", "0", "1003.5", true},
		"there was none, it runs":   {"", "active", "0", "1003.5", false},
		"no change has been begun":  {"none", "failed", "5", "1003.5", false},
		"no change, and it is well": {"none", "active", "0", "1003.5", false},
	} {
		dir := t.TempDir()
		definition, program := dir+"/etcd.yaml", dir+"/program"
		write(t, definition, string(example().Manifest()))
		write(t, dir+"/kubelet", c.active+"\n")
		write(t, dir+"/restarts", c.restarts+"\n")
		write(t, dir+"/uptime", c.uptime+" 2000.00\n")
		if c.former != "none" {
			if c.former != "" {
				write(t, program, c.former)
			}
			keep := KeepKubelet + host.Script("printf new >"+program+"\n")
			if out, err := shell(t, dir, []string{"systemctl"}, keep+keep); err != nil {
				t.Fatalf("%s: %v: %s", name, err, out)
			}
		} else {
			write(t, program, "new")
		}
		report, err := shell(t, dir, []string{"systemctl"}, Report("etcd", ""))
		if s := Read(report, "etcd"); err != nil || s.Former != (c.former != "none") || s.Kubelet != c.active {
			t.Errorf("%s: %v: %s is read as %+v", name, err, report, s)
		}
		if out, err := shell(t, dir, []string{"ctr", "systemctl", "ss"}, "pod_place etcd $STATE/etcd.yaml\n"); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		want := "new"
		if c.back {
			want = c.former
		}
		now, _ := os.ReadFile(program)
		runs, started := os.ReadFile(dir + "/runs")
		_, kept := os.Stat(program + ".before")
		if string(now) != want || (started == nil) != c.back || c.back && string(runs) != want {
			t.Errorf("%s: the drop-in says %q, the kubelet was started with %q, %v", name, now, runs, started)
		}
		if (kept == nil) != (c.former != "none" && !c.back) {
			t.Errorf("%s: what was kept: %v", name, kept)
		}
	}
}
