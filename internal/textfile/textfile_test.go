package textfile

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

var writer = Writer{
	Resource: "kube_etcd_member", Name: "etcd-facts", Script: "/etc/etcd/facts.sh", Directory: "/var/lib/node",
	Period: time.Minute,
}

// onMachine returns what a machine has of the job of a writer.
func onMachine(w Writer) host.Facts {
	facts := host.Facts{
		Files: map[string]host.FileState{},
		Units: map[string]host.UnitState{w.Job().Timer(): {Load: "loaded", Active: "active", Enabled: "enabled"}},
	}
	for _, file := range w.Job().Files {
		facts.Files[file.Path] = host.FileState{
			Content: string(file.Content), SHA256: fmt.Sprintf("%x", sha256.Sum256(file.Content)),
			Mode: file.Mode, Owner: "root",
		}
	}
	return facts
}

func TestValidateDirectory(t *testing.T) {
	for dir, ok := range map[string]bool{
		"/var/lib/prometheus/node-exporter": true, "/run/x": true, "": false, "/": false, "var/lib": false,
		"/var/../etc": false,
		"/var/lib/":   false, "/var//lib": false, "/var/l ib": false, "/var/$(reboot)": false, "/var/'x": false,
		"/a\n/b":                       false,
		"/" + strings.Repeat("a", 200): false,
	} {
		if err := ValidateDirectory(dir); (err == nil) != ok {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// TestDirectoryIn: an import reads the directory from the script, and nothing that somebody else wrote.
func TestDirectoryIn(t *testing.T) {
	if got := writer.DirectoryIn(onMachine(writer).Files); got != "/var/lib/node" {
		t.Errorf("read %q", got)
	}
	if got := writer.DirectoryIn(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	for name, script := range map[string]string{
		"another file": "output=/etc/shadow\n", "a command": "output='$(reboot)/kube_etcd_member.prom'\n", "cut off": "outp",
	} {
		files := onMachine(writer).Files
		files[writer.Script] = host.FileState{Content: script}
		if got := writer.DirectoryIn(files); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	foreign := map[string]host.FileState{writer.Script: {Content: "output=/var/lib/node/kube_etcd_member.prom\n"}}
	if got := writer.DirectoryIn(foreign); got != "" {
		t.Errorf("of somebody else: %q", got)
	}
}

// TestStale: what was written elsewhere, or is not wanted any more, is removed.
func TestStale(t *testing.T) {
	facts := onMachine(writer)
	for name, c := range map[string]struct {
		directory string
		action    timer.Action
		removed   string
	}{
		"another directory": {"/srv/node", timer.Left, "/var/lib/node/kube_etcd_member.prom"},
		"off":               {"", timer.Off, "/var/lib/node/kube_etcd_member.prom"},
	} {
		w := writer
		w.Directory = c.directory
		_, action := w.Job().Repair(facts)
		if stale := strings.Join(w.Stale(facts.Files), " "); action != c.action || stale != c.removed {
			t.Errorf("%s: action %d, removed %s", name, action, stale)
		}
	}
	if stale, commands := writer.Forget(facts.Files); len(stale) > 0 || commands != "" {
		t.Errorf("unchanged: removed %v, %s", stale, commands)
	}
}

func TestProblems(t *testing.T) {
	facts := host.Facts{Commands: map[string]string{"openssl": "/usr/bin/openssl", "curl": "/usr/bin/curl"}}
	if problems := writer.Problems(facts); len(problems) > 0 {
		t.Errorf("with both: %v", problems)
	}
	delete(facts.Commands, "openssl")
	if problems := strings.Join(writer.Problems(facts), " "); !strings.Contains(problems, "openssl is not installed") {
		t.Errorf("without openssl: %q", problems)
	}
	facts.Files = map[string]host.FileState{writer.Job().TimerPath(): {Content: "[Timer]\n"}}
	if problems := strings.Join(writer.Problems(facts), " "); !strings.Contains(problems, "not written by the provider") {
		t.Errorf("with somebody else's timer: %q", problems)
	}
	off := writer
	off.Directory = ""
	if problems := off.Problems(host.Facts{}); len(problems) > 0 {
		t.Errorf("off: %v", problems)
	}
}

// TestSeriesOfResources: files of several resources on one machine may not have the same series, which
// node_exporter would refuse as a whole.
func TestSeriesOfResources(t *testing.T) {
	script, err := os.ReadFile("facts.sh")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(script)) {
		if strings.Contains(line, "printf 'kube_") || strings.Contains(line, "echo kube_") {
			t.Errorf("a series without the label resource: %s", line)
		}
	}
}
