package pod

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// standInRuntime is a stand-in for ctr: the containers are lines "ID NAME STATE PID" in $STATE/containers.
const standInRuntime = `#!/bin/sh
case "$3 $4" in
"tasks ls") echo "TASK PID STATUS"; awk '$3 == "RUNNING" {print $1, $4, $3}' "$STATE/containers" ;;
"containers ls") awk -v name="${6##*==}" '$2 == name {print $1}' "$STATE/containers" ;;
esac
`

// standInKubelet is a stand-in for the kubelet: it ends the container of a manifest that has changed or is gone, and
// then starts one for what is there. It ends with the test's process, also if that is killed.
const standInKubelet = `#!/bin/sh
manifest=$STATE/manifests/kube-scheduler.yaml
same() {
  if [ -e "$manifest" ]; then cmp -s "$manifest" "$STATE/ran"; else [ ! -e "$STATE/ran" ]; fi
}
while kill -0 "$PPID" 2>/dev/null; do
  if ! same; then
    cp "$manifest" "$STATE/ran" 2>/dev/null || rm -f "$STATE/ran"
    sed 's/RUNNING/STOPPED/' "$STATE/containers" >"$STATE/next"
    sleep 0.3
    if [ -e "$STATE/ran" ]; then
      echo "$(date +%N | sha256sum | cut -c 1-16) kube-scheduler RUNNING $$" >>"$STATE/next"
    fi
    mv "$STATE/next" "$STATE/containers"
  fi
  sleep 0.05
done
`

// stand is a directory with the stand-ins, which run until the test ends.
type stand struct {
	*testing.T
	dir string
}

func newStand(t *testing.T) stand {
	t.Helper()
	s := stand{t, t.TempDir()}
	for name, text := range map[string]string{
		"bin/ctr": standInRuntime, "kubelet": standInKubelet, "containers": "",
		"bin/systemctl":            "#!/bin/sh\ncase $* in *Monotonic*) echo 1000000 ;; *) echo active ;; esac\n",
		"pods/kube-scheduler.yaml": string(File(component.Of(wanted(t))[2]).Content),
	} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	kubelet := exec.CommandContext(ctx, "sh", filepath.Join(s.dir, "kubelet"))
	kubelet.Env = s.environment()
	if err := kubelet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = kubelet.Wait()
	})
	return s
}

func (s stand) environment() []string {
	return []string{"STATE=" + s.dir, "PATH=" + s.dir + "/bin:/usr/bin:/bin"}
}

// run runs a line with the functions of static pods, on the stand's directories.
func (s stand) run(line host.Script) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	definition := host.Words(s.dir + "/pods/kube-scheduler.yaml")
	script := prelude() + "pod_manifests=" + host.Words(s.dir+"/manifests") +
		"\n" + directories(s.dir+"/pods") + "pod_runtime() { echo ctr; }\n" +
		"sed -i 's|inputs: .*|inputs: " + host.Script(s.dir) + "/kubelet|' " + definition + "\n" + line
	command := exec.CommandContext(ctx, "sh", "-eu", "-c", string(script))
	command.Env = s.environment()
	out, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// state returns what Read makes of the report.
func (s stand) state() State {
	s.Helper()
	return Read(s.run("replica_report kube-scheduler"), release.Scheduler)
}

// TestScripts runs the scripts against stand-ins of the kubelet and of the container runtime.
func TestScripts(t *testing.T) {
	s := newStand(t)
	if got := s.state().Unit; got.Load != "loaded" || got.Active != "inactive" {
		t.Errorf("before the start: %+v", got)
	}
	s.run("replica_start kube-scheduler")
	first := s.await("active")
	s.run("replica_start kube-scheduler")
	if second := s.await("active"); second == first {
		t.Error("a second start without a change is none")
	}
	ages := s.run("touch -d '-100 seconds' $STATE/old; replica_age $STATE/old; " +
		"replica_age $STATE/pods/kube-scheduler.yaml; replica_age $STATE/none; " +
		"systemctl() { echo '$(id)'; }; replica_age $STATE/old")
	if !regexp.MustCompile(`^10[0-9]\n[0-9]{1,2}\n$`).MatchString(ages) {
		t.Errorf("the ages of manifests are %q", ages)
	}
	if got := s.state(); got.Unit.NeedReload || got.Program == "" {
		t.Errorf("started: %+v", got)
	}
	s.run("sed -i 's/leader-elect=true/leader-elect=false/' " + host.Words(s.dir+"/manifests/kube-scheduler.yaml"))
	if got := s.state(); !got.Unit.NeedReload {
		t.Errorf("an edited manifest: %+v", got.Unit)
	}
	copied := filepath.Join(s.dir, "manifests", "kube-scheduler.yaml.bak")
	s.run("cp " + host.Words(s.dir+"/manifests/kube-scheduler.yaml", copied) + "; replica_start kube-scheduler")
	if _, err := os.Stat(copied); err == nil {
		t.Error("a copy of the manifest is left to the kubelet")
	}
	s.await("active")
	other := filepath.Join(s.dir, "pods", "kube-controller-manager.yaml") // the definition of another component
	s.run("echo definition >" + host.Words(other) + "; cp " + host.Words(s.dir+"/manifests/kube-scheduler.yaml") + " " +
		host.Words(s.dir+"/manifests/kube-controller-manager.yaml") + "; replica_start kube-scheduler")
	if text, err := os.ReadFile(other); err != nil || string(text) != "definition\n" {
		t.Errorf("a copy of the manifest has replaced a definition: %v\n%s", err, text)
	}
	s.await("active")
	s.run("replica_stop kube-apiserver kube-scheduler; replica_stop kube-scheduler")
	s.await("inactive")
}

// await waits for a state, and returns the running container.
func (s stand) await(active string) string {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		state := s.state()
		if state.Unit.Active == active {
			return s.run("replica_running kube-scheduler")
		}
		if time.Now().After(deadline) {
			s.Fatalf("it is %+v, want %s", state.Unit, active)
		}
	}
}

// TestScriptsInherit: a manifest of kubeadm is reported as it is, and kept when the provider replaces it.
func TestScriptsInherit(t *testing.T) {
	s := newStand(t)
	manifest, text := filepath.Join(s.dir, "manifests", "kube-scheduler.yaml"), kubeadmPods(t)[release.Scheduler]
	if err := os.MkdirAll(filepath.Dir(manifest), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	before := s.await("active")
	if got := s.state(); got.Inherited == nil || got.Unit.NeedReload || len(got.Note) > 0 ||
		got.Program != component.Artifact("1.36.3", release.Scheduler).Path() {
		t.Errorf("inherited: %+v", got)
	}
	s.run("replica_start kube-scheduler")
	if after := s.await("active"); after == before {
		t.Error("it was not started again")
	}
	if got := s.state(); got.Inherited != nil || got.Unit.NeedReload || got.Program == "" {
		t.Errorf("started: %+v", got)
	}
	s.run("replica_start kube-scheduler")
	keptAt := filepath.Join(s.dir, "pods", "inherited", "kube-scheduler.yaml")
	kept, err := os.ReadFile(keptAt)
	if err != nil || string(kept) != text {
		t.Errorf("kept: %v\n%s", err, kept)
	}
	// A replica that moves back to static pods starts it again.
	if got := s.state(); got.Kept != nil {
		t.Errorf("while another manifest is placed: %+v", got)
	}
	s.run("replica_stop kube-scheduler")
	s.await("inactive")
	if got := s.state(); got.Kept != nil {
		t.Errorf("stopped, but not left: %+v", got)
	}
	s.run("cp " + host.Words(keptAt, manifest))
	s.await("active")
	s.run("replica_leave kube-apiserver kube-scheduler; replica_leave kube-scheduler")
	s.await("inactive")
	if got := s.state(); got.Kept == nil || got.Kept.Name != release.Scheduler || got.Inherited != nil {
		t.Errorf("without a manifest: %+v", got)
	}
	s.run("replica_resume kube-scheduler")
	s.await("active")
	if got := s.state(); got.Inherited == nil || got.Kept != nil {
		t.Errorf("returned: %+v", got)
	}
	if placed, err := os.ReadFile(manifest); err != nil || string(placed) != text {
		t.Errorf("placed by the return: %v\n%s", err, placed)
	}
	// One that was not stopped, as by a pause that was cut off, is started again from the same manifest.
	before = s.await("active")
	s.run("replica_resume kube-scheduler")
	if after := s.await("active"); after == before {
		t.Error("a resume did not start it again")
	}
	if placed, err := os.ReadFile(manifest); err != nil || string(placed) != text {
		t.Errorf("placed by a resume of what was not stopped: %v\n%s", err, placed)
	}
	// So does one whose processes were ended at once, as before a restore.
	s.run("kill() { :; }; replica_kill kube-scheduler; kill() { command kill \"$@\"; }; replica_leave kube-scheduler")
	s.await("inactive")
	s.run("replica_resume kube-scheduler")
	s.await("active")
	if placed, err := os.ReadFile(manifest); err != nil || string(placed) != text {
		t.Errorf("placed after a kill: %v\n%s", err, placed)
	}
	// One that runs from the provider's manifest resumes from it.
	s.run("replica_start kube-scheduler; replica_leave kube-scheduler; replica_resume kube-scheduler")
	s.await("active")
	if got := s.state(); got.Inherited != nil {
		t.Errorf("resumed: %+v", got)
	}
	// A rollback starts it again.
	s.run("replica_start kube-scheduler")
	s.await("active")
	s.run("cp " + host.Words(keptAt, s.dir+"/pods/kube-scheduler.yaml") + "; replica_start kube-scheduler")
	s.await("active")
	if placed, err := os.ReadFile(manifest); err != nil || string(placed) != text {
		t.Errorf("placed by a rollback: %v\n%s", err, placed)
	}
	// One that was cut off before it had placed anything has nothing to wait for.
	running, copied := s.await("active"), filepath.Join(s.dir, "manifests", "kube-scheduler.yaml.bak")
	s.run("cp " + host.Words(manifest, copied) + "; replica_start kube-scheduler")
	if now := s.await("active"); now != running {
		t.Errorf("it runs as %q, and ran as %q", now, running)
	}
	if _, err := os.Stat(copied); err == nil {
		t.Error("a copy of the manifest is left to the kubelet")
	}
}
