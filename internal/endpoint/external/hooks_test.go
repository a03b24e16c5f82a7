package external

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// nowhere is a machine that no test reaches.
func nowhere(string) *host.Host { return &host.Host{} }

// hooked returns a registrar whose hooks are a script.
func hooked(t *testing.T, script string) (*Registrar, targets.Target) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hook")
	text := "#!/bin/sh\ncd " + filepath.Dir(path) + "\n" + script
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	command := []string{path, "an argument"}
	r := New(targets.NewObserver(nowhere, nil)).For(endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 443, ClusterID: "abc",
		Hooks: endpoint.Hooks{Register: command, Drain: command, Deregister: command, Status: command},
	})
	return r, targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443}
}

// TestMovedReplicaIsDrained: the record on the machine does not name the endpoint any more, and the balancer has not
// been told: an apply that moves the replica was cut off. Another replica's machine is left alone.
func TestMovedReplicaIsDrained(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close() // no API server answers
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"cp1": true, "cp9": false} {
		r, at := hooked(t, "touch ran")
		ran := filepath.Join(filepath.Dir(r.Hooks.Drain[0]), "ran")
		r.Hooks.Status, r.Hosts = nil, map[string]string{at.Name: at.Address}
		r.Observer = targets.NewObserver(func(string) *host.Host { return pool.Host(host.Target{Address: at.Address}) },
			func(context.Context, string) (targets.Replica, error) {
				return targets.Replica{
					Name: name, ClusterID: r.ClusterID, Port: 6443, Endpoints: []string{"haproxy 10.0.0.100"},
				}, nil
			})
		// Whether it may leave is decided about the same replica.
		if is := r.inRotation(t.Context(), at.Name)[at.Name].Member(); is != want {
			t.Errorf("%s is there: cp1 is one of the endpoint's: %v, want %v", name, is, want)
		}
		if err := r.Drain(t.Context(), at.Name); err != nil {
			t.Errorf("%s is there: %v", name, err)
		}
		if _, err := os.Stat(ran); (err == nil) != want {
			t.Errorf("%s is there: the hook of cp1 has run: %v, want %v", name, err == nil, want)
		}
	}
}

// TestHookInput: a hook gets its arguments without a shell, and one line of JSON.
func TestHookInput(t *testing.T) {
	r, at := hooked(t, `cat; echo "$1"`)
	output, err := r.runHook(t.Context(), "drain", r.Hooks.Drain, at)
	want := `{"action":"drain","cluster_id":"abc","endpoint":{"address":"api.example.com","port":443},` +
		`"replica":{"name":"cp1","address":"10.0.0.11","port":6443}}` + "\nan argument\n"
	if err != nil || string(output) != want {
		t.Errorf("the hook got %s, want %s, %v", output, want, err)
	}
}

// TestHookFails: a hook is repeated, and what it wrote to standard error is in the error.
func TestHookFails(t *testing.T) {
	r, at := hooked(t, `echo x >>runs; test "$(wc -l <runs)" -ge 3 && exit 0; echo "pool is locked" >&2; exit 4`)
	if _, err := r.runHook(t.Context(), "register", r.Hooks.Register, at); err != nil {
		t.Errorf("the third run succeeds, but: %v", err)
	}
	r, at = hooked(t, `echo "pool is locked" >&2; exit 4`)
	_, err := r.runHook(t.Context(), "register", r.Hooks.Register, at)
	if err == nil || !strings.Contains(err.Error(), "hook register") ||
		!strings.Contains(err.Error(), "exit status 4: pool is locked") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r, at = hooked(t, `sleep 60`)
	start := time.Now()
	_, err = r.runHook(ctx, "drain", r.Hooks.Drain, at)
	if err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("a hook that hangs ends with %v after %s", err, time.Since(start))
	}
}

// TestHookIsEnded: a hook whose time is over, or that is interrupted, ends with the programs that it has started.
func TestHookIsEnded(t *testing.T) {
	for want, cause := range map[string]error{
		"it did not end within 5s":              nil,
		"it was interrupted: the user ended it": errors.New("the user ended it"),
	} {
		r, _ := hooked(t, "sleep 60 >alive & wait")
		r.DrainTimeout = 5*time.Second - hookTimeout
		path := filepath.Join(filepath.Dir(r.Hooks.Drain[0]), "alive")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		ended := make(chan error, 1)
		go func() {
			_, err := r.attemptHook(ctx, r.Hooks.Drain, nil)
			ended <- err
		}()
		alive, err := os.Open(path) // when sleep has begun
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		if cause != nil {
			cancel(cause)
		}
		if err := <-ended; err == nil || err.Error() != want {
			t.Errorf("the hook ends with %v, want %s", err, want)
		}
		if err := alive.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := alive.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%s: a program of the hook goes on: %v", want, err)
		}
	}
}

// TestHookLeavesProgram: a hook that succeeds has succeeded, also if a program that it has started goes on and holds
// its output.
func TestHookLeavesProgram(t *testing.T) {
	for script, want := range map[string]string{
		"sleep 60 & echo $! >pid; echo ok":         "",
		"sleep 60 & echo $! >pid; echo ok; exit 4": "exit status 4",
	} {
		r, _ := hooked(t, script)
		dir := filepath.Dir(r.Hooks.Drain[0])
		start := time.Now()
		output, err := r.attemptHook(t.Context(), r.Hooks.Drain, nil)
		pid, readErr := os.ReadFile(filepath.Join(dir, "pid"))
		if readErr != nil {
			t.Fatal(readErr)
		}
		id, parseErr := strconv.Atoi(strings.TrimSpace(string(pid)))
		if parseErr != nil {
			t.Fatal(parseErr)
		}
		_ = syscall.Kill(id, syscall.SIGKILL)
		if (err == nil) != (want == "") || err != nil && err.Error() != want || string(output) != "ok\n" && want == "" {
			t.Errorf("%s: %q, %v", script, output, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: it took %s", script, took)
		}
	}
}

func TestHookStatus(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"in_rotation": true}'`:                        "true ",
		`echo '{"in_rotation": false, "reason": "disabled"}'`: "false disabled",
		`echo up`:                  "not JSON",
		`echo '{}'`:                "not JSON",
		`head -c 1M </dev/zero`:    "not JSON",
		`echo no such pool; false`: "exit status 1",
	} {
		r, at := hooked(t, script)
		status, known, err := r.status(t.Context(), at)
		var got string
		switch {
		case err != nil:
			got = err.Error()
		case *status.InRotation:
			got = "true " + status.Reason
		default:
			got = "false " + status.Reason
		}
		if !known || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
	r, at := hooked(t, "")
	r.Hooks.Status = nil
	if _, known, err := r.status(t.Context(), at); known || err != nil {
		t.Errorf("without a hook: %v, %v", known, err)
	}
}

// TestMayLeaveByStatus: all replicas are ready, and the hook status says whether the balancer has them in rotation.
// What it does not say counts against leaving.
func TestMayLeaveByStatus(t *testing.T) {
	yes, no, fails := true, false, errors.New("exit status 1")
	in, out, lost, none := outAtBalancer(hookStatus{InRotation: &yes}, true, nil),
		outAtBalancer(hookStatus{InRotation: &no, Reason: "disabled"}, true, nil),
		outAtBalancer(hookStatus{}, true, fails), outAtBalancer(hookStatus{}, false, nil)
	if in != nil || none != nil || !errors.Is(out, errOut) || !errors.Is(lost, targets.ErrUnknown) ||
		!errors.Is(lost, fails) {
		t.Fatalf("%v, %v, %v, %v", in, none, out, lost)
	}
	r, at := hooked(t, "")
	r.Hosts = map[string]string{at.Name: at.Address}
	for name, c := range map[string]struct {
		leaver, other error
		how           targets.Leaving
		refused, last bool
	}{
		"both are in":                       {in, in, targets.ToReturn, false, false},
		"the other one is out":              {in, out, targets.ToReturn, true, true},
		"the other one is not known":        {in, lost, targets.ForGood, true, true},
		"it is out":                         {out, out, targets.ForGood, false, false},
		"it is not known":                   {lost, in, targets.ForGood, false, false},
		"it is not known, the other is out": {lost, out, targets.AsLast, true, true},
		"there is no hook":                  {none, none, targets.ToReturn, false, false},
	} {
		replica := targets.Replica{Name: "x"}
		seen := targets.Observed{
			"cp1": {Name: "cp1", Replica: replica, NotReady: c.leaver},
			"cp2": {Name: "cp2", Replica: replica, NotReady: c.other},
		}
		err := r.MayLeave(t.Context(), "cp1", seen, c.how, r.outOfRotation)
		var refusal *endpoint.Refusal
		if errors.As(err, &refusal) != c.refused || c.refused && refusal.LastServing() != c.last {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHooksUnknown: where a machine records that there are hooks, nothing changes the rotation without them.
func TestHooksUnknown(t *testing.T) {
	r := New(targets.NewObserver(nowhere, nil)).For(endpoint.Registration{
		Kind: endpoint.External, Address: "api.example.com", Port: 443, HasHooks: true,
	})
	for what, do := range map[string]func() error{
		"registered":           func() error { return r.Register(t.Context(), "cp1", "10.0.0.11:6443") },
		"drained":              func() error { return r.Drain(t.Context(), "cp1") },
		"returned to rotation": func() error { return r.Undrain(t.Context(), "cp1") },
		"deregistered":         func() error { return r.Deregister(t.Context(), "cp1") },
	} {
		if err := do(); !errors.Is(err, errHooksUnknown) || !strings.Contains(err.Error(), "Replica cp1 not "+what) {
			t.Errorf("the replica is %s: %v", what, err)
		}
	}
}
