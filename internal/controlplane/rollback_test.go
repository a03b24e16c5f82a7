package controlplane

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func rollbackRecordOf(s Spec) machine.RollbackRecord {
	b := machine.RollbackRecord{
		Version: s.Version, Port: s.APIPort(), Etcd: s.EtcdURLs, Generations: s.Bundle.Generations(),
		Definitions: map[string]string{},
	}
	for _, c := range component.Of(s.Replica) {
		b.Definitions[c.Name] = string(unit.File(c).Content)
	}
	return b
}

func TestReadRollbackRecord(t *testing.T) {
	b := rollbackRecordOf(testSpec(t))
	read := machine.ReadRollbackRecord(string(b.File().Content))
	if read == nil || read.Version != b.Version || read.Port != b.Port || !slices.Equal(read.Etcd, b.Etcd) ||
		!maps.Equal(read.Definitions, b.Definitions) {
		t.Errorf("%+v, want %+v", read, b)
	}
	delete(b.Definitions, release.Scheduler)
	for _, text := range []string{"", "{", "{}", string(b.File().Content)} {
		if read := machine.ReadRollbackRecord(text); read != nil {
			t.Errorf("%q gives %+v", text, read)
		}
	}
}

// TestRollbackTarget: if the health of a machine cannot be probed, only the rollback record of an
// earlier change is a target, and only at the same stage of every rotation.
func TestRollbackTarget(t *testing.T) {
	s := unreachable(t)
	f := converged(t, s)
	if way := rollbackTarget(t.Context(), s, f); way != nil {
		t.Errorf("back to what was not ready: %+v", way)
	}
	left := rollbackRecordOf(s)
	f.Rollback = &left
	if way := rollbackTarget(t.Context(), s, f); way != f.Rollback {
		t.Errorf("a change that was cut off: %+v", way)
	}
	s.Bundle = cptest.At(t, s.Bundle, pki.EncryptionPart, 1)
	if way := rollbackTarget(t.Context(), s, f); way != nil {
		t.Errorf("a stage is taken back: %+v", way)
	}
	f.Record.Generations = s.Bundle.Generations()
	if way := rollbackTarget(t.Context(), s, f); way != nil {
		t.Errorf("back to definitions that do not know the encryption: %+v", way)
	}
}

// TestChooseTarget: a mix of two versions is ready as well, but is not what an upgrade that was cut off has found.
func TestChooseTarget(t *testing.T) {
	s := testSpec(t)
	ready, recorded := rollbackRecordOf(s), rollbackRecordOf(s)
	older := func(names ...string) func(*machine.Observed) {
		return func(f *machine.Observed) {
			for _, name := range names {
				f.Executables[name] = component.Artifact("1.35.4", name).Path()
			}
		}
	}
	for name, c := range map[string]struct {
		alter           func(*machine.Observed)
		ready, recorded *machine.RollbackRecord
		want            *machine.RollbackRecord
	}{
		"nothing is ready, no earlier change": {older(), nil, nil, nil},
		"nothing is ready":                    {older(), nil, &recorded, &recorded},
		"ready":                               {older(), &ready, nil, &ready},
		"ready, after a change was cut off":   {older(), &ready, &recorded, &ready},
		"cut off after the API server": {
			older(release.ControllerManager, release.Scheduler), &ready, &recorded, &recorded,
		},
		"cut off before the last one":      {older(release.Scheduler), &ready, &recorded, &recorded},
		"a mix without an earlier change":  {older(release.Scheduler), &ready, nil, &ready},
		"all of the older version is left": {older(release.Components()...), &ready, &recorded, &ready},
	} {
		f := converged(t, s)
		c.alter(&f)
		if got := chooseTarget(f, c.ready, c.recorded); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRunsItsRecord: what a process has not read, or what is not recorded, cannot be restored.
func TestRunsItsRecord(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(*machine.Observed)
		want  bool
	}{
		"as it was made":      {func(*machine.Observed) {}, true},
		"port 1":              {func(f *machine.Observed) { f.Record.Port = 1 }, true},
		"no port is recorded": {func(f *machine.Observed) { f.Record.Port = 0 }, false},
		"a file was replaced": {func(f *machine.Observed) { edit(f, component.SAPub, "x") }, false},
		"a user's file was edited": {func(f *machine.Observed) {
			edit(f, component.ConfigFilePath("webhook.conf"), "x")
		}, false},
	} {
		f := converged(t, withFiles(t))
		c.alter(&f)
		if got := runsItsRecord(f); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDecideRollback: a rollback results in exactly the previous machine.
func TestDecideRollback(t *testing.T) {
	s := testSpec(t)
	was := converged(t, s)
	next := s
	next.Version, next.EtcdURLs = "1.37.2", []string{"https://10.0.0.12:2379"}
	next.ExtraArgs = cptest.Args(release.Scheduler, "v", "4")
	f := converged(t, next)
	previous := rollbackRecordOf(s)
	previous.Settings = map[string]string{}
	for _, file := range component.SettingFiles(s.Replica) {
		previous.Settings[file.Path] = string(file.Content)
	}
	old := next
	old.Previous = &component.Previous{Definitions: previous.Definitions, Settings: previous.Settings}
	old.Version, old.Port, old.EtcdURLs = s.Version, s.APIPort(), s.EtcdURLs
	d, err := decide(old.Replica, f, cptest.Now)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.restart, release.Components()) {
		t.Errorf("restarted %q", d.restart)
	}
	after := f.Digests()
	for _, file := range d.files {
		after[file.Path] = machine.Digest(file.Content)
	}
	for _, name := range release.Components() {
		if after[unit.Path(name)] != was.Facts.Files[unit.Path(name)].SHA256 {
			t.Errorf("%s is not as it was", unit.Path(name))
		}
	}
	for _, file := range d.files {
		rec, err := machine.ReadRecord(string(file.Content))
		if file.Path == machine.RecordPath && (err != nil || !rec.Matches(s.Replica) ||
			rec.Issued[component.APIServerCert] != after[component.APIServerCert]) {
			t.Errorf("the record is %+v, %v", rec, err)
		}
	}
}

func TestRollbackProblem(t *testing.T) {
	s := testSpec(t)
	s.Version = "1.37.2"
	failure := &problem.Problem{Summary: "x", Cause: "kube-scheduler ended 3 times", Detail: "new log\n", Err: errNotReady}
	b := machine.RollbackRecord{Version: "1.36.3"}
	for _, c := range []struct {
		name string
		undo error
		want []string
	}{
		{
			"done", nil,
			[]string{
				"not upgraded to 1.37.2: rolled back to 1.36.3", "Cause: kube-scheduler ended 3 times\n",
				"serves 1.36.3 in rotation again", "new log",
			},
		},
		{
			"failed as well", &problem.Problem{Cause: "kube-apiserver does not answer", Detail: "old log"},
			[]string{
				"and not rolled back", "ended 3 times; rolling back to 1.36.3 failed as well: kube-apiserver does not answer",
				"left out of rotation", "new log", "old log",
			},
		},
		{"unreachable", host.ErrUnreachable, []string{"failed as well: " + host.ErrUnreachable.Error()}},
	} {
		err := rollbackProblem(s, b, failure, c.undo, true)
		for _, want := range c.want {
			if !strings.Contains(cptest.Text(err), want) {
				t.Errorf("%s: %q is not in %v", c.name, want, err)
			}
		}
		if !errors.Is(err, errNotReady) || problem.Untouched(err) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRollbackOfAMove: a replica that is rolled back leaves no endpoint, and its record says so. Otherwise the next
// plan would not be empty.
func TestRollbackOfAMove(t *testing.T) {
	s := testSpec(t)
	b := rollbackRecordOf(s)
	former := json.RawMessage(`{"address":"10.0.0.100"}`)
	s.Registration, s.Leaves = json.RawMessage(`{"address":"10.0.0.101"}`), former
	s.Before = &InRotation{At: func(r component.Replica) component.Replica {
		r.Registration = former
		return r
	}}
	if was := asBefore(s, b); was.Leaves != nil || string(was.Registration) != string(former) {
		t.Errorf("rolled back to %s, and it leaves %s", was.Registration, was.Leaves)
	}
}
