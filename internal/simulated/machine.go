package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	replica "github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// machine is one simulated machine.
type machine struct {
	fleet    *Fleet
	cluster  *cluster
	name     string
	address  string
	id       string
	listener net.Listener
	servers  servers
	front    atomic.Pointer[front]
	agents   atomic.Pointer[func() bool] // whether its proxy server has one; nil for no
	listed   atomic.Pointer[pb.Member]   // an additional member that its etcd lists; nil for none

	mu    sync.Mutex
	files map[string]file
	dirs  map[string]file
	units map[string]*unit
	pids  int

	leases map[string]int // how often each was held; negative while it is held
}

// file is a file, or a directory without content.
type file struct {
	content      string
	mode         string // octal
	owner, group string
	digest       string
}

func (f file) rawMode(kind uint64) string {
	var mode uint64
	_, _ = fmt.Sscanf(f.mode, "%o", &mode)
	return fmt.Sprintf("%x", kind|mode)
}

// unit is systemd's state of a unit that has a file.
type unit struct {
	active  bool
	enabled bool
	pid     int
	since   string
}

func newMachine(f *Fleet, c *cluster, name, address string) *machine {
	sum := sha256.Sum256([]byte(address))
	return &machine{
		fleet: f, cluster: c, name: name, address: address, id: hex.EncodeToString(sum[:16]),
		files: map[string]file{}, dirs: map[string]file{}, units: map[string]*unit{}, pids: 100,
		leases: map[string]int{},
	}
}

func (m *machine) write(p string, f file) {
	sum := sha256.Sum256([]byte(f.content))
	f.digest = hex.EncodeToString(sum[:])
	m.files[p] = f
}

func (m *machine) content(p string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.files[p].content
}

// entries returns the names directly below a directory.
func (m *machine) entries(dir string) []string {
	names := map[string]bool{}
	for _, all := range []map[string]file{m.files, m.dirs} {
		for p := range all {
			if rest, below := strings.CutPrefix(p, dir+"/"); below {
				name, _, _ := strings.Cut(rest, "/")
				names[name] = true
			}
		}
	}
	var sorted []string
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

const unitDir = "/etc/systemd/system/"

// unit returns the unit of a name; nil if it has no file.
func (m *machine) unit(name string) *unit {
	if _, there := m.files[unitDir+name]; !there {
		return nil
	}
	if m.units[name] == nil {
		m.units[name] = &unit{}
	}
	return m.units[name]
}

// start has the effects of starting the unit: a process, the start note, and etcd's data.
func (m *machine) start(name string) error {
	u := m.unit(name)
	if u == nil {
		return fmt.Errorf("Unit %s not found", name) //nolint:staticcheck // systemd's words
	}
	m.pids++
	u.active, u.pid, u.since = true, m.pids, "Mon 2026-01-05 10:00:00 UTC"
	text := m.files[unitDir+name].content
	m.noteStart(text)
	if dir := m.command(name).Flags["data-dir"]; dir != "" {
		m.dirs[dir+"/member"] = file{mode: "700", owner: "etcd", group: "etcd"}
	}
	return nil
}

// noteStart has the effect of the line of systemd.StartNote in a unit.
func (m *machine) noteStart(unit string) {
	head, tail, _ := strings.Cut(systemd.StartNote("|"), "|")
	for line := range strings.Lines(unit) {
		rest, is := strings.CutPrefix(line, strings.TrimSuffix(head, " >"))
		if !is {
			continue
		}
		inputs, note, _ := strings.Cut(strings.TrimSuffix(rest, tail+"\n"), ">")
		var text strings.Builder
		for _, input := range strings.Fields(inputs) {
			text.WriteString(systemd.StartNoteEntry(m.files[input].digest, input))
		}
		m.write(note, file{content: text.String(), mode: "644", owner: "root", group: "root"})
	}
}

// command returns the command of a unit; empty if it cannot be parsed.
func (m *machine) command(name string) systemd.Command {
	command, _, _ := systemd.ParseUnit(m.files[unitDir+name].content)
	return command
}

// version returns the version of a unit's running program, from its path.
func (m *machine) version(name string) string { return path.Base(path.Dir(m.command(name).Program)) }

// active reports whether the unit runs.
func (m *machine) active(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.units[name] != nil && m.units[name].active
}

// execute runs one command line.
func (m *machine) execute(line string, stdin io.Reader, stdout io.Writer) error {
	lines, err := calls(line)
	if err != nil || len(lines) != 1 {
		return fmt.Errorf("not a command of package host: %.80q", line)
	}
	words := lines[0]
	at := slices.Index(words, "-euc")
	if at < 0 || at+1 >= len(words) {
		return fmt.Errorf("not a command of package host: %.80q", line)
	}
	script := words[at+1]
	for _, known := range kinds() {
		if strings.Contains(script, known.mark) {
			m.fleet.note(known.name)
			return known.run(m, script, stdin, stdout)
		}
	}
	return fmt.Errorf("not simulated: %.200q", script)
}

// kind is a kind of command, identified by text that only its script contains.
type kind struct {
	name, mark string
	run        func(m *machine, script string, stdin io.Reader, stdout io.Writer) error
}

// leaseMark occurs only in lease.sh of package host.
const leaseMark = `exec 9>>"$leases/$name.lock"`

// unconfined answers for a machine without firewalld and SELinux.
func (*machine) unconfined(string, io.Reader, io.Writer) error { return nil }

// finish ends the change of a replica, which cannot be rolled back any more.
func (m *machine) finish(script string, _ io.Reader, _ io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.act(script)
}

func kinds() []kind {
	return []kind{
		{"observe", "\nbasics\n", (*machine).observe},
		{"change", "\nreload_units", (*machine).change},
		{"barrier", "/sys/fs/selinux/enforce", (*machine).unconfined},
		{"listen", "systemd-socket-activate", (*machine).unconfined}, // as without systemd-socket-activate
		{"install", "\nreceive ", (*machine).receive},
		{"claim", "echo claimed", (*machine).claim},
		{"reach", "# Prints whether this machine reaches the endpoint", (*machine).reach},
		{"register", "enable health kube-apiserver/", (*machine).register},
		{"lease", leaseMark, (*machine).lease},
		{"finish", "rm -rf " + replica.KeptFilesDir, (*machine).finish},
		{"end what was left", "PPid:", func(*machine, string, io.Reader, io.Writer) error { return nil }},
	}
}
