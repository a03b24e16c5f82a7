package snapshot

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestReadSnapshot(t *testing.T) {
	got, err := ReadSaved("size 20512\n{\"hash\":1,\"revision\":7,\"totalKey\":12,\"totalSize\":20480}\n")
	if err != nil || got.Size != 20512 || got.Revision != 7 || got.Keys != 12 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, output := range []string{"", "size x\n{}", "size 1\n", "size 1\nError: damaged", "size 1\n{\"hash\":1}"} {
		if got, err := ReadSaved(output); err == nil {
			t.Errorf("%q was read as %+v", output, got)
		}
	}
}

// free returns the facts of a machine with that free space.
func free(bytes int64) host.Facts { return host.Facts{DiskFree: map[string]int64{"/d": bytes}} }

func TestRoomFor(t *testing.T) {
	etcdtest.WantError(t, "room", RequireSpace(1<<30, free(2<<30), "/d"), "")
	etcdtest.WantError(t, "not known", RequireSpace(1<<30, host.Facts{}, "/d"), "")
	etcdtest.WantError(t, "no room", RequireSpace(1<<30, free(1<<30), "/d"), "the database size is 1 GiB")
	etcdtest.WantError(t, "no room for etcd itself", RequireSpace(10<<20, free(100<<20), "/d"), "100 MiB are free")
	etcdtest.WantError(t, "full", RequireSpace(10<<20, free(0), "/d"), "are free")
}

func TestSavedBefore(t *testing.T) {
	facts := host.Facts{Dirs: map[string][]string{"/var/lib/etcd-archive/upgrades": {
		"20260101T000000Z-etcd-3.6.15-to-3.6.16.db", "20260301T000000Z-etcd-3.6.15-to-3.6.16.db",
		"20260201T000000Z-etcd-3.6.15-to-3.6.16.db", "20260303T000000Z-etcd-3.5.35-to-3.6.16.db",
		"20260302T000000Z-etcd-3.6.15-to-3.6.17.db",
		"20260401T000000Z-before-kubernetes-1.35.4.db", "20260501T000000Z-etcd-3.5.35-to-3.6.16.db.part",
	}}}
	got := SavedBefore(facts, layout.DefaultDataDir, "3.6.15", "3.6.16")
	if got != "/var/lib/etcd-archive/upgrades/20260301T000000Z-etcd-3.6.15-to-3.6.16.db" {
		t.Errorf("%s", got)
	}
	if got := SavedBefore(facts, layout.DefaultDataDir, "3.7.3", "3.6.16"); got != "" {
		t.Errorf("of another upgrade: %s", got)
	}
}

func FuzzReadSnapshot(f *testing.F) {
	f.Add("size 123\n{\"revision\": 5, \"totalKey\": 7}\n")
	f.Add("size -1\n{}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadSaved(text)
		if err == nil && (s.Size < 0 || s.Keys < 0 || s.Revision < 0) {
			t.Errorf("%q: %+v", text, s)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// stubTools writes an etcdctl that saves the four bytes "data", an etcdutl, and a df by which the file system has 100
// bytes.
func stubTools(t *testing.T, dir string) {
	t.Helper()
	err := errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(dir+"/etcdctl", []byte(`#!/bin/sh
for file; do :; done
if [ "$file" = status ]; then
  printf '"%s" : %s\n' Leader 7 MemberID 7 DBSize 36
  exit
fi
printf data >"$file"
printf data | sha256sum | cut -c 1-64 | sed 's/../0x& /g' | awk '{ for (i = 1; i <= NF; i++) print $i }' |
  while read -r byte; do printf "\\$(printf %o "$byte")"; done >>"$file"
`), 0o755),
		os.WriteFile(dir+"/etcdutl", []byte("#!/bin/sh\n[ -f \"$3\" ] && echo '{\"revision\":7,\"totalKey\":2}'\n"), 0o755),
		os.WriteFile(dir+"/df", []byte("#!/bin/sh\nfor at; do :; done\n"+
			"echo Avail\necho $((100 - $(cat \"$at\"/*.db \"$at\"/*.part 2>/dev/null | wc -c)))\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// TestSaveScript saves a snapshot into a directory that is made for it, and another one there.
func TestSaveScript(t *testing.T) {
	dir := t.TempDir()
	tools, data := filepath.Join(dir, "tools"), filepath.Join(dir, "etcd")
	stubTools(t, tools)
	for _, file := range []string{"20260101T000000Z-a.db", "20260102T000000Z-b.db"} {
		s := Save{Dir: data + "-archive/upgrades", File: file, Tools: tools, Keep: 1}
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(host.Assignments(s.Vars())+s.Script())).
			CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		saved, err := ReadSaved(string(out))
		left, _ := filepath.Glob(s.Dir + "/*.db")
		if err != nil || saved.Size != 36 || saved.Revision != 7 || len(left) != 1 || left[0] != s.Dir+"/"+file {
			t.Errorf("saved %+v, %v; there are %q", saved, err, left)
		}
	}
	for _, at := range []string{data + "-archive", data + "-archive/upgrades"} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", at, info, err)
		}
	}
}

// TestSpaceOfUnfinished: what an interrupted run has left is removed before the free space is compared.
func TestSpaceOfUnfinished(t *testing.T) {
	dir := t.TempDir()
	stubTools(t, dir+"/tools")
	const left = "20260101T000000Z-cp1.db.part"
	fill := func(at, name string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(at, 0o700), os.WriteFile(at+"/"+name, make([]byte, 90), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	s := Save{Dir: dir + "/etcd-archive/requested", File: "20260102T000000Z-a.db", Tools: dir + "/tools", Need: 36}
	save := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(host.Assignments(s.Vars())+s.Script())).
			CombinedOutput()
		return string(out), err
	}
	fill(s.Dir, left)
	if out, err := save(); err != nil {
		t.Errorf("requested: %v: %s", err, out)
	}
	fill(s.Dir, "20260101T000000Z-b.db")
	if out, err := save(); err == nil || !strings.Contains(out, "not enough space in "+s.Dir+": the snapshot and the "+
		"reserve of etcd need 36 bytes, but -26 are free") {
		t.Errorf("no space: %v: %s", err, out)
	}

	m := stored()
	m.DataDir, m.Settings.S3 = dir+"/etcd", nil
	at := scheduledDir(m.DataDir)
	script := strings.Replace(m.renderScript(), "reserve="+strconv.Itoa(Reserve), "reserve=10", 1)
	script = strings.Replace(script, "\nunit="+layout.UnitPath, "\nunit="+dir+"/unit", 1)
	if err := errors.Join(os.WriteFile(dir+"/run", []byte(script), 0o600),
		os.WriteFile(dir+"/unit", []byte("ExecStart="+dir+"/tools/etcd --name=cp1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), "sh", "-eu", dir+"/run").CombinedOutput()
		return string(out), err
	}
	fill(at, left)
	if out, err := run(); err != nil || !strings.Contains(out, "size 36") {
		t.Errorf("scheduled: %v: %s", err, out)
	}
	fill(at, "20260101T000000Z-b.db")
	if out, err := run(); err == nil || !strings.HasSuffix(out, "but -26 are free\nno snapshot saved\n") {
		t.Errorf("scheduled, no space: %v: %s", err, out)
	}

	// The time of a file tells not which of two clocks was wrong.
	saved, _ := filepath.Glob(at + "/*.db")
	for _, file := range saved {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at+"/20990101T000000Z-cp1.db", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err == nil || !strings.Contains(out, "20990101T000000Z-cp1.db in "+at+" has a later time than "+
		"now, so that it passes for the newest: if this machine's clock is behind, correct it; if a clock was ahead") {
		t.Errorf("scheduled, a later one: %v: %s", err, out)
	}
}

// TestCutOffSave: a save that is ended in the middle leaves nothing, and what one has left that was killed is removed
// also where another member leads, but not while a save is running there.
func TestCutOffSave(t *testing.T) {
	dir := t.TempDir()
	stubTools(t, dir+"/tools")
	etcdctl := func(text string) {
		t.Helper()
		if err := os.WriteFile(dir+"/tools/etcdctl", []byte("#!/bin/sh\nfor file; do :; done\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	etcdctl("printf data >\"$file\"\nprintf data >\"$file.part\"\nkill -TERM $PPID\n")
	s := Save{Dir: dir + "/etcd-archive/requested", File: "20260102T000000Z-a.db", Tools: dir + "/tools", Need: 36}
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(host.Assignments(s.Vars())+s.Script())).
		CombinedOutput()
	if left, _ := filepath.Glob(s.Dir + "/*.part"); err == nil || len(left) > 0 {
		t.Errorf("ended: %v: %s; it has left %q", err, out, left)
	}

	etcdctl("printf '\"%s\" : %s\\n' Leader 7 MemberID 8 DBSize 36\n")
	m := stored()
	m.DataDir, m.Settings.S3 = dir+"/etcd", nil
	at := scheduledDir(m.DataDir)
	script := strings.Replace(m.renderScript(), "\nunit="+layout.UnitPath, "\nunit="+dir+"/unit", 1)
	if err := errors.Join(os.WriteFile(dir+"/run", []byte(script), 0o600), os.MkdirAll(at, 0o700),
		os.WriteFile(at+"/20260101T000000Z-cp1.db.part", nil, 0o600),
		os.WriteFile(dir+"/unit", []byte("ExecStart="+dir+"/tools/etcd --name=cp1\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(at + "/.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		out, err := exec.CommandContext(t.Context(), "sh", "-eu", dir+"/run").CombinedOutput()
		left, _ := filepath.Glob(at + "/*.part")
		if err != nil || !strings.Contains(string(out), "another member is the leader") || len(left) != want {
			t.Errorf("%v: %s; %q are left, want %d", err, out, left, want)
		}
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
	}
}
