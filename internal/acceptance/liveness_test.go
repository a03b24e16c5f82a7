package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/liveness"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// restartTimeout covers four failed probes of two seconds with their periods, the lock of another
// restart, and the start.
const restartTimeout = 4 * time.Minute

// TestLiveness stops processes by SIGSTOP. What hangs alone is restarted; what hangs for a cause
// that machines share is not, or one after another.
func TestLiveness(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	apply(t, w)
	t.Run("a scheduler, in the time that the guide promises", func(t *testing.T) { hangsInTime(t, names) })
	hurry(t, names, 4)
	t.Run("an API server", func(t *testing.T) {
		// The others end on their own when they lose their lease.
		expectUnfrozen(t, names, "cp2", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	})
	t.Run("a scheduler", func(t *testing.T) { expectUnfrozen(t, names, "cp1", "kube-scheduler") })
	t.Run("a controller manager", func(t *testing.T) { expectUnfrozen(t, names, "cp2", "kube-controller-manager") })
	t.Run("a member", func(t *testing.T) {
		expectUnfrozen(t, names, "cp3", "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	})
	t.Run("all API servers", func(t *testing.T) { allServersHang(t, names) })
	t.Run("two members of three", func(t *testing.T) { quorumHangs(t, names) })
	t.Run("a scheduler that is not restarted is drift", func(t *testing.T) {
		hangsForLong(t, w, names, "cp1", "kube-scheduler")
	})
	t.Run("an API server that is not restarted is drift", func(t *testing.T) {
		hangsForLong(t, w, names, "cp2", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
	})
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// hangsInTime freezes a scheduler while it is probed at the pace of every machine, and compares how long it hangs with
// the limit.
func hangsInTime(t *testing.T, names []string) {
	const machine, unit = "cp1", "kube-scheduler"
	await(t, "the scheduler is not observed as live", func() bool {
		state := livenessOf(t, machine, unit)
		return len(state) == 5 && state[1] == "1"
	})
	before := processes(t, names...)
	key, limit := machine+" "+unit, liveness.Kubeadm.Silent(liveness.ClientRule)
	freeze(t, machine, unit)
	begin := time.Now()
	awaitFor(t, restartTimeout, "the scheduler was not restarted", func() bool {
		return processes(t, machine)[key] != before[key]
	})
	took := time.Since(begin).Round(time.Second)
	t.Logf("another process runs after %s, of at most %s", took, limit)
	if took > limit+5*time.Second { // for the start, and for asking
		t.Errorf("the scheduler hung for %s, and may for %s", took, limit)
	}
	awaitFor(t, restartTimeout, "the scheduler does not serve", func() bool { return serves(t, machine, unit) })
	expectRestarted(t, before, []string{key})
}

// hurry gives probes less time than kubeadm's, so that the test takes minutes. The next plan
// shows that as drift.
func hurry(t *testing.T, names []string, threshold int) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), fmt.Sprintf(`sed -i -e 's/^timeout=.*/timeout=2/' `+
			`-e 's/^threshold=.*/threshold=%d/' -e 's/^hold=.*/hold=40/' /etc/kubernetes/liveness.sh /etc/etcd/liveness.sh
grep -qx threshold=%[1]d /etc/etcd/liveness.sh
sed -i 's/=10$/=2/' /etc/systemd/system/kube-liveness.timer /etc/systemd/system/etcd-liveness.timer
rm -f /run/etcd-liveness/members
systemctl daemon-reload
systemctl restart kube-liveness.timer etcd-liveness.timer`, threshold))
	}
	for _, name := range names {
		for _, unit := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			await(t, unit+" on "+name+" is not observed as live", func() bool {
				state := livenessOf(t, name, unit)
				return len(state) == 5 && state[1] == "1"
			})
		}
		await(t, "the member on "+name+" does not know the others", func() bool {
			out := onMachine(t, shared.lab.Machine(name), "cat /run/etcd-liveness/members || :")
			return strings.Count(out, "https://") == 3
		})
	}
}

// livenessOf returns the fields of the state that the last round has left.
func livenessOf(t *testing.T, machine, unit string) []string {
	t.Helper()
	return strings.Fields(onMachine(t, shared.lab.Machine(machine), "cat /run/*-liveness/"+unit+".service || :"))
}

func failuresOf(t *testing.T, machine, unit string) int {
	t.Helper()
	state := livenessOf(t, machine, unit)
	if len(state) != 5 {
		return 0
	}
	failures, err := strconv.Atoi(state[2])
	if err != nil {
		t.Fatal(err)
	}
	return failures
}

func freeze(t *testing.T, machine, unit string) {
	t.Helper()
	onMachine(t, shared.lab.Machine(machine), "systemctl kill --signal=STOP "+unit)
}

func serves(t *testing.T, machine, unit string) bool {
	t.Helper()
	url := map[string]string{
		"etcd":                    "http://127.0.0.1:2381/readyz",
		"kube-apiserver":          "https://$(hostname -I | cut -d ' ' -f 1):6443/readyz",
		"kube-controller-manager": "https://127.0.0.1:10257/healthz",
		"kube-scheduler":          "https://127.0.0.1:10259/readyz",
	}[unit]
	script := "curl -ksf --noproxy '*' --max-time 5 " + url + " || :"
	return strings.HasPrefix(onMachine(t, shared.lab.Machine(machine), script), "ok")
}

// expectUnfrozen freezes a unit, and expects that it serves again as another process, and that
// nothing else was restarted.
func expectUnfrozen(t *testing.T, names []string, machine, unit string, may ...string) {
	before := processes(t, names...)
	freeze(t, machine, unit)
	begin := time.Now()
	key := machine + " " + unit
	awaitFor(t, restartTimeout, unit+" on "+machine+" was not restarted", func() bool {
		return processes(t, machine)[key] != before[key] && serves(t, machine, unit)
	})
	t.Logf("%s on %s serves again after %s", unit, machine, time.Since(begin).Round(time.Second))
	var others []string
	for _, name := range may {
		others = append(others, machine+" "+name)
	}
	expectRestarted(t, before, []string{key}, others...)
}

// allServersHang: the lock lets one restart go on at a time.
func allServersHang(t *testing.T, names []string) {
	before := processes(t, names...)
	for _, name := range names {
		freeze(t, name, "kube-apiserver")
	}
	var times []time.Time
	restarted := map[string]bool{}
	awaitFor(t, 3*restartTimeout, "not all API servers were restarted", func() bool {
		now := processes(t, names...)
		for _, name := range names {
			if key := name + " kube-apiserver"; !restarted[name] && now[key] != before[key] {
				restarted[name] = true
				times = append(times, time.Now())
			}
		}
		return len(restarted) == len(names)
	})
	for i := 1; i < len(times); i++ {
		gap := times[i].Sub(times[i-1])
		t.Logf("the next API server was restarted after %s", gap.Round(time.Second))
		if gap < 30*time.Second { // the lock is held for 40 s; both ends are observed late
			t.Errorf("two API servers were restarted within %s", gap)
		}
	}
	for _, name := range names {
		awaitFor(t, restartTimeout, "the API server of "+name+" does not serve", func() bool {
			return serves(t, name, "kube-apiserver")
		})
	}
}

// quorumHangs: with two members that hang, nothing is restarted: neither they nor an API server.
func quorumHangs(t *testing.T, names []string) {
	before := processes(t, names...)
	for _, name := range names[:2] {
		freeze(t, name, "etcd")
	}
	awaitFor(t, restartTimeout, "the probes do not fail", func() bool {
		return failuresOf(t, "cp1", "etcd") > 12 && failuresOf(t, "cp2", "etcd") > 12
	})
	for _, name := range names[:2] {
		onMachine(t, shared.lab.Machine(name), "systemctl kill --signal=CONT etcd")
	}
	for _, name := range names {
		awaitFor(t, restartTimeout, "the API server of "+name+" does not serve", func() bool {
			return serves(t, name, "kube-apiserver")
		})
	}
	var may []string
	for _, name := range names { // these end on their own when they lose their lease
		may = append(may, name+" kube-controller-manager", name+" kube-scheduler")
	}
	expectRestarted(t, before, nil, may...)
}

// hangsForLong: the next plan shows what no probe has restarted, and the apply restarts it, and nothing else but
// what has lost its lease. The state is made older than it is, instead of waiting for four minutes.
func hangsForLong(t *testing.T, w *workspace.Workspace, names []string, machine, unit string, may ...string) {
	hurry(t, names, 1000)
	before := processes(t, names...)
	freeze(t, machine, unit)
	await(t, "the probe of "+unit+" does not fail", func() bool { return failuresOf(t, machine, unit) > 0 })
	onMachine(t, shared.lab.Machine(machine), fmt.Sprintf(`file=/run/kube-liveness/%s.service
while read -r invocation lived failures since unready <$file && [ "$unready" -lt 240 ]; do
  echo "$invocation $lived $failures 1 $unready" >$file.test
  mv $file.test $file
  sleep 1
done`, unit))
	expectContains(t, plan(t, w), unit+": it has not been ready for longer than 4m0s (",
		"/etc/kubernetes/liveness.sh was edited manually", "/etc/etcd/liveness.sh was edited manually",
		`/etc/systemd/system/etcd-liveness.timer has the line "OnActiveSec=2"`)
	apply(t, w)
	var others []string
	for _, name := range may {
		others = append(others, machine+" "+name)
	}
	expectRestarted(t, before, []string{machine + " " + unit}, others...)
}
