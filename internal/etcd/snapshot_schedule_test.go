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

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestValidateSchedules(t *testing.T) {
	for schedule, want := range map[string]string{
		"hourly": "", "daily": "", "daily UTC": "", "weekly Europe/Berlin": "", "*-*-* 02:30:00": "", "*-*-* 00/6:00": "", "*:0/15": "", "Mon..Fri 02:30 Europe/Berlin": "",
		"Sat,Sun *-*-* 04:00": "", "Mon *-*~07/1": "", "02:30 America/Argentina/Buenos_Aires": "", "mon": "",
		"": "not a systemd calendar expression", "hourley": "not a systemd calendar expression", "Hourly": "not a systemd calendar expression", "0 2 * * *": "not a systemd calendar expression", "hourly\n": "not a systemd calendar expression",
		"hourly\nOnBootSec=1": "not a systemd calendar expression", "every day": "not a systemd calendar expression", "02:30  UTC": "not a systemd calendar expression", " hourly": "not a systemd calendar expression",
		"hourly 02:30": "not a systemd calendar expression", "1h": "not a systemd calendar expression", "02:30 %h/x": "not a systemd calendar expression",
	} {
		wantError(t, "schedule "+schedule, ValidateSchedule(schedule), want)
	}
	for upload, want := range map[string]string{
		"cp \"$SNAPSHOT\" /backup/": "", "a\nb": "", "": "empty", " \n": "empty", "a\x00b": "NUL", strings.Repeat("x", longestUpload+1): "at most",
	} {
		wantError(t, "upload "+upload[:min(len(upload), 20)], ValidateUpload(upload), want)
	}
	for file, want := range map[string]string{
		"/etc/rclone.env": "", "/etc/a-b/c_d.env": "", "etc/rclone.env": "absolute", "/etc/../x": "absolute", "/": "absolute", "/etc/a b": "characters", "/etc/%h": "characters", "": "absolute",
	} {
		wantError(t, "environment file "+file, ValidateEnvironmentFile(file), want)
	}
}

// scheduledAt returns a member with scheduled snapshots.
func scheduledAt(t *testing.T) Spec {
	s := specAt(t, "10.0.0.11")
	s.Bundle = newBundle(t)
	s.Snapshots = &Snapshots{Schedule: "Mon..Fri 02:30 Europe/Berlin", Kept: 7, Upload: "rclone copyto \"$SNAPSHOT\" \\\n  'b:x'\n", EnvironmentFile: "/etc/rclone.env"}
	return s
}

func TestRenderSnapshots(t *testing.T) {
	s := scheduledAt(t)
	s.Bundle.ClusterName, s.DataDir = "it's $prod", "/data/etcd"
	contents := map[string]string{}
	for _, file := range snapshotFiles(s) {
		contents[file.Path] = string(file.Content)
	}
	for at, wants := range map[string][]string{
		snapshotTimerPath:   {"\n[Timer]\nOnCalendar=Mon..Fri 02:30 Europe/Berlin\nAccuracySec=1s\nPersistent=yes\n\n[Install]\nWantedBy=timers.target\n"},
		snapshotServicePath: {"\nType=oneshot\nUser=root\nEnvironmentFile=/etc/rclone.env\nExecStart=/bin/sh -eu /etc/etcd/snapshot.sh\nTimeoutStartSec=1h\n", "\nIOSchedulingClass=idle\n", "\nProtectSystem=full\n"},
		snapshotScriptPath:  {"\ncluster='it'\"'\"'s $prod'\ndir=/data/etcd-archive/scheduled\nendpoint=https://10.0.0.11:2379\nkept=7\nmember=cp1\n", "\nupload=/etc/etcd/snapshot-upload.sh\n", string(saveScript)},
		snapshotUploadPath:  {s.Snapshots.Upload},
	} {
		for _, want := range wants {
			if !strings.Contains(contents[at], want) {
				t.Errorf("%s lacks %q:\n%s", at, want, contents[at])
			}
		}
	}
	if contents[snapshotUploadPath] != s.Snapshots.Upload {
		t.Errorf("the upload is %q", contents[snapshotUploadPath])
	}
	if strings.Contains(contents[snapshotTimerPath], "RandomizedDelay") {
		t.Error("machines that ask at different times who leads save none or two")
	}
	questions, values := snapshotQuestions(s)
	for _, script := range []string{
		contents[snapshotScriptPath], whole(action{Verb: doSnapshot, Archive: "/a b", File: "x.db", Tools: "/t"}), whole(action{Verb: doClear, DataDir: "/d"}),
		whole(action{Verb: doInspect, DataDir: "/d", Tools: "/t"}), string(host.Assignments(values) + questions),
	} {
		check := exec.CommandContext(t.Context(), "sh", "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, script)
		}
	}
	s.Snapshots.Upload, s.Snapshots.EnvironmentFile = "", ""
	if files := snapshotFiles(s); len(files) != 3 || strings.Contains(string(files[1].Content), "EnvironmentFile") || !strings.Contains(string(files[2].Content), "\nupload=''\n") {
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
	f.facts.Files[snapshotTimerPath] = host.FileState{Content: "[Timer]\n", Mode: 0o644, SHA256: "x"}
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
	other.Snapshots = &Snapshots{Schedule: "daily", Kept: 7, Upload: s.Snapshots.Upload, EnvironmentFile: "/etc/rclone.env"}
	bare.Snapshots = &Snapshots{Schedule: s.Snapshots.Schedule, Kept: 7, EnvironmentFile: "/etc/rclone.env"}
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
		timer      timerVerb
	}{
		"nothing":  {on: s, wanted: s},
		"stopped":  {s, s, unit(snapshotTimer, func(u *host.UnitState) { u.Active = "inactive" }), "etcd-snapshot.timer is inactive, wanted active", nil, nil, timerOn},
		"disabled": {s, s, unit(snapshotTimer, func(u *host.UnitState) { u.Enabled = "disabled" }), "etcd-snapshot.timer is disabled, wanted enabled", nil, nil, timerOn},
		"masked": {s, s, func(f observed) {
			f.facts.Units[snapshotTimer] = host.UnitState{Load: "masked", Active: "inactive", Enabled: "masked"}
			f.facts.Files[snapshotTimerPath] = host.FileState{Mode: fs.ModeSymlink | 0o777, Owner: "root", SHA256: digest(nil)}
		}, "etcd-snapshot.timer is masked", []string{snapshotTimerPath}, nil, timerOn},
		"not read again":        {s, s, unit(snapshotTimer, func(u *host.UnitState) { u.NeedReload = true }), "etcd-snapshot.timer changed on disk after systemd loaded it", []string{snapshotTimerPath}, nil, timerOn},
		"a script that is gone": {s, s, func(f observed) { delete(f.facts.Files, snapshotScriptPath) }, "/etc/etcd/snapshot.sh is missing", []string{snapshotScriptPath}, nil, timerLeft},
		"an edited upload":      {s, s, file(snapshotUploadPath, func(f *host.FileState) { f.Content, f.SHA256 = "true", digest([]byte("true")) }), "/etc/etcd/snapshot-upload.sh was edited manually", []string{snapshotUploadPath}, nil, timerLeft},
		"an open upload":        {s, s, file(snapshotUploadPath, func(f *host.FileState) { f.Mode = 0o644 }), "/etc/etcd/snapshot-upload.sh has mode 0644 and owner root, wanted 0600 and root", []string{snapshotUploadPath}, nil, timerLeft},
		"somebody's upload":     {s, s, file(snapshotUploadPath, func(f *host.FileState) { f.Owner = "joe" }), "/etc/etcd/snapshot-upload.sh has mode 0600 and owner joe, wanted 0600 and root", []string{snapshotUploadPath}, nil, timerLeft},
		"another schedule": {on: s, wanted: other, words: snapshotTimerPath + ` has the line "OnCalendar=Mon..Fri 02:30 Europe/Berlin", which was not written by the provider` + "\ncp1: " +
			snapshotTimerPath + ` lacks the line "OnCalendar=daily"`, files: []string{snapshotTimerPath}, timer: timerOn},
		"no upload any more": {on: s, wanted: bare, words: snapshotScriptPath + " was edited manually\ncp1: " + snapshotUploadPath + " exists, wanted none", files: []string{snapshotScriptPath}, gone: []string{snapshotUploadPath}},
		"none any more": {on: s, wanted: none, words: strings.Join([]string{
			snapshotUploadPath + " exists, wanted none", snapshotScriptPath + " exists, wanted none", snapshotServicePath + " exists, wanted none", snapshotTimerPath + " exists, wanted none",
		}, "\ncp1: "), gone: append(slices.Clone(snapshotPaths), snapshotLink.Path, path.Dir(snapshotLink.Path)), timer: timerOff},
		"none any more, beside somebody's timer": {s, none, file(snapshotTimerPath, func(f *host.FileState) { f.Content = "[Timer]\n" }), strings.Join([]string{
			snapshotUploadPath + " exists, wanted none", snapshotScriptPath + " exists, wanted none", snapshotServicePath + " exists, wanted none",
		}, "\ncp1: "), nil, []string{snapshotUploadPath, snapshotScriptPath, snapshotServicePath}, timerLeft},
		"a timer that outlived its file": {none, none, unit(snapshotTimer, func(u *host.UnitState) { u.Load, u.Active = "not-found", "active" }), "etcd-snapshot.timer is active, wanted none", nil, []string{snapshotLink.Path, path.Dir(snapshotLink.Path)}, timerOff},
		"never any": {on: none, wanted: s, words: strings.Join([]string{
			snapshotTimerPath + " is missing", snapshotServicePath + " is missing", snapshotScriptPath + " is missing", snapshotUploadPath + " is missing", "etcd-snapshot.timer is missing, wanted active", "etcd-snapshot.timer is missing, wanted enabled",
		}, "\ncp1: "), files: []string{snapshotTimerPath, snapshotServicePath, snapshotScriptPath, snapshotUploadPath}, timer: timerOn},
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
	complains := func(f *observed) { f.facts.Output = badCalendar + "\n" + noEnvironment + "\n" }
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
		"somebody's timer":                 {none, s, put(snapshotTimerPath), snapshotTimerPath + " exists and was not written by the provider"},
		"somebody's script":                {none, s, put(snapshotScriptPath), snapshotScriptPath + " exists and was not written by the provider"},
		"somebody's upload":                {none, s, put(snapshotUploadPath), snapshotUploadPath + " exists and was not written by the provider"},
		"an edited upload beside our unit": {s, s, put(snapshotUploadPath), ""},
		"somebody's timer, and none of us": {none, none, put(snapshotTimerPath), ""},
	} {
		f := memberOn(t, c.on)
		c.change(&f)
		if got := strings.Join(snapshotProblems(c.wanted, f), "; "); got == "" != (c.want == "") || !strings.Contains(got, c.want) {
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
	s.Snapshots = &Snapshots{Schedule: "hourly", Kept: 1, Upload: "true"}
	specs["cp1"] = s
	f.create(specs, "cp1")
	if m := f.machine("cp1"); !m.timer || string(m.files[snapshotUploadPath].Content) != "true" {
		t.Errorf("the timer runs: %v", m.timer)
	}
	status, err := f.clusters.Read(f.context(), s)
	if err != nil || len(status.Drift) > 0 || status.ConfigDigest != WantedDigest(s) {
		t.Errorf("read as %+v, %v", status, err)
	}
	starts := f.machine("cp1").starts
	s.Snapshots = nil
	status, err = f.clusters.Update(f.context(), s)
	if m := f.machine("cp1"); err != nil || len(status.Drift) > 0 || m.timer || m.starts != starts || len(m.files[snapshotTimerPath].Content) > 0 {
		t.Errorf("without: %v, %v, the timer runs: %v, %d starts", err, status.Drift, m.timer, m.starts-starts)
	}
	if err := f.clusters.Delete(f.context(), s, DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.machine("cp1").wantClean()
}
