package machine

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
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// scheduledAt returns a member with scheduled snapshots.
func scheduledAt(t *testing.T) Spec {
	s := specAt(t, "10.0.0.11")
	s.Bundle = etcdtest.Bundle(t)
	s.Snapshots = &snapshot.Settings{
		Schedule: "Mon..Fri 02:30 Europe/Berlin", Kept: 7,
		Upload: "rclone copyto \"$SNAPSHOT\" \\\n  'b:x'\n", EnvironmentFile: "/etc/rclone.env",
	}
	return s
}

func TestRenderSnapshots(t *testing.T) {
	s := scheduledAt(t)
	s.Bundle.ClusterName, s.DataDir = "it's $prod", "/data/etcd"
	contents := map[string]string{}
	for _, file := range s.SnapshotMember().Files() {
		contents[file.Path] = string(file.Content)
	}
	for at, wants := range map[string][]string{
		snapshot.TimerPath: {"\n[Timer]\nOnCalendar=Mon..Fri 02:30 " +
			"Europe/Berlin\nAccuracySec=1s\nPersistent=yes\n\n[Install]\nWantedBy=timers.target\n"},
		snapshot.ServicePath: {"\nType=oneshot\nUser=root\nEnvironmentFile=/etc/rclone.env\nExecStart=/bin/sh -eu " +
			"/etc/etcd/snapshot.sh\nTimeoutStartSec=1h\n", "\nIOSchedulingClass=idle\n", "\nProtectSystem=full\n"},
		snapshot.ScriptPath: {
			"\ncluster='it'\"'\"'s " +
				"$prod'\ndir=/data/etcd-archive/scheduled\nendpoint=https://10.0.0.11:2379\nkept=7\nmember=cp1\n",
			"\nupload=/etc/etcd/snapshot-upload.sh\n", string(snapshot.SaveScript),
		},
		snapshot.UploadPath: {s.Snapshots.Upload},
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
	questions, values := s.SnapshotMember().Questions()
	for _, script := range []string{
		contents[snapshot.ScriptPath],
		whole(Action{Verb: SaveSnapshot, Save: snapshot.Save{Dir: "/a b", File: "x.db", Tools: "/t"}}),
		whole(Action{Verb: Clear, DataDir: "/d"}),
		whole(Action{Verb: Inspect, DataDir: "/d", Tools: "/t"}), string(host.Assignments(values) + questions),
	} {
		check := exec.CommandContext(t.Context(), "sh", "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %s\n%s", err, out, script)
		}
	}
	s.Snapshots.Upload, s.Snapshots.EnvironmentFile = "", ""
	if files := s.SnapshotMember().Files(); len(files) != 3 || strings.Contains(string(files[1].Content),
		"EnvironmentFile") || !strings.Contains(string(files[2].Content), "\nupload=''\n") {
		t.Errorf("without an upload: %d files\n%s", len(files), files[2].Content)
	}
}

// TestDigestOfSnapshots verifies that a member without scheduled snapshots has the digest
// that it had before they existed, whatever others have installed on the machine.
func TestDigestOfSnapshots(t *testing.T) {
	s := scheduledAt(t)
	scheduled := WantedDigest(s)
	if got := ConfigDigest(establishedOn(t, s).Facts.Files); got != scheduled {
		t.Errorf("digest %s as found, %s as wanted", got, scheduled)
	}
	s.Snapshots = nil
	f := establishedOn(t, s)
	sum := sha256.New()
	for _, file := range FixedFiles(s) {
		fmt.Fprintf(sum, "%s %o %s\n", file.Path, file.Mode, Digest(file.Content))
	}
	if plain := hex.EncodeToString(sum.Sum(nil)); WantedDigest(s) != plain || plain == scheduled {
		t.Errorf("digest %s, want %s", WantedDigest(s), plain)
	}
	f.Facts.Files[snapshot.TimerPath] = host.FileState{Content: "[Timer]\n", Mode: 0o644, SHA256: "x"}
	if got := ConfigDigest(f.Facts.Files); got != WantedDigest(s) {
		t.Error("somebody else's timer changes the digest")
	}
	if words := Drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("somebody else's timer: %v", words)
	}
}

// TestTimersTogether: scheduled snapshots and the liveness probe share a directory, which a change
// names once; a machine that was just created shows no drift of them.
func TestTimersTogether(t *testing.T) {
	scheduled := scheduledAt(t)
	neither, both := scheduled, scheduled
	neither.Snapshots = nil
	both.LivenessProbe = true
	probed := neither
	probed.LivenessProbe = true
	all := []Spec{neither, scheduled, probed, both}
	for i, on := range all {
		for j, wanted := range all {
			f := establishedOn(t, on)
			f.Facts.Commands = map[string]string{"curl": "/usr/bin/curl"}
			if words := Drift(on, f, nil, time.Now()); len(words) > 0 {
				t.Errorf("%d: created with drift %q", i, words)
			}
			r, err := Repairs(wanted, f, nil, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if (i != j) != r.Needed() || r.Restart != "" {
				t.Errorf("from %d to %d: needed %v, restart %q", i, j, r.Needed(), r.Restart)
			}
			for _, change := range []host.Change{r.Change, createdBy(t, wanted)} {
				names := slices.Clone(change.Remove)
				for _, d := range change.Dirs {
					names = append(names, d.Path)
				}
				slices.Sort(names)
				if len(slices.Compact(slices.Clone(names))) != len(names) {
					t.Errorf("from %d to %d: named twice among %q", i, j, names)
				}
			}
		}
	}
}

// createdBy returns the change that creates a member on an empty machine.
func createdBy(t *testing.T, s Spec) host.Change {
	t.Helper()
	change, timers := NewMemberChange(s, Observed{}, Issued{}, ID{}, "")
	for _, job := range s.jobs() {
		if on := "systemctl restart " + job.Timer(); strings.Contains(string(timers), on) != (len(job.Files) > 0) {
			t.Errorf("%s: %q", job.Name, timers)
		}
	}
	return change
}

// TestSnapshotDrift verifies that differences are reported, and repaired without a
// restart.
func TestSnapshotDrift(t *testing.T) {
	s := scheduledAt(t)
	none, other, bare := s, s, s
	none.Snapshots = nil
	other.Snapshots = &snapshot.Settings{
		Schedule: "daily", Kept: 7, Upload: s.Snapshots.Upload,
		EnvironmentFile: "/etc/rclone.env",
	}
	bare.Snapshots = &snapshot.Settings{Schedule: s.Snapshots.Schedule, Kept: 7, EnvironmentFile: "/etc/rclone.env"}
	unit := func(name string, change func(*host.UnitState)) func(Observed) {
		return func(f Observed) {
			u := f.Facts.Units[name]
			change(&u)
			f.Facts.Units[name] = u
		}
	}
	file := func(at string, change func(*host.FileState)) func(Observed) {
		return func(f Observed) {
			state := f.Facts.Files[at]
			change(&state)
			f.Facts.Files[at] = state
		}
	}
	for name, c := range map[string]struct {
		on, wanted Spec
		change     func(Observed)
		words      string
		files      []string // written again
		gone       []string
		timer      timer.Action
	}{
		"nothing": {on: s, wanted: s},
		"stopped": {
			s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.Active = "inactive" }),
			"etcd-snapshot.timer is inactive, wanted active", nil, nil, timer.On,
		},
		"disabled": {
			s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.Enabled = "disabled" }),
			"etcd-snapshot.timer is disabled, wanted enabled", nil, nil, timer.On,
		},
		"masked": {s, s, func(f Observed) {
			f.Facts.Units[snapshot.Timer] = host.UnitState{Load: "masked", Active: "inactive", Enabled: "masked"}
			f.Facts.Files[snapshot.TimerPath] = host.FileState{Mode: fs.ModeSymlink | 0o777, Owner: "root", SHA256: Digest(nil)}
		}, "etcd-snapshot.timer is masked", []string{snapshot.TimerPath}, nil, timer.On},
		"not read again": {
			s, s, unit(snapshot.Timer, func(u *host.UnitState) { u.NeedReload = true }),
			"etcd-snapshot.timer changed on disk after systemd loaded it",
			[]string{snapshot.TimerPath},
			nil, timer.On,
		},
		"a script that is gone": {
			s, s, func(f Observed) { delete(f.Facts.Files, snapshot.ScriptPath) },
			"/etc/etcd/snapshot.sh is missing",
			[]string{snapshot.ScriptPath},
			nil, timer.Left,
		},
		"an edited upload": {s, s, file(snapshot.UploadPath, func(f *host.FileState) {
			f.Content, f.SHA256 = "true", Digest([]byte("true"))
		}), "/etc/etcd/snapshot-upload.sh was edited manually", []string{snapshot.UploadPath}, nil, timer.Left},
		"an open upload": {
			s, s, file(snapshot.UploadPath, func(f *host.FileState) { f.Mode = 0o644 }),
			"/etc/etcd/snapshot-upload.sh has mode 0644 and owner root, wanted 0600 and root",
			[]string{snapshot.UploadPath},
			nil, timer.Left,
		},
		"somebody's upload": {
			s, s, file(snapshot.UploadPath, func(f *host.FileState) { f.Owner = "joe" }),
			"/etc/etcd/snapshot-upload.sh has mode 0600 and owner joe, wanted 0600 and root",
			[]string{snapshot.UploadPath},
			nil,
			timer.Left,
		},
		"another schedule": {
			on: s, wanted: other, words: snapshot.TimerPath +
				` has the line "OnCalendar=Mon..Fri 02:30 Europe/Berlin", which was not written by the provider` + "\ncp1: " +
				snapshot.TimerPath + ` lacks the line "OnCalendar=daily"`, files: []string{snapshot.TimerPath},
			timer: timer.On,
		},
		"no upload any more": {
			on: s, wanted: bare, words: snapshot.ScriptPath + " was edited manually\ncp1: " +
				snapshot.UploadPath + " exists, wanted none", files: []string{snapshot.ScriptPath},
			gone: []string{snapshot.UploadPath},
		},
		"none any more": {
			on: s, wanted: none, words: strings.Join([]string{
				snapshot.UploadPath + " exists, wanted none", snapshot.ScriptPath + " exists, wanted none", snapshot.ServicePath +
					" exists, wanted none", snapshot.TimerPath + " exists, wanted none",
			}, "\ncp1: "), gone: append(without(snapshot.Paths, snapshot.StorePath), snapshot.Member{}.Job().Link().Path,
				path.Dir(snapshot.Member{}.Job().Link().Path)),
			timer: timer.Off,
		},
		"none any more, beside somebody's timer": {s, none, file(snapshot.TimerPath, func(f *host.FileState) {
			f.Content = "[Timer]\n"
		}), strings.Join([]string{
			snapshot.UploadPath + " exists, wanted none", snapshot.ScriptPath + " exists, wanted none", snapshot.ServicePath +
				" exists, wanted none",
		}, "\ncp1: "), nil, []string{snapshot.UploadPath, snapshot.ScriptPath, snapshot.ServicePath}, timer.Left},
		"a timer that outlived its file": {
			none, none, unit(snapshot.Timer, func(u *host.UnitState) {
				u.Load, u.Active = "not-found", "active"
			}), "etcd-snapshot.timer is active, wanted none", nil,
			[]string{snapshot.Member{}.Job().Link().Path, path.Dir(snapshot.Member{}.Job().Link().Path)},
			timer.Off,
		},
		"never any": {
			on: none, wanted: s, words: strings.Join([]string{
				snapshot.TimerPath + " is missing", snapshot.ServicePath + " is missing", snapshot.ScriptPath + " is missing",
				snapshot.UploadPath + " is missing", "etcd-snapshot.timer is missing, wanted active",
				"etcd-snapshot.timer is missing, wanted enabled",
			}, "\ncp1: "), files: []string{snapshot.TimerPath, snapshot.ServicePath, snapshot.ScriptPath, snapshot.UploadPath},
			timer: timer.On,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := establishedOn(t, c.on)
			if c.change != nil {
				c.change(f)
			}
			want := ""
			if c.words != "" {
				want = "cp1: " + c.words
			}
			if words := strings.Join(Drift(c.wanted, f, nil, time.Now()), "\n"); words != want {
				t.Errorf("drift is\n%s\nwant\n%s", words, want)
			}
			r, err := Repairs(c.wanted, f, nil, time.Now())
			var files []string
			for _, file := range r.Change.Files {
				files = append(files, file.Path)
			}
			timers := s.SnapshotMember().Job().Script(c.timer)
			if err != nil || r.Restart != "" || r.Timers != timers || !slices.Equal(files, c.files) ||
				!slices.Equal(r.Change.Remove, c.gone) || r.Needed() != (c.words != "") {
				t.Errorf("repair: restart %q, timers %q, files %v, gone %v (%v)", r.Restart, r.Timers, files, r.Change.Remove, err)
			}
		})
	}
}

// TestSnapshotProblems verifies that what a machine cannot use is refused where it would be
// written, and does not keep existing files from being repaired.
func TestSnapshotProblems(t *testing.T) {
	s := scheduledAt(t)
	none := s
	none.Snapshots = nil
	complains := func(f *Observed) { f.Facts.Output = snapshot.BadCalendar + "\n" + snapshot.NoEnvironment + "\n" }
	put := func(path string) func(*Observed) {
		return func(f *Observed) { f.Facts.Files[path] = host.FileState{Content: "x"} }
	}
	for name, c := range map[string]struct {
		on, wanted Spec
		change     func(*Observed)
		want       string
	}{
		"all is well": {none, s, func(*Observed) {}, ""},
		"not usable": {
			none, s, complains,
			`rejects the schedule "Mon..Fri 02:30 Europe/Berlin" of snapshots ` +
				`(run systemd-analyze calendar 'Mon..Fri 02:30 Europe/Berlin' for the reason); ` +
				`environment_file /etc/rclone.env of snapshots does not exist`,
		},
		"not usable any more": {s, s, complains, ""},
		"somebody's timer": {none, s, put(snapshot.TimerPath), snapshot.TimerPath +
			" exists and was not written by the provider"},
		"somebody's script": {none, s, put(snapshot.ScriptPath), snapshot.ScriptPath +
			" exists and was not written by the provider"},
		"somebody's upload": {none, s, put(snapshot.UploadPath), snapshot.UploadPath +
			" exists and was not written by the provider"},
		"an edited upload beside our unit": {s, s, put(snapshot.UploadPath), ""},
		"somebody's timer, and none of us": {none, none, put(snapshot.TimerPath), ""},
	} {
		f := establishedOn(t, c.on)
		c.change(&f)
		if got := strings.Join(c.wanted.SnapshotMember().Problems(f.Facts), "; "); got == "" != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestSnapshotsKept verifies that a changed number is reported as drift, and rewrites the
// record only.
func TestSnapshotsKept(t *testing.T) {
	s := specAt(t, "10.0.0.1")
	s.Bundle, s.Name = etcdtest.Bundle(t), "cp1"
	f := establishedOn(t, s)
	for kept, want := range map[int]string{0: "", snapshot.DefaultKept: "", 5: "cp1: " + layout.RecordPath +
		" records that 3 upgrade snapshots are kept, wanted 5"} {
		s.SnapshotsKept = kept
		if words := strings.Join(Drift(s, f, nil, time.Now()), "\n"); words != want {
			t.Errorf("%d kept: %q", kept, words)
		}
		r, err := Repairs(s, f, nil, time.Now())
		if err != nil || r.Restart != "" || (len(r.Change.Files) == 1) != (want != "") {
			t.Errorf("%d kept: %+v, %v", kept, r, err)
		}
		if want != "" && (r.Change.Files[0].Path != layout.RecordPath || !strings.Contains(string(r.Change.Files[0].Content),
			`"snapshots_kept": 5`)) {
			t.Errorf("repaired by %+v", r.Change.Files)
		}
	}
	s.SnapshotsKept = 0
	f.Record.SnapshotsKept = 0 // written before the field existed
	if words := Drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("an older marker: %v", words)
	}
}

// TestRenamedCluster verifies that another name of the cluster rewrites the record and
// restarts nothing.
func TestRenamedCluster(t *testing.T) {
	s := specAt(t, "10.0.0.1")
	s.Bundle, s.Name = etcdtest.Bundle(t), "cp1"
	f := establishedOn(t, s)
	renamed := *s.Bundle
	renamed.ClusterName, s.Bundle = "renamed", &renamed
	r, err := Repairs(s, f, nil, time.Now())
	if err != nil || r.Restart != "" || len(r.Change.Files) != 1 || !strings.Contains(string(r.Change.Files[0].Content),
		`"cluster_name": "renamed"`) {
		t.Errorf("%+v, %v", r, err)
	}
	if words := Drift(s, f, nil, time.Now()); len(words) > 0 {
		t.Errorf("drift: %q", words)
	}
}

// without returns the paths but one.
func without(paths []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == one })
}
