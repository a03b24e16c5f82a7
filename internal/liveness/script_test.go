package liveness

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// functions returns what round.sh defines, without its round.
func functions(t *testing.T) string {
	t.Helper()
	text, _, cut := strings.Cut(string(round), "\n# Without curl, ")
	if !cut {
		t.Fatal("round.sh has another form")
	}
	return text
}

// TestHangs: with the lock, a component that answers again is not what hangs.
func TestHangs(t *testing.T) {
	if _, err := exec.LookPath(program); err != nil {
		testrun.Missing(t, program+" is not installed")
	}
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	ask := func() string {
		t.Helper()
		out, err := exec.Command("sh", "-c", "timeout=2\n"+functions(t)+"\nlock() { :; }\nlive="+server.URL+
			"\nif may_server; then echo killed; else echo \"$reason\"; fi").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := ask(); got != "it answers again" {
		t.Errorf("a component that answers: %q", got)
	}
	status = http.StatusInternalServerError
	if got := ask(); got != "killed" {
		t.Errorf("a component that fails: %q", got)
	}
	server.Close()
	if got := ask(); got != "killed" {
		t.Errorf("a component that does not answer: %q", got)
	}
}

// TestAwake probes a real process: one that runs again and again, and one that was stopped.
func TestAwake(t *testing.T) {
	process := exec.Command("sh", "-c", "while :; do sleep 0.1; done")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signal := func(s syscall.Signal) {
		if err := process.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	method := Awake(filepath.Join(dir, "pid"), filepath.Join(dir, "stopped"), filepath.Join(dir, "operstate"))
	expect := func(what string, want bool) {
		t.Helper()
		err := exec.Command("sh", "-c", "timeout=2\n"+functions(t)+"\nanswers "+method).Run()
		if (err == nil) != want {
			t.Errorf("%s: answers %t, want %t (%v)", what, err == nil, want, err)
		}
	}
	expect("no process yet", false)
	write("pid", strconv.Itoa(process.Process.Pid))
	write("stopped", "0")
	write("operstate", "up")
	expect("runs", true)
	signal(syscall.SIGSTOP)
	stat := filepath.Join("/proc", strconv.Itoa(process.Process.Pid), "stat")
	for text := ""; !strings.Contains(text, ") T "); time.Sleep(time.Millisecond) { // not at once on a busy computer
		read, err := os.ReadFile(stat)
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err, t.Context().Err())
		}
		text = string(read)
	}
	expect("stopped", false)
	write("operstate", "down")
	expect("its interface is down", true)
	write("operstate", "up")
	write("stopped", "1")
	expect("it may rest", true)
	write("stopped", "0")
	signal(syscall.SIGCONT)
	expect("goes on", true)
	write("pid", "$(reboot)")
	expect("not a process", false)
}

// TestProbesTakeNoLonger: what hangs answers neither question, so both are asked at the same time.
func TestProbesTakeNoLonger(t *testing.T) {
	if _, err := exec.LookPath(program); err != nil {
		testrun.Missing(t, program+" is not installed")
	}
	const timeout = 3
	for want, hang := range map[string][]string{
		"0 0": {"/readyz", "/livez"}, "0 1": {"/readyz"}, "1 0": {"/livez"}, "1 1": nil,
	} {
		end := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if slices.Contains(hang, r.URL.Path) {
				<-end
			}
		}))
		begin := time.Now()
		out, err := exec.Command("sh", "-euc", "timeout="+strconv.Itoa(timeout)+"\n"+functions(t)+"\nready="+server.URL+
			"/readyz live="+server.URL+"/livez\nask\necho $is_ready $is_live").CombinedOutput()
		took := time.Since(begin)
		close(end)
		server.Close()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%v hang: ready and live are %q (%v), want %q", hang, got, err, want)
		}
		if took > 2*timeout*time.Second-time.Second/2 {
			t.Errorf("%v hang: a probe with a timeout of %d s took %s", hang, timeout, took)
		}
	}
}

// TestRoundWithoutCurl: what cannot be asked is not counted as failed.
func TestRoundWithoutCurl(t *testing.T) {
	sockets := probe
	sockets.Components = []Component{{Unit: "haproxy.service", Ready: Sockets("/run/a"), Live: Sockets("/run/a")}}
	for name, c := range map[string]struct {
		probe Probe
		want  bool
	}{"asked by URL": {probe, true}, "asked otherwise": {sockets, false}} {
		round := exec.Command("/bin/sh", "-euc", c.probe.script())
		round.Env = []string{"PATH=" + t.TempDir()}
		out, err := round.CombinedOutput()
		if err == nil || (string(out) == "curl is not installed\n") != c.want {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

// TestLockSaysWhatEtcdAnswers: the reason why nothing is restarted is etcd's own.
func TestLockSaysWhatEtcdAnswers(t *testing.T) {
	if _, err := exec.LookPath(program); err != nil {
		testrun.Missing(t, program+" is not installed")
	}
	type answer struct {
		status int
		body   string
	}
	granted := answer{http.StatusOK, `{"header":{},"ID":"7587","TTL":"240"}`}
	for name, c := range map[string]struct {
		answers map[string]answer
		want    string
	}{
		"granted": {map[string]answer{
			"/v3/lease/grant": granted, "/v3/kv/txn": {http.StatusOK, `{"header":{},"succeeded":true}`},
		}, "locked"},
		"taken": {map[string]answer{
			"/v3/lease/grant": granted, "/v3/kv/txn": {http.StatusOK, `{"header":{}}`},
		}, "another restart of this cluster is less than 240 s ago"},
		"full": {map[string]answer{
			"/v3/lease/grant": granted,
			"/v3/kv/txn":      {http.StatusTooManyRequests, `{"code":8,"message":"etcdserver: mvcc: database space exceeded"}`},
		}, "etcd at URL answers 429: etcdserver: mvcc: database space exceeded"},
		"no quorum": {map[string]answer{
			"/v3/lease/grant": {http.StatusServiceUnavailable, `{"error":"x", "code":14, "message":"etcdserver: no leader"}`},
		}, "etcd at URL answers 503: etcdserver: no leader"},
		"denied": {map[string]answer{
			"/v3/lease/grant": {http.StatusForbidden, "{\"message\":\"etcdserver: permission denied\x1b[2J\"}"},
		}, "etcd at URL answers 403: etcdserver: permission denied[2J"},
		"another program": {map[string]answer{
			"/v3/lease/grant": {http.StatusOK, "<html>"},
		}, "etcd at URL grants no lease"},
		"nobody": {nil, "no answer of etcd at URL: (7) Failed to connect"},
	} {
		revoked := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			revoked = revoked || r.URL.Path == "/v3/lease/revoke"
			w.WriteHeader(cmp.Or(c.answers[r.URL.Path].status, http.StatusOK))
			_, _ = w.Write([]byte(c.answers[r.URL.Path].body))
		}))
		if c.answers == nil {
			server.Close()
		}
		out, err := exec.Command("sh", "-euc", "hold=240 ca='' cert='' key=''\n"+
			functions(t)+"\nif lock "+server.URL+"; then echo locked; else echo \"$reason\"; fi").CombinedOutput()
		server.Close()
		got := strings.ReplaceAll(strings.TrimSpace(string(out)), server.URL, "URL")
		if err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
		}
		if _, lent := c.answers["/v3/kv/txn"]; revoked != (lent && c.want != "locked") {
			t.Errorf("%s: the lease is revoked: %t", name, revoked)
		}
	}
}
