package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

func apply(t *testing.T, h *Host, c Change) Applied {
	t.Helper()
	applied, err := h.Apply(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

func wantChanged(t *testing.T, applied Applied, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(applied.Changed, want) {
		t.Errorf("changed %q, want %q", applied.Changed, want)
	}
}

func wantFile(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != content {
		t.Errorf("%s holds %q (%v), want %q", path, text, err, content)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s has mode %v (%v), want %v", path, info.Mode(), err, mode)
	}
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestApply(t *testing.T) {
	_, h := newRootMachine(t)
	dir := filepath.Join(t.TempDir(), "etc")
	at := func(name string) string { return filepath.Join(dir, name) }
	key, certificate, empty := at("tls.key"), at("tls.crt"), at("empty")
	link, stale := at("current"), at("stale")
	c := Change{
		Dirs: []Dir{{Path: dir, Mode: 0o755}, {Path: at("private/deep"), Mode: 0o700, Owner: "daemon", Group: "daemon"}},
		Files: []File{
			{Path: key, Content: []byte("key\n"), Mode: 0o600, Owner: "daemon"},
			{Path: certificate, Content: []byte("no line feed at the end"), Mode: 0o644},
			{Path: empty, Mode: 0o400},
			{Path: at("binary"), Content: []byte{0, 1, '\n', '\n', 0xff, '\''}, Mode: 0o640},
		},
		Links:  []Link{{Path: link, Target: "it's a target"}},
		Remove: []string{stale},
		Script: `echo "changed: $CHANGED"; cat; [ "$(id -u)" = 0 ]`,
	}
	applied := apply(t, h, c)
	all := []string{dir, at("private/deep"), key, certificate, empty, at("binary"), link}
	wantChanged(t, applied, all...)
	for _, p := range all {
		if !strings.Contains(applied.Output, p) {
			t.Errorf("CHANGED lacks %s: %q", p, applied.Output)
		}
	}
	wantFile(t, key, "key\n", 0o600)
	wantFile(t, certificate, "no line feed at the end", 0o644)
	wantFile(t, empty, "", 0o400)
	wantFile(t, at("binary"), "\x00\x01\n\n\xff'", 0o640)
	if target, _ := os.Readlink(link); target != "it's a target" {
		t.Errorf("link to %q", target)
	}
	if info, err := os.Stat(at("private")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("a parent that was not named: %v, %v", info.Mode(), err)
	}
	if owner := inodeOwner(t, key); owner != 1 {
		t.Errorf("owner of the key is %d, want daemon", owner)
	}

	// What a killed Apply of another key has staged goes, though the file is right.
	must(t, os.WriteFile(at(".tls.key.kube-1-ab"), []byte("another key"), 0o600))
	must(t, os.Symlink("elsewhere", at(".current.kube-1-ab")))
	before := []uint64{inode(t, key), inode(t, certificate), inode(t, link)}
	applied = apply(t, h, c)
	wantChanged(t, applied)
	if applied.Output != "changed: \n" {
		t.Errorf("output %q", applied.Output)
	}
	if after := []uint64{inode(t, key), inode(t, certificate), inode(t, link)}; !slices.Equal(before, after) {
		t.Error("files that are as they shall be were replaced")
	}

	if left, err := filepath.Glob(dir + "/.*.kube-*"); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}

	// Manual edits: mode, owner, content, a link instead of a file, a stale file.
	must(t, os.Chmod(key, 0o644))
	must(t, os.Chown(certificate, 1, 0))
	must(t, os.WriteFile(at("binary"), []byte("edited"), 0o640))
	must(t, os.Remove(empty))
	must(t, os.Symlink(certificate, empty))
	must(t, os.Chmod(dir, 0o777))
	must(t, os.WriteFile(stale, nil, 0o644))
	wantChanged(t, apply(t, h, c), key, certificate, at("binary"), empty, dir, stale)
	wantFile(t, key, "key\n", 0o600)
	wantFile(t, empty, "", 0o400)
	wantChanged(t, apply(t, h, c))
}

func inodeOwner(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestApplyRemove(t *testing.T) {
	_, h := newRootMachine(t)
	dir := t.TempDir()
	file, link, full, emptyFile := dir+"/file", dir+"/link", dir+"/full", dir+"/hollow"
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.WriteFile(dir+"/.file.kube-0123", nil, 0o600))
	must(t, os.Mkdir(full, 0o755))
	must(t, os.WriteFile(full+"/.kept", nil, 0o600))
	must(t, os.Symlink(full, link))
	must(t, os.Mkdir(emptyFile, 0o755))
	c := Change{Remove: []string{file, link, full, emptyFile, dir + "/none/none"}}
	wantChanged(t, apply(t, h, c), file, link, emptyFile)
	wantChanged(t, apply(t, h, c))
	if entries := names(t, dir); !slices.Equal(entries, []string{"full"}) {
		t.Errorf("left are %q", entries)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestApplyRefuses(t *testing.T) {
	s, h := newRootMachine(t)
	dir := t.TempDir()
	must(t, os.Mkdir(dir+"/sub", 0o755))
	tests := map[string]struct {
		change Change
		want   string
		sent   bool
	}{
		"relative path": {Change{Files: []File{{Path: "x"}}}, "absolute", false},
		"white space":   {Change{Files: []File{{Path: "/a b"}}}, "absolute", false},
		"unclean path":  {Change{Dirs: []Dir{{Path: "/a/../b"}}}, "clean", false},
		"pattern":       {Change{Remove: []string{"/etc/*"}}, "absolute", false},
		"root":          {Change{Remove: []string{"/"}}, "absolute", false},
		"twice":         {Change{Files: []File{{Path: "/a"}}, Remove: []string{"/a"}}, "twice", false},
		"special mode":  {Change{Files: []File{{Path: "/a", Mode: fs.ModeSetuid | 0o755}}}, "permission bits", false},
		"bad owner":     {Change{Files: []File{{Path: "/a", Owner: "a:b"}}}, "not a user", false},
		"bad user":      {Change{Users: []User{{Name: "-x"}}}, "not a user", false},
		"bad link":      {Change{Links: []Link{{Path: "/a"}}}, "target", false},
		"no parent": {Change{Files: []File{{Path: dir + "/none/f"}}}, "directory " + dir + "/none for " + dir +
			"/none/f does not exist", true},
		"file is directory": {Change{Files: []File{{Path: dir + "/sub"}}}, "is a directory", true},
		"link is directory": {Change{Links: []Link{{Path: dir + "/sub", Target: "x"}}}, "is a directory", true},
		"directory is file": {Change{Dirs: []Dir{{Path: "/etc/hostname"}}}, "is not a directory", true},
		"unknown owner":     {Change{Files: []File{{Path: dir + "/f", Owner: "nobody-at-all"}}}, "nobody-at-all", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(s.commandLines())
			_, err := h.Apply(t.Context(), test.change)
			mustContain(t, err, test.want)
			if sent := len(s.commandLines()) > before; sent != test.sent {
				t.Errorf("sent to the machine: %v, want %v", sent, test.sent)
			}
			if left := names(t, dir); !slices.Equal(left, []string{"sub"}) {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestApplyNothingBeforeAllIsStaged: if one file cannot be written, all others stay unchanged.
func TestApplyNothingBeforeAllIsStaged(t *testing.T) {
	_, h := newRootMachine(t)
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/a", []byte("old"), 0o600))
	_, err := h.Apply(t.Context(), Change{Files: []File{
		{Path: dir + "/a", Content: []byte("new"), Mode: 0o600},
		{Path: dir + "/none/b", Mode: 0o600},
	}})
	mustContain(t, err, "does not exist")
	wantFile(t, dir+"/a", "old", 0o600)
	if left := names(t, dir); !slices.Equal(left, []string{"a"}) {
		t.Errorf("left behind: %q", left)
	}
}

// TestApplyFailedScript: paths whose script failed count as changed for the next one too, and are marked until then.
func TestApplyFailedScript(t *testing.T) {
	_, h := newRootMachine(t)
	dir := t.TempDir()
	c := Change{Files: []File{{Path: dir + "/a", Mode: 0o600}}, Script: "echo broken >&2; exit 9"}
	_, err := h.Apply(t.Context(), c)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 9 || exit.Stderr != "broken" {
		t.Fatalf("error %v, want the script's", err)
	}
	marked := func() bool {
		t.Helper()
		facts, err := h.Observe(t.Context(), Query{Files: []string{AlteredMark(dir + "/a")}})
		if err != nil {
			t.Fatal(err)
		}
		return len(facts.Files) > 0
	}
	if !marked() {
		t.Error("nothing says that the script has not completed")
	}
	c.Files = append(c.Files, File{Path: dir + "/b", Mode: 0o600})
	c.Script = "echo $CHANGED"
	applied := apply(t, h, c)
	wantChanged(t, applied, dir+"/a", dir+"/b")
	if marked() {
		t.Error("a script that has completed counts as cut off")
	}
	wantChanged(t, apply(t, h, c))
}

const secret = "very-secret-content"

// TestApplyHidesSecrets: secrets appear on no command line, and never in a file that other
// users could read, not even while it is being written.
func TestApplyHidesSecrets(t *testing.T) {
	s, h := newRootMachine(t)
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	content := bytes.Repeat([]byte(secret), 300_000)
	stop, watched := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		defer func() { watched <- seen }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, name := range namesOrNone(dir) {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					continue
				}
				seen++
				if info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %v", name, info.Mode())
				}
			}
		}
	}()
	apply(t, h, Change{Files: []File{{Path: dir + "/key", Content: content, Mode: 0o600, Owner: "daemon"}}})
	close(stop)
	if seen := <-watched; seen == 0 {
		t.Error("the watcher saw nothing")
	}
	for _, line := range s.commandLines() {
		if strings.Contains(line, secret) || strings.Contains(line, fmt.Sprintf("%x", secret)) {
			t.Error("the secret is on a command line")
		}
	}
}

func namesOrNone(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestApplyOverLostNetwork loses the connection in the middle of the content.
func TestApplyOverLostNetwork(t *testing.T) {
	s, h := newRootMachine(t)
	dir := t.TempDir()
	files := []File{
		{Path: dir + "/a", Content: bytes.Repeat([]byte("a"), 100_000), Mode: 0o600},
		{Path: dir + "/b", Content: bytes.Repeat([]byte("b"), 100_000), Mode: 0o644},
	}
	must(t, os.WriteFile(dir+"/a", []byte("old"), 0o600))
	for _, after := range []int64{10, 200, 50_000, 150_000} {
		s.cutAfter = after
		_, err := h.Apply(t.Context(), Change{Files: files})
		if !errors.Is(err, ErrUnreachable) {
			t.Fatalf("cut after %d bytes: %v, want ErrUnreachable", after, err)
		}
		eventually(t, "what was staged is removed again", func() bool {
			return slices.Equal(names(t, dir), []string{"a"})
		})
		wantFile(t, dir+"/a", "old", 0o600)
	}
	s.cutAfter = 0
	wantChanged(t, apply(t, h, Change{Files: files}), dir+"/a", dir+"/b")
}

// TestApplyCutOffAnywhere kills the machine's shell before each single command of a change,
// applies the change again, and checks the result: every file is old or new, never partial; and
// a script that completed was told of every change.
func TestApplyCutOffAnywhere(t *testing.T) {
	s, h := newRootMachine(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		testrun.Missing(t, "bash, whose DEBUG trap cuts the script off, is missing")
	}
	root := t.TempDir()
	followed := filepath.Join(root, "followed")
	prepare := func(dir string) Change {
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.WriteFile(dir+"/old", []byte("old"), 0o600))
		must(t, os.WriteFile(dir+"/stale", nil, 0o600))
		return Change{
			Dirs: []Dir{{Path: dir + "/d", Mode: 0o700}},
			Files: []File{
				{Path: dir + "/old", Content: []byte("new"), Mode: 0o600},
				{Path: dir + "/d/more", Content: []byte("more"), Mode: 0o640},
			},
			Links:  []Link{{Path: dir + "/link", Target: "old"}},
			Remove: []string{dir + "/stale"},
			Script: Script("echo $CHANGED >>" + followed),
		}
	}
	cuts, step := 0, 3 // odd steps cover both halves of every pair of commands
	if testing.Short() {
		step = 11
	}
	for complete := false; !complete; cuts += step {
		dir := fmt.Sprintf("%s/%d", root, cuts)
		c := prepare(dir)
		digests, content := applyInput(c.Files)
		script := fmt.Sprintf("set -T; n=%d; trap '[ $((n-=1)) -ge 0 ] || kill -KILL $$' DEBUG\n", cuts) + applyScript(c,
			newToken(), len(digests))
		command := isolated(s.private, bash, "-euc", script)
		command.Stdin = bytes.NewReader(append(digests, content...))
		complete = command.Run() == nil

		text, err := os.ReadFile(dir + "/old")
		if err != nil || string(text) != "old" && string(text) != "new" {
			t.Fatalf("cut %d: the file holds %q, %v", cuts, text, err)
		}
		apply(t, h, c)
		wantFile(t, dir+"/old", "new", 0o600)
		wantFile(t, dir+"/d/more", "more", 0o640)
		if left := names(t, dir); !slices.Equal(left, []string{"d", "link", "old"}) {
			t.Fatalf("cut %d: left are %q", cuts, left)
		}
		if left := names(t, dir+"/d"); !slices.Equal(left, []string{"more"}) {
			t.Fatalf("cut %d: left are %q", cuts, left)
		}
		recorded, err := os.ReadFile(followed)
		must(t, err)
		for _, p := range changePaths(c) {
			if !strings.Contains(string(recorded), p) {
				t.Fatalf("cut %d: no script that got to its end was told of %s: %s", cuts, p, recorded)
			}
		}
		must(t, os.Remove(followed))
	}
	t.Logf("cut off in every %d. place of %d", step, cuts)
	if cuts < 50 {
		t.Errorf("only %d cuts: the trap does not reach into functions", cuts)
	}
}

func TestApplyCancelled(t *testing.T) {
	_, h := newRootMachine(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	c := Change{Files: []File{{Path: dir + "/a", Mode: 0o600}}, Script: Script("touch " + dir + "/began; sleep 300")}
	go func() {
		_, err := h.Apply(ctx, c)
		done <- err
	}()
	eventually(t, "the script runs", func() bool { return slices.Contains(names(t, dir), "began") })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	c.Script = "echo again"
	wantChanged(t, apply(t, h, c), dir+"/a")
}

func TestParseApplied(t *testing.T) {
	paths := []string{"/a", "/b"}
	got, err := parseApplied("/b\n/a\n/b\n--\nout\n--\n", paths)
	if err != nil || !slices.Equal(got.Changed, []string{"/a", "/b"}) || got.Output != "out\n--\n" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, cut := range []string{"", "/a", "/a\n"} {
		if _, err := parseApplied(cut, paths); err == nil {
			t.Errorf("a report that breaks off after %q is taken for whole", cut)
		}
	}
	if _, err := parseApplied("/a\n/etc/shadow\n--\n", paths); err == nil {
		t.Error("a path that was not to be changed is taken for changed")
	}
}

func TestUnitNames(t *testing.T) {
	const units = "/etc/systemd/system/"
	got := unitNames(Change{
		Files: []File{
			{Path: units + "etcd.service"},
			{Path: units + "etcd.service.d/10-flags.conf"},
			{Path: "/etc/etcd/x.service"},
			{Path: units + "a.timer.d/x.conf"},
		},
		Links:  []Link{{Path: units + "multi-user.target.wants/etcd.service"}},
		Remove: []string{units + "old.service"},
	})
	if want := []string{"etcd.service", "a.timer", "old.service"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
