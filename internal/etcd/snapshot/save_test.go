package snapshot

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
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

// TestSaveScript saves a snapshot into a directory that is made for it, and another one there.
func TestSaveScript(t *testing.T) {
	dir := t.TempDir()
	tools, data := filepath.Join(dir, "tools"), filepath.Join(dir, "etcd")
	err := errors.Join(os.Mkdir(tools, 0o755), os.Mkdir(data, 0o755),
		os.WriteFile(tools+"/etcdctl", []byte(`#!/bin/sh
for file; do :; done
printf data >"$file"
printf data | sha256sum | cut -c 1-64 | sed 's/../0x& /g' | awk '{ for (i = 1; i <= NF; i++) print $i }' |
  while read -r byte; do printf "\\$(printf %o "$byte")"; done >>"$file"
`), 0o755),
		os.WriteFile(tools+"/etcdutl", []byte("#!/bin/sh\n[ -f \"$3\" ] && echo '{\"revision\":7,\"totalKey\":2}'\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
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
