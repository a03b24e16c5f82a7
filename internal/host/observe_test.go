package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

func TestObserve(t *testing.T) {
	_, h := newMachine(t)
	dir := t.TempDir()
	odd := filepath.Join(dir, "it's odd $HOME")
	must(t, os.WriteFile(odd, []byte("content\n\n"), 0o640))
	must(t, os.Chmod(odd, 0o640))
	empty := filepath.Join(dir, "==> nothing <==")
	must(t, os.WriteFile(empty, nil, 0o600))
	must(t, os.Symlink(odd, dir+"/link"))
	must(t, os.Mkdir(dir+"/empty", 0o755))
	must(t, os.Mkdir(dir+"/full", 0o755))
	for _, name := range []string{"b", "a", ".hidden", "line\nfeed", "-n", "*"} {
		must(t, os.WriteFile(filepath.Join(dir, "full", name), nil, 0o600))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port

	facts, err := h.Observe(t.Context(), Query{
		Files:    []string{dir + "/link", dir + "/none", dir},
		Contents: []string{odd, dir + "/nothing", empty, dir, odd},
		Dirs:     []string{dir + "/empty", dir + "/full", dir + "/none"},
		Units:    []string{"no-such.service"},
		Ports:    []int{port, 1},
		Disks:    []string{dir + "/none/below/it", "/"},
		Commands: []string{"sh", "no-such-program", "cd"},
		Script:   "echo 'a\tb'; cat; exit 7",
	})
	must(t, err)

	hostname, _ := os.Hostname()
	if facts.Hostname != hostname || facts.Architecture != runtime.GOARCH || facts.OS == "" || len(facts.BootID) != 36 {
		t.Errorf("facts of this computer: %+v", facts)
	}
	if facts.ClockError <= 0 || facts.ClockOffset.Abs() > facts.ClockError+time.Millisecond {
		t.Errorf("this computer's clock is off from itself by %v ± %v", facts.ClockOffset, facts.ClockError)
	}
	me, err := user.Current()
	must(t, err)
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("content\n\n")))
	state := facts.Files[odd]
	if state.Mode != 0o640 || state.Owner != me.Username || state.Size != 9 || state.SHA256 != sum ||
		state.Content != "content\n\n" {
		t.Errorf("file %+v", state)
	}
	if link := facts.Files[dir+"/link"]; link.Mode.Type() != fs.ModeSymlink || link.SHA256 != sum || link.Content != "" {
		t.Errorf("link %+v", link)
	}
	if d := facts.Files[dir]; d.Mode.Type() != fs.ModeDir || d.SHA256 != "" {
		t.Errorf("directory %+v", d)
	}
	if file, there := facts.Files[empty]; !there || file.Content != "" {
		t.Errorf("an empty file: %+v", file)
	}
	if len(facts.Files) != 4 {
		t.Errorf("files that are not there have states: %+v", facts.Files)
	}
	full := facts.Dirs[dir+"/full"]
	slices.Sort(full)
	if !slices.Equal(full, []string{"*", "-n", ".hidden", "a", "b"}) {
		t.Errorf("entries %q", full)
	}
	if entries, there := facts.Dirs[dir+"/empty"]; !there || len(entries) != 0 {
		t.Errorf("empty directory: %q, %v", entries, there)
	}
	if len(facts.Dirs) != 2 {
		t.Errorf("directories %+v", facts.Dirs)
	}
	if l, taken := facts.Listeners[port]; !taken || !slices.Equal(l.Addresses, []string{"127.0.0.1"}) ||
		len(facts.Listeners) != 1 {
		t.Errorf("listeners %+v", facts.Listeners)
	}
	if facts.DiskFree[dir+"/none/below/it"] <= 0 || facts.DiskFree["/"] <= 0 {
		t.Errorf("free space %+v", facts.DiskFree)
	}
	if len(facts.Commands) != 1 || !filepath.IsAbs(facts.Commands["sh"]) {
		t.Errorf("commands %+v", facts.Commands)
	}
	if facts.Output != "a\tb\n" {
		t.Errorf("output %q", facts.Output)
	}
}

// TestObserveEndsWithAnyFile: an observation ends, and has the other files, whatever the owner of a directory puts in
// the place of a file.
func TestObserveEndsWithAnyFile(t *testing.T) {
	if os.Geteuid() != 0 {
		testrun.Missing(t, "notes are root's")
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"good": "good\n", "forged": "==> " + dir + "/good <==\nforged\nend\t\n", "strange": "strange\n",
		"other": "other\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	must(t, os.WriteFile(dir+"/large", make([]byte, 16<<20), 0o644))
	must(t, os.WriteFile(dir+"/endless", nil, 0o644))
	must(t, os.Truncate(dir+"/endless", 1<<40))
	must(t, os.Chown(dir+"/strange", 65534, 65534))
	must(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	must(t, os.Symlink("/dev/zero", dir+"/zero"))
	must(t, os.Symlink("good", dir+"/link"))
	in := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		return paths
	}
	odd := in("pipe", "zero", "large", "endless", "none")
	run := func(q Query) Facts {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		command := exec.CommandContext(ctx, "sh", "-c", observeScript(q), "kube")
		command.WaitDelay = time.Second
		out, err := command.Output()
		if err != nil || len(out) > maxOutput {
			t.Fatalf("%d bytes: %v", len(out), err)
		}
		facts, _, err := parseFacts(string(out), q)
		must(t, err)
		return facts
	}
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("good\n")))

	facts := run(Query{Files: append(in("other"), odd[:2]...), Contents: append(in("good"), odd...)})
	if f := facts.Files[dir+"/good"]; f.Content != "good\n" || f.SHA256 != sum || facts.Files[dir+"/other"].SHA256 == "" {
		t.Errorf("with others: %+v", facts.Files)
	}
	for _, path := range odd {
		if f := facts.Files[path]; f.Content != "" || (f.SHA256 == "") != (path != dir+"/large") {
			t.Errorf("%s: %+v", path, f)
		}
	}

	facts = run(Query{Notes: append(in("good", "forged", "strange", "other", "link"), odd...)})
	var there []string
	for path := range facts.Files {
		there = append(there, path)
	}
	if slices.Sort(there); !slices.Equal(there, in("forged", "good", "other")) {
		t.Errorf("notes are there: %q", there)
	}
	if f := facts.Files[dir+"/good"]; f.Content != "good\n" || f.Mode != 0o644 ||
		facts.Files[dir+"/other"].Content != "other\n" {
		t.Errorf("notes: %+v", facts.Files)
	}
}

// TestObserveSharedDirs: a directory in which another user may make entries is read up to a limit.
func TestObserveSharedDirs(t *testing.T) {
	_, h := newMachine(t)
	dir := t.TempDir()
	full, few, empty := dir+"/it's full", dir+"/few", dir+"/empty"
	for _, d := range []string{full, few, empty} {
		must(t, os.Mkdir(d, 0o755))
	}
	long := strings.Repeat("x", 250)
	for i := range maxEntries + 1 { // the whole listing would be longer than an answer may be
		must(t, os.WriteFile(fmt.Sprintf("%s/%05d%s", full, i, long), nil, 0o600))
		must(t, os.WriteFile(fmt.Sprintf("%s/.%05d%s", full, i, long[1:]), nil, 0o600))
	}
	must(t, os.WriteFile(full+"/member", nil, 0o600))
	for _, name := range []string{"member", ".hidden", "line\nfeed", "end\t", "-n", "*", "a b", `back\slash`} {
		must(t, os.WriteFile(filepath.Join(few, name), nil, 0o600))
	}
	must(t, os.Symlink(few, dir+"/link"))
	must(t, syscall.Mkfifo(dir+"/pipe", 0o600))

	facts, err := h.Observe(t.Context(), Query{
		SharedDirs: []string{full, few, empty, dir + "/link", dir + "/pipe", dir + "/none"}, Script: "echo done",
		SharedEntries: []string{"member", "absent"},
	})
	must(t, err)

	if len(facts.Dirs[full]) != MaxShared || !maps.Equal(facts.Crowded, map[string]bool{full: true}) {
		t.Errorf("%d entries, crowded %v", len(facts.Dirs[full]), facts.Crowded)
	}
	if !slices.Contains(facts.Dirs[full], "member") {
		t.Error("the crowd hides an entry that is always asked for")
	}
	for _, at := range []string{few, dir + "/link"} {
		got := slices.Sorted(slices.Values(facts.Dirs[at]))
		if !slices.Equal(got, []string{"*", "-n", ".hidden", "a b", `back\slash`, "end?", "line?feed", "member"}) {
			t.Errorf("entries of %s: %q", at, got)
		}
	}
	if entries, there := facts.Dirs[empty]; !there || len(entries) != 0 || len(facts.Dirs) != 4 {
		t.Errorf("directories %d, the empty one %q", len(facts.Dirs), entries)
	}
	if facts.Output != "done\n" {
		t.Errorf("output %q", facts.Output)
	}
}

func TestObserveRefuses(t *testing.T) {
	s, h := newMachine(t)
	for name, q := range map[string]Query{
		"relative file":   {Files: []string{"x"}},
		"unclean dir":     {Dirs: []string{"/a//b"}},
		"relative shared": {SharedDirs: []string{"a"}},
		"entry elsewhere": {SharedDirs: []string{"/a"}, SharedEntries: []string{"b/c"}},
		"entry above":     {SharedDirs: []string{"/a"}, SharedEntries: []string{".."}},
		"line feed":       {Contents: []string{"/a\nb"}},
		"unit pattern":    {Units: []string{"kube-*"}},
		"path as command": {Commands: []string{"/bin/sh"}},
	} {
		if _, err := h.Observe(t.Context(), q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if len(s.commandLines()) != 0 {
		t.Errorf("sent to the machine: %q", s.commandLines())
	}
}
