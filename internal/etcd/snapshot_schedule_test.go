package etcd

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// scheduledAt returns a member with scheduled snapshots.
func scheduledAt(t *testing.T) Spec {
	s := specAt(t, "10.0.0.11")
	s.Bundle = etcdtest.Bundle(t)
	s.Snapshots = &snapshot.Settings{Schedule: "Mon..Fri 02:30 Europe/Berlin", Kept: 7, Upload: "rclone copyto \"$SNAPSHOT\" \\\n  'b:x'\n", EnvironmentFile: "/etc/rclone.env"}
	return s
}

func TestRenderSnapshots(t *testing.T) {
	s := scheduledAt(t)
	s.Bundle.ClusterName, s.DataDir = "it's $prod", "/data/etcd"
	contents := map[string]string{}
	for _, file := range s.snapshotMember().Files() {
		contents[file.Path] = string(file.Content)
	}
	for at, wants := range map[string][]string{
		snapshot.TimerPath:   {"\n[Timer]\nOnCalendar=Mon..Fri 02:30 Europe/Berlin\nAccuracySec=1s\nPersistent=yes\n\n[Install]\nWantedBy=timers.target\n"},
		snapshot.ServicePath: {"\nType=oneshot\nUser=root\nEnvironmentFile=/etc/rclone.env\nExecStart=/bin/sh -eu /etc/etcd/snapshot.sh\nTimeoutStartSec=1h\n", "\nIOSchedulingClass=idle\n", "\nProtectSystem=full\n"},
		snapshot.ScriptPath:  {"\ncluster='it'\"'\"'s $prod'\ndir=/data/etcd-archive/scheduled\nendpoint=https://10.0.0.11:2379\nkept=7\nmember=cp1\n", "\nupload=/etc/etcd/snapshot-upload.sh\n", string(snapshot.SaveScript)},
		snapshot.UploadPath:  {s.Snapshots.Upload},
	} {
		for _, want := range wants {
			if !strings.Contains(contents[at], want) {
				t.Errorf("%s lacks %q:\n%s", at, want, contents[at])
			}
		}
	}
	if contents[snapshot.UploadPath] != s.Snapshots.Upload {
		t.Errorf("the upload is %q", contents[snapshot.UploadPath])
	}
	if strings.Contains(contents[snapshot.TimerPath], "RandomizedDelay") {
		t.Error("machines that ask at different times who leads save none or two")
	}
	questions, values := s.snapshotMember().Questions()
	for _, script := range []string{
		contents[snapshot.ScriptPath], whole(action{Verb: doSnapshot, Save: snapshot.Save{Dir: "/a b", File: "x.db", Tools: "/t"}}), whole(action{Verb: doClear, DataDir: "/d"}),
		whole(action{Verb: doInspect, DataDir: "/d", Tools: "/t"}), string(host.Assignments(values) + questions),
	} {
		check := exec.CommandContext(t.Context(), "sh", "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, script)
		}
	}
	s.Snapshots.Upload, s.Snapshots.EnvironmentFile = "", ""
	if files := s.snapshotMember().Files(); len(files) != 3 || strings.Contains(string(files[1].Content), "EnvironmentFile") || !strings.Contains(string(files[2].Content), "\nupload=''\n") {
		t.Errorf("without an upload: %d files\n%s", len(files), files[2].Content)
	}
}

// TestDigestOfSnapshots verifies that a member without scheduled snapshots has the digest
// that it had before they existed, whatever others have installed on the machine.
func TestDigestOfSnapshots(t *testing.T) {
	s := scheduledAt(t)
	scheduled := WantedDigest(s)
	if got := configDigest(memberOn(t, s).facts.Files); got != scheduled {
		t.Errorf("digest %s as found, %s as wanted", got, scheduled)
	}
	s.Snapshots = nil
	f := memberOn(t, s)
	sum := sha256.New()
	for _, file := range fixedFiles(s) {
		fmt.Fprintf(sum, "%s %o %s\n", file.Path, file.Mode, digest(file.Content))
	}
	if plain := hex.EncodeToString(sum.Sum(nil)); WantedDigest(s) != plain || plain == scheduled {
		t.Errorf("digest %s, want %s", WantedDigest(s), plain)
	}
	f.facts.Files[snapshot.TimerPath] = host.FileState{Content: "[Timer]\n", Mode: 0o644, SHA256: "x"}
	if got := configDigest(f.facts.Files); got != WantedDigest(s) {
		t.Error("somebody else's timer changes the digest")
	}
	if words := drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("somebody else's timer: %v", words)
	}
}

// TestSnapshotDrift verifies that differences are reported, and repaired without a
// restart.
func TestSnapshotDrift(t *testing.T) {
	s := scheduledAt(t)
	none, other, bare := s, s, s
	none.Snapshots = nil
	other.Snapshots = &snapshot.Settings{Schedule: "daily", Kept: 7, Upload: s.Snapshots.Upload, EnvironmentFile: "/etc/rclone.env"}
	bare.Snapshots = &snapshot.Settings{Schedule: s.Snapshots.Schedule, Kept: 7, EnvironmentFile: "/etc/rclone.env"}
	unit := func(name string, change func(*host.UnitState)) func(observed) {
		return func(f observed) {
			u := f.facts.Units[name]
			change(&u)
			f.facts.Units[name] = u
		}
	}
	file := func(at string, change func(*host.FileState)) func(observed) {
		return func(f observed) {
			state := f.facts.Files[at]
			change(&state)
			f.facts.Files[at] = state
		}
	}
	for name, c := range map[string]struct {
		on, wanted Spec
		change     func(observed)
		words      string
		files      []string // written again
		gone       []string
		timer      snapshot.TimerAction
	}{
		"nothing":  {on: s, wanted: s},
		"stopped":  {s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.Active = "inactive" }), "etcd-snapshot.timer is inactive, wanted active", nil, nil, snapshot.TimerOn},
		"disabled": {s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.Enabled = "disabled" }), "etcd-snapshot.timer is disabled, wanted enabled", nil, nil, snapshot.TimerOn},
		"masked": {s, s, func(f observed) {
			f.facts.Units[snapshot.Timer] = host.UnitState{Load: "masked", Active: "inactive", Enabled: "masked"}
			f.facts.Files[snapshot.TimerPath] = host.FileState{Mode: fs.ModeSymlink | 0o777, Owner: "root", SHA256: digest(nil)}
		}, "etcd-snapshot.timer is masked", []string{snapshot.TimerPath}, nil, snapshot.TimerOn},
		"not read again":        {s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.NeedReload = true }), "etcd-snapshot.timer changed on disk after systemd loaded it", []string{snapshot.TimerPath}, nil, snapshot.TimerOn},
		"a script that is gone": {s, s, func(f observed) { delete(f.facts.Files, snapshot.ScriptPath) }, "/etc/etcd/snapshot.sh is missing", []string{snapshot.ScriptPath}, nil, snapshot.TimerLeft},
		"an edited upload":      {s, s, file(snapshot.UploadPath, func(f *host.FileState) { f.Content, f.SHA256 = "true", digest([]byte("true")) }), "/etc/etcd/snapshot-upload.sh was edited manually", []string{snapshot.UploadPath}, nil, snapshot.TimerLeft},
		"an open upload":        {s, s, file(snapshot.UploadPath, func(f *host.FileState) { f.Mode = 0o644 }), "/etc/etcd/snapshot-upload.sh has mode 0644 and owner root, wanted 0600 and root", []string{snapshot.UploadPath}, nil, snapshot.TimerLeft},
		"somebody's upload":     {s, s, file(snapshot.UploadPath, func(f *host.FileState) { f.Owner = "joe" }), "/etc/etcd/snapshot-upload.sh has mode 0600 and owner joe, wanted 0600 and root", []string{snapshot.UploadPath}, nil, snapshot.TimerLeft},
		"another schedule": {on: s, wanted: other, words: snapshot.TimerPath + ` has the line "OnCalendar=Mon..Fri 02:30 Europe/Berlin", which was not written by the provider` + "\ncp1: " +
			snapshot.TimerPath + ` lacks the line "OnCalendar=daily"`, files: []string{snapshot.TimerPath}, timer: snapshot.TimerOn},
		"no upload any more": {on: s, wanted: bare, words: snapshot.ScriptPath + " was edited manually\ncp1: " + snapshot.UploadPath + " exists, wanted none", files: []string{snapshot.ScriptPath}, gone: []string{snapshot.UploadPath}},
		"none any more": {on: s, wanted: none, words: strings.Join([]string{
			snapshot.UploadPath + " exists, wanted none", snapshot.ScriptPath + " exists, wanted none", snapshot.ServicePath + " exists, wanted none", snapshot.TimerPath + " exists, wanted none",
		}, "\ncp1: "), gone: append(slices.Clone(snapshot.Paths), snapshot.TimerLink.Path, path.Dir(snapshot.TimerLink.Path)), timer: snapshot.TimerOff},
		"none any more, beside somebody's timer": {s, none, file(snapshot.TimerPath, func(f *host.FileState) { f.Content = "[Timer]\n" }), strings.Join([]string{
			snapshot.UploadPath + " exists, wanted none", snapshot.ScriptPath + " exists, wanted none", snapshot.ServicePath + " exists, wanted none",
		}, "\ncp1: "), nil, []string{snapshot.UploadPath, snapshot.ScriptPath, snapshot.ServicePath}, snapshot.TimerLeft},
		"a timer that outlived its file": {none, none, unit(snapshot.Timer, func(u *host.UnitState) { u.Load, u.Active = "not-found", "active" }), "etcd-snapshot.timer is active, wanted none", nil, []string{snapshot.TimerLink.Path, path.Dir(snapshot.TimerLink.Path)}, snapshot.TimerOff},
		"never any": {on: none, wanted: s, words: strings.Join([]string{
			snapshot.TimerPath + " is missing", snapshot.ServicePath + " is missing", snapshot.ScriptPath + " is missing", snapshot.UploadPath + " is missing", "etcd-snapshot.timer is missing, wanted active", "etcd-snapshot.timer is missing, wanted enabled",
		}, "\ncp1: "), files: []string{snapshot.TimerPath, snapshot.ServicePath, snapshot.ScriptPath, snapshot.UploadPath}, timer: snapshot.TimerOn},
	} {
		t.Run(name, func(t *testing.T) {
			f := memberOn(t, c.on)
			if c.change != nil {
				c.change(f)
			}
			want := ""
			if c.words != "" {
				want = "cp1: " + c.words
			}
			if words := strings.Join(drift(c.wanted, f, nil, time.Now()), "\n"); words != want {
				t.Errorf("drift is\n%s\nwant\n%s", words, want)
			}
			r, err := repairs(c.wanted, f, nil, time.Now())
			var files []string
			for _, file := range r.Change.Files {
				files = append(files, file.Path)
			}
			if err != nil || r.Restart != "" || r.Timer != c.timer || !slices.Equal(files, c.files) || !slices.Equal(r.Change.Remove, c.gone) || r.needed() != (c.words != "") {
				t.Errorf("repair: restart %q, timer %d, files %v, gone %v (%v)", r.Restart, r.Timer, files, r.Change.Remove, err)
			}
		})
	}
}

// TestSnapshotFaults verifies that what a machine cannot use is refused where it would be
// written, and does not keep existing files from being repaired.
func TestSnapshotFaults(t *testing.T) {
	s := scheduledAt(t)
	none := s
	none.Snapshots = nil
	complains := func(f *observed) { f.facts.Output = snapshot.BadCalendar + "\n" + snapshot.NoEnvironment + "\n" }
	put := func(path string) func(*observed) {
		return func(f *observed) { f.facts.Files[path] = host.FileState{Content: "x"} }
	}
	for name, c := range map[string]struct {
		on, wanted Spec
		change     func(*observed)
		want       string
	}{
		"all is well":                      {none, s, func(*observed) {}, ""},
		"not usable":                       {none, s, complains, `rejects the schedule "Mon..Fri 02:30 Europe/Berlin" of snapshots (run systemd-analyze calendar 'Mon..Fri 02:30 Europe/Berlin' for the reason); environment_file /etc/rclone.env of snapshots does not exist`},
		"not usable any more":              {s, s, complains, ""},
		"somebody's timer":                 {none, s, put(snapshot.TimerPath), snapshot.TimerPath + " exists and was not written by the provider"},
		"somebody's script":                {none, s, put(snapshot.ScriptPath), snapshot.ScriptPath + " exists and was not written by the provider"},
		"somebody's upload":                {none, s, put(snapshot.UploadPath), snapshot.UploadPath + " exists and was not written by the provider"},
		"an edited upload beside our unit": {s, s, put(snapshot.UploadPath), ""},
		"somebody's timer, and none of us": {none, none, put(snapshot.TimerPath), ""},
	} {
		f := memberOn(t, c.on)
		c.change(&f)
		if got := strings.Join(c.wanted.snapshotMember().Problems(f.facts), "; "); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCreateWithSnapshots verifies that a member is created with its timer, that a member
// without one has none of an earlier member, and that a destroyed member leaves none.
func TestCreateWithSnapshots(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	s := specs["cp1"]
	s.Snapshots = &snapshot.Settings{Schedule: "hourly", Kept: 1, Upload: "true"}
	specs["cp1"] = s
	f.create(specs, "cp1")
	if m := f.machine("cp1"); !m.timer || string(m.files[snapshot.UploadPath].Content) != "true" {
		t.Errorf("the timer runs: %v", m.timer)
	}
	status, err := f.clusters.Read(f.context(), s)
	if err != nil || len(status.Drift) > 0 || status.ConfigDigest != WantedDigest(s) {
		t.Errorf("read as %+v, %v", status, err)
	}
	starts := f.machine("cp1").starts
	s.Snapshots = nil
	status, err = f.clusters.Update(f.context(), s)
	if m := f.machine("cp1"); err != nil || len(status.Drift) > 0 || m.timer || m.starts != starts || len(m.files[snapshot.TimerPath].Content) > 0 {
		t.Errorf("without: %v, %v, the timer runs: %v, %d starts", err, status.Drift, m.timer, m.starts-starts)
	}
	if err := f.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine("cp1").wantClean()
}
