package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// disk is a data directory with content of a member and of an operator.
type disk struct {
	t    *testing.T
	data string
}

func newDisk(t *testing.T) disk {
	t.Helper()
	if os.Geteuid() != 0 {
		testrun.Missing(t, "archives are root's")
	}
	d := disk{t, filepath.Join(t.TempDir(), "etcd")}
	d.write("member/snap/db", "member/wal/0.wal", "member/wal/with space\nand more", "notes", ".hidden", "lost+found/x")
	return d
}

func (d disk) write(names ...string) {
	d.t.Helper()
	for _, name := range names {
		at := filepath.Join(d.data, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
}

// run runs a function of archive.sh after some other commands.
func (d disk) run(before, call string, kept int) error {
	script := before + "\n" + string(host.Assignments(archiveVars(d.data, "cp1", kept))+ArchiveFunctions) + call + "\n"
	out, err := exec.Command("sh", "-euc", script, "kube").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (d disk) mustRun(before, call string, kept int) {
	d.t.Helper()
	if err := d.run(before, call, kept); err != nil {
		d.t.Fatal(err)
	}
}

// list returns the entries below a directory, sorted by name.
func list(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			name, _ := filepath.Rel(dir, path)
			all = append(all, name)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(all, " ")
}

var archiveName = regexp.MustCompile(`^[a-z0-9-]+-\d{8}T\d{6}Z$`)

// archives returns the paths of all completed archives.
func (d disk) archives() []string {
	d.t.Helper()
	var out []string
	for _, root := range []string{layout.ArchiveRoot(d.data), layout.ArchiveInside(d.data)} {
		entries, _ := os.ReadDir(root)
		for _, e := range entries {
			if !archiveName.MatchString(e.Name()) {
				d.t.Errorf("%s/%s is left", root, e.Name())
			}
			out = append(out, filepath.Join(root, e.Name()))
		}
	}
	return out
}

func inode(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprint(stat.Dev, ":", stat.Ino)
}

const wholeArchive = ".hidden member/snap/db member/wal/0.wal member/wal/with space\nand more notes"

func TestArchiveNextToTheData(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	before := inode(t, d.data+"/member/snap/db")
	d.mustRun("", "archive", 5)
	all := d.archives()
	if len(all) != 1 || filepath.Dir(all[0]) != layout.ArchiveRoot(d.data) || list(t, all[0]) != wholeArchive {
		t.Fatalf("archives %q with %q", all, list(t, layout.ArchiveRoot(d.data)))
	}
	if after := inode(t, all[0]+"/member/snap/db"); after != before {
		t.Errorf("the database was copied: %s is %s now", before, after)
	}
	if left := list(t, d.data); left != "lost+found/x" {
		t.Errorf("left in the data directory: %q", left)
	}
	d.mustRun("", "archive", 5) // nothing to archive
	if again := d.archives(); len(again) != 1 {
		t.Errorf("an archive of nothing: %q", again)
	}
}

// onMount runs a script in which $data is a file system of its own that contains a member.
// It returns the script's output.
func onMount(t *testing.T, d disk, mount, script string) string {
	t.Helper()
	functions := string(host.Assignments(archiveVars(d.data, "cp1", 5)) + ArchiveFunctions)
	text := "data=" + d.data + "\n" + mount + `
mkdir -p "$data/member/snap" "$data/lost+found"
echo db >"$data/member/snap/db"
stat -c 'before %d:%i' "$data/member/snap/db"
run() { sh -euc "$script" kube; }
script=` + "'" + strings.ReplaceAll(functions, "'", `'\''`) + "'\n" + script
	out, err := exec.Command("unshare", "--mount", "sh", "-euc", text).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestArchiveOfAMount verifies that a data directory on its own mount, be it another file
// system or a second mount of the same one, keeps its archives inside.
func TestArchiveOfAMount(t *testing.T) {
	t.Parallel()
	for name, mount := range map[string]string{
		"another file system":  `mount -t tmpfs tmpfs "$data"`,
		"the same, bound":      `mkdir "$data-disk"; mount --bind "$data-disk" "$data"`,
		"the archive is bound": `mkdir "$data-archive" "$data-disk"; mount --bind "$data-disk" "$data-archive"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := disk{newDisk(t).t, filepath.Join(t.TempDir(), "etcd")}
			if err := os.MkdirAll(d.data, 0o700); err != nil {
				t.Fatal(err)
			}
			out := onMount(t, d, mount, `script="$script archive"
run
run
stat -c 'after %d:%i' "$data"/archive/cp1-*/member/snap/db
ls -A "$data" "$data/archive" "$data-archive" 2>/dev/null || true
`)
			var before, after string
			for line := range strings.Lines(out) {
				if text, ok := strings.CutPrefix(line, "before "); ok {
					before = text
				}
				if text, ok := strings.CutPrefix(line, "after "); ok {
					after = text
				}
			}
			if before == "" || before != after || strings.Contains(out, ".part") || strings.Contains(out, ".kube-renamed") {
				t.Errorf("the data was not renamed:\n%s", out)
			}
		})
	}
}

// TestArchiveIsNeverACopy verifies that nothing is moved if the chosen place is wrong.
func TestArchiveIsNeverACopy(t *testing.T) {
	t.Parallel()
	d := disk{newDisk(t).t, filepath.Join(t.TempDir(), "etcd")}
	if err := os.MkdirAll(d.data, 0o700); err != nil {
		t.Fatal(err)
	}
	out := onMount(t, d, `mount -t tmpfs tmpfs "$data"`, `script="$script
root=\$data-archive part=\$data-archive/cp1.part
archive"
run && echo archived
ls "$data/member/snap/db"
[ ! -e "$data-archive/cp1.part/member" ] && echo nothing was moved
`)
	if strings.Contains(out, "archived\n") || !strings.Contains(out, "data is never copied") ||
		!strings.Contains(out, "nothing was moved") {
		t.Errorf("%s", out)
	}
}

// TestArchiveIsRoots: etcd's user owns the data directory, and can put anything where the archives inside it are.
// Nothing follows that elsewhere, and nothing is archived through it.
func TestArchiveIsRoots(t *testing.T) {
	t.Parallel()
	scripts := map[string]host.Script{
		"archive": ArchiveFunctions + "archive\n",
		"wipe":    ArchiveFunctions + "wipe\n",
		"settle":  ArchiveFunctions + "settle\n",
		"save": host.Assignments(snapshot.Save{Dir: "/ETCD/archive/cp1.part", File: LastSnapshot, Tools: "/none"}.Vars()) +
			snapshot.Save{}.Script(),
		"receive": ArchiveFunctions + RestoreFunctions + receiveScript,
		"stage":   "kind=member\n" + stagingScript(RestoreFunctions, stageScript),
		"place":   ArchiveFunctions + placeScript,
		"inspect": Action{Verb: Inspect}.script(),
	}
	for planted, plant := range map[string]string{
		"a link":                `ln -s "$victim" "$data/archive"`,
		"a link to the root":    `mkdir -p "$data/cp1.part/member"; ln -s . "$data/archive"`,
		"a directory of etcd's": `cp -a "$victim" "$data/archive"; chown 65534 "$data/archive"`,
		"a part that is a link": `mkdir -m 0700 "$data/archive"; ln -s "$victim/cp1.part" "$data/archive/cp1.part"`,
	} {
		for name, script := range scripts {
			inRoot := planted == "a part that is a link"
			if inRoot && name != "archive" && name != "wipe" && name != "save" {
				continue // in root's own directory, only root can have made it
			}
			t.Run(planted+", "+name, func(t *testing.T) {
				t.Parallel()
				d := disk{newDisk(t).t, filepath.Join(t.TempDir(), "etcd")}
				victim := filepath.Join(filepath.Dir(d.data), "victim")
				for _, dir := range []string{
					d.data, victim + "/cp1.part/member", victim + "/x.gone", victim + "/restoring/member",
				} {
					if err := os.MkdirAll(dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				for _, file := range []string{"/cp1.part/.lock", "/cp1.part/a.part", "/restoring/key", "/restoring.received"} {
					if err := os.WriteFile(victim+file, []byte("kept"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				state := `find "$victim" -printf '%P %m %U %s\n' | LC_ALL=C sort >"$data-`
				text := host.Assignments(archiveVars(d.data, "cp1", 1)) + "systemctl() { :; }\nchown() { case $* in " +
					"*etcd:etcd*) ;; *) command chown \"$@\" ;; esac; }\nreserve=0 size=0 key=k source=s environment='' bump=0\n" +
					host.Script(strings.ReplaceAll(string(script), "/ETCD/", d.data+"/"))
				if name == "place" {
					text = "rm -rf " + host.Script(d.data) + "/member\n" + text // it is due
				}
				out, err := exec.Command("unshare", "--mount", "sh", "-euc", "data="+d.data+" victim="+victim+`
mount -t tmpfs tmpfs "$data"
mkdir -p "$data/member/snap"
echo db >"$data/member/snap/db"
`+plant+"\n"+state+`before"
echo . | sh -euc '`+strings.ReplaceAll(string(text), "'", `'\''`)+`' kube 2>&1 && echo it was done
`+state+`after"
diff "$data-before" "$data-after"
`).CombinedOutput()
				if err != nil {
					t.Fatalf("something else is changed: %v: %s", err, out)
				}
				if want := "is not a directory of root"; !strings.Contains(string(out), want) ||
					strings.Contains(string(out), "it was done") {
					t.Errorf("it says %q, want an error with %q", out, want)
				}
			})
		}
	}
}

// inspect runs the check of the v2 store with a tool that is a script.
func (d disk) inspect(tool string) (string, error) {
	d.t.Helper()
	tools := d.t.TempDir()
	program := []byte("#!/bin/sh -eu\n" + tool)
	if err := os.WriteFile(tools+"/etcdutl", program, 0o700); err != nil { //nolint:gosec // it is run
		d.t.Fatal(err)
	}
	a := Action{Verb: Inspect, DataDir: d.data, Tools: tools}
	out, err := exec.Command("sh", "-euc", string(host.Assignments(a.vars())+a.script()), "kube").CombinedOutput()
	return string(out), err
}

// TestInspect: the check gets links to the files of etcd, where etcd's user cannot reach them, and leaves nothing.
func TestInspect(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	d.write("member/snap/1.snap", "member/snap/db.tmp")
	before := list(t, d.data)
	out, err := d.inspect("cd \"${3#--data-dir=}\"; find . -type f | LC_ALL=C sort >&2; rm member/wal/0.wal; ls -A " +
		d.data + " >&2\n")
	want := "./member/snap/1.snap\n./member/wal/0.wal\n.hidden\nlost+found\nmember\nnotes\n"
	if err != nil || out != want {
		t.Errorf("%v: the check has %q, want %q", err, out, want)
	}
	if after := list(t, d.data); after != before || list(t, d.data+"-archive") != "" {
		t.Errorf("left: %q, was %q, and %q", after, before, list(t, d.data+"-archive"))
	}
	if out, err := d.inspect("echo detected custom >&2; exit 1"); err == nil || out != "detected custom\n" {
		t.Errorf("%v: %q", err, out)
	}
}

// TestInspectLinksNoOtherFile: what etcd's user, who runs meanwhile, puts where the log is gets no link of root.
func TestInspectLinksNoOtherFile(t *testing.T) {
	t.Parallel()
	for planted, plant := range map[string]func(outside, at string) error{
		"a link":                  os.Symlink,
		"a file with other links": os.Link,
		"a file of another user": func(_, at string) error {
			return errors.Join(os.WriteFile(at, nil, 0o600), os.Chown(at, 65534, 65534))
		},
		"a pipe": func(_, at string) error { return syscall.Mkfifo(at, 0o600) },
	} {
		t.Run(planted, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			outside := filepath.Join(filepath.Dir(d.data), "outside")
			if err := errors.Join(os.WriteFile(outside, nil, 0o600), plant(outside, d.data+"/member/wal/zz.wal")); err != nil {
				t.Fatal(err)
			}
			links := func() uint64 {
				info, err := os.Stat(outside)
				if err != nil {
					t.Fatal(err)
				}
				return info.Sys().(*syscall.Stat_t).Nlink
			}
			before := links()
			out, err := d.inspect(`echo it was called; mv "` + d.data + `/.kube-v2store" "` + d.data + `/taken"` + "\n")
			if err == nil || !strings.Contains(out, "etcd makes none") || strings.Contains(out, "it was called") {
				t.Errorf("%v: %s", err, out)
			}
			if after := links(); after != before {
				t.Errorf("the file outside has %d links, and had %d", after, before)
			}
		})
	}
}

// TestPruneFollowsNoLink: what is planted inside the data directory is no archive, and is not removed.
func TestPruneFollowsNoLink(t *testing.T) {
	t.Parallel()
	for planted, owner := range map[string]int{"a link": -1, "a directory of etcd's": 65534} {
		t.Run(planted, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			victim := filepath.Join(filepath.Dir(d.data), "victim")
			at := d.data + "/archive"
			if owner < 0 {
				if err := os.Symlink(victim, at); err != nil {
					t.Fatal(err)
				}
			} else {
				victim = at
			}
			there := []string{"cp9-20260101T000000Z", "cp9-20260101T000000Z.gone", "restoring", "restoring.former"}
			for _, name := range there {
				if err := os.MkdirAll(filepath.Join(victim, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(victim, there[0], LastSnapshot), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if owner >= 0 {
				if err := os.Chown(at, owner, owner); err != nil {
					t.Fatal(err)
				}
			}
			d.mustRun("", "archive", 1)
			d.mustRun("", string(dropAllScript), 1)
			entries, err := os.ReadDir(victim)
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if err != nil || !slices.Equal(left, there) {
				t.Errorf("left are %q, %v, want %q", left, err, there)
			}
			out, err := exec.Command("sh", "-euc", string(host.Assignments(newestVars(d.data))+newestQuestion)).CombinedOutput()
			if err != nil || len(out) > 0 {
				t.Errorf("a snapshot there is found: %s, %v", out, err)
			}
		})
	}
}

// knife kills the shell before the n-th program that changes something.
const knife = `cut=%d at=0
step() { at=$((at + 1)); [ "$at" -ne "$cut" ] || kill -9 $$; }
mv() { step; command mv "$@"; }
rm() { step; command rm "$@"; }
rmdir() { step; command rmdir "$@"; }
mkdir() { step; command mkdir "$@"; }
chown() { step; command chown "$@"; }
chmod() { step; command chmod "$@"; }
sync() { step; }
`

// TestArchiveCutOff verifies that the next run completes an interrupted archive.
func TestArchiveCutOff(t *testing.T) {
	t.Parallel()
	cuts := 0
	for cut, ended := 1, false; !ended; cut++ {
		d := newDisk(t)
		if err := os.MkdirAll(d.data+"-archive/cp1.part", 0o700); err != nil { // as after saving a last snapshot
			t.Fatal(err)
		}
		if err := os.WriteFile(d.data+"-archive/cp1.part/"+LastSnapshot, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		before := inode(t, d.data+"/member/snap/db")
		if ended = d.run(fmt.Sprintf(knife, cut), "archive", 5) == nil; !ended {
			cuts++
		}
		d.mustRun("", "archive", 5)
		all := d.archives()
		if want := strings.Replace(wholeArchive, " notes", " notes "+LastSnapshot, 1); len(all) != 1 ||
			list(t, all[0]) != want {
			t.Fatalf("cut at %d: archives %q with %q, want one with %q", cut, all, list(t, layout.ArchiveRoot(d.data)), want)
		}
		if after := inode(t, all[0]+"/member/snap/db"); after != before {
			t.Errorf("cut at %d: the database was copied", cut)
		}
		if left := list(t, d.data); left != "lost+found/x" {
			t.Errorf("cut at %d: left in the data directory: %q", cut, left)
		}
	}
	if cuts < 10 {
		t.Errorf("only %d places to cut were found", cuts)
	}
}

// TestArchiveOfALaterMember verifies that the incomplete archive of an earlier member
// becomes an archive of its own.
func TestArchiveOfALaterMember(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"archive", "settle; archive"} {
		d := newDisk(t)
		if err := d.run(strings.Replace(fmt.Sprintf(knife, 0), "chown() { step;",
			`chown() { [ "$1" != -R ] || kill -9 $$;`, 1), "archive", 5); err == nil {
			t.Fatal("it was not cut")
		}
		d.write("member/snap/db", "member/later")
		d.mustRun("", call, 5)
		var contents []string
		for _, a := range d.archives() {
			contents = append(contents, list(t, a))
		}
		if want := []string{wholeArchive, "member/later member/snap/db"}; !slices.Equal(contents, want) {
			t.Errorf("%s: %q, want %q", call, contents, want)
		}
	}
}

func TestArchivesKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		there []string // "*": with a last snapshot
		kept  int
		want  []string // in addition to the new one
	}{
		"few": {
			[]string{"cp1-20260101T000000Z", "cp9-20260102T000000Z"},
			5,
			[]string{"cp1-20260101T000000Z", "cp9-20260102T000000Z"},
		},
		"the oldest goes": {
			[]string{"cp9-20260101T000000Z", "cp1-20260102T000000Z"},
			2,
			[]string{"cp1-20260102T000000Z"},
		},
		"only the new one": {[]string{"cp1-20260101T000000Z", "cp1-20260102T000000Z"}, 1, nil},
		"the last snapshot stays": {
			[]string{"cp1-20260101T000000Z*", "cp1-20260102T000000Z", "cp1-20260103T000000Z"},
			2,
			[]string{"cp1-20260101T000000Z*", "cp1-20260103T000000Z"},
		},
		"newer last snapshots exceed": {[]string{
			"cp1-20260101T000000Z*", "cp1-20260102T000000Z*", "cp1-20260103T000000Z*",
			"cp1-20260104T000000Z",
		}, 2, []string{"cp1-20260102T000000Z*", "cp1-20260103T000000Z*", "cp1-20260104T000000Z"}},
		"a clock that was wrong": {
			[]string{"cp1-20990101T000000Z", "cp1-20990102T000000Z"},
			1,
			[]string{"cp1-20990102T000000Z"},
		},
		"of others": {[]string{
			"upgrades", "scheduled", "notes-20260101T000000", "before-restore",
			"cp1-20260101T000000Z",
		}, 1, []string{"before-restore", "notes-20260101T000000", "scheduled", "upgrades"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t)
			for _, a := range c.there {
				dir, last := strings.CutSuffix(a, "*")
				at := filepath.Join(layout.ArchiveRoot(d.data), dir)
				if err := os.MkdirAll(at, 0o700); err != nil {
					t.Fatal(err)
				}
				if last {
					if err := os.WriteFile(filepath.Join(at, LastSnapshot), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			d.mustRun("", "archive", c.kept)
			var left []string
			made := 0
			entries, err := os.ReadDir(layout.ArchiveRoot(d.data))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				at := filepath.Join(layout.ArchiveRoot(d.data), e.Name())
				if _, err := os.Stat(at + "/member"); err == nil {
					made++
					continue
				}
				name := e.Name()
				if _, err := os.Stat(filepath.Join(at, LastSnapshot)); err == nil {
					name += "*"
				}
				left = append(left, name)
			}
			if made != 1 || !slices.Equal(left, c.want) {
				t.Errorf("%d made, left %q, want %q", made, left, c.want)
			}
		})
	}
}

func TestArchivedAs(t *testing.T) {
	for output, want := range map[string]string{
		"": "", "x\narchive /var/lib/etcd-archive/cp1-20260101T000000Z\n": "/var/lib/etcd-archive/cp1-20260101T000000Z",
		"archive /data/archive/cp2-20260101T000000Z\n": "", "archive /a b/cp1-20260101T000000Z\n": "",
		"archive /a/cp1-20260101T000000Z; id\n": "", "archive /a\x1b[2J/cp1-20260101T000000Z\n": "",
	} {
		if got := ArchivedAs(output, "cp1"); got != want {
			t.Errorf("%q was read as %q, want %q", output, got, want)
		}
	}
}

// TestArchiveOfDomainName: archives of a member that is named like a node with its domain are found, and pruned.
func TestArchiveOfDomainName(t *testing.T) {
	t.Parallel()
	const name, at = "cp1.example.com", "/var/lib/etcd-archive/cp1.example.com-20260101T000000Z"
	if got := ArchivedAs("archive "+at+"\n", name); got != at {
		t.Errorf("read as %q", got)
	}
	root := t.TempDir()
	vars := string(host.Assignments(archiveVars(root+"/etcd", name, 1)) + ArchiveFunctions)
	for _, kept := range []string{"cp1.example.com-20260101T000000Z", "cp1.example.com-20260102T000000Z"} {
		if err := os.MkdirAll(root+"/etcd-archive/"+kept, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{
		"cp1.example.com.part", "cp1.example.com-20260103T000000Z.gone", "a b-20260104T000000Z",
	} {
		if err := os.MkdirAll(root+"/etcd-archive/"+other, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("sh", "-euc", vars+"archives\nname=\nprune\nls "+root+"/etcd-archive\n").CombinedOutput()
	want := "20260102T000000Z " + root + "/etcd-archive/cp1.example.com-20260102T000000Z\n" +
		"20260101T000000Z " + root + "/etcd-archive/cp1.example.com-20260101T000000Z\n" +
		"a b-20260104T000000Z\ncp1.example.com-20260102T000000Z\ncp1.example.com.part\n"
	if err != nil || string(out) != want {
		t.Errorf("%v:\n%s\nwant\n%s", err, out, want)
	}
}

func TestWipeLeavesArchives(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	d.write("archive/cp1-20260101T000000Z/member/snap/db")
	if err := os.MkdirAll(d.data+"-archive/cp1.part", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.data+"-archive/cp1.part/"+LastSnapshot, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.mustRun("", "wipe", 5)
	if left := list(t, d.data); left != "archive/cp1-20260101T000000Z/member/snap/db lost+found/x" {
		t.Errorf("left: %q", left)
	}
	if all := d.archives(); len(all) != 2 || list(t, layout.ArchiveRoot(d.data)) != filepath.Base(all[0])+"/"+
		LastSnapshot {
		t.Errorf("archives %q", all)
	}
	if err := os.RemoveAll(d.data + "/archive"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(d.data + "/lost+found"); err != nil {
		t.Fatal(err)
	}
	d.mustRun("", "wipe", 5)
	d.mustRun("", "wipe", 5)
	if _, err := os.Stat(d.data); !os.IsNotExist(err) {
		t.Errorf("the empty data directory is left: %v", err)
	}
}
