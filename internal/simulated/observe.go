package simulated

import (
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// installed are the programs that a query may look up.
var installed = []string{"haproxy", "keepalived", "perl", "apt-get", "curl"}

// observe answers the calls of observe.sh's functions.
func (m *machine) observe(script string, _ io.Reader, stdout io.Writer) error {
	_, tail, _ := strings.Cut(script, "\nbasics\n")
	lines, err := calls(tail)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	fmt.Fprintf(stdout, "clock\t%d.%09d\n", now.Unix(), now.Nanosecond())
	fmt.Fprintf(stdout, "machine-id\t%s\nboot-id\t%s\nhostname\t%s\nmachine\tx86_64\nos\tID=debian\nsystemd\t252\n", m.id,
		bootID(m.id), m.name)
	for _, call := range lines {
		if err := m.answer(stdout, call[0], call[1:]); err != nil {
			return err
		}
	}
	return nil
}

// bootID returns an ID in the kernel's format.
func bootID(id string) string {
	return strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
}

func (m *machine) answer(out io.Writer, function string, words []string) error {
	switch function {
	case "files":
		for _, p := range words {
			m.state(out, p)
		}
	case "digests":
		for _, p := range words {
			if f, there := m.files[p]; there {
				fmt.Fprintf(out, "digest\t%s  %s\n", f.digest, p)
			}
		}
	case "contents":
		var all []string // as head -v prints them
		for _, p := range words {
			if f, there := m.files[p]; there {
				all = append(all, "==> "+p+" <==\n"+f.content)
			}
		}
		fmt.Fprintf(out, "contents\t%s\n", base64.StdEncoding.EncodeToString([]byte(strings.Join(all, "\n"))))
	case "notes":
		mark := bootID(m.id)
		var all strings.Builder
		for _, p := range words {
			if f, there := m.files[p]; there {
				all.WriteString(mark + " " + p + "\n" + f.content)
			}
		}
		fmt.Fprintf(out, "notes\t%s\t%s\n", mark, base64.StdEncoding.EncodeToString([]byte(all.String())))
	case "binaries":
		for _, p := range words {
			if f, there := m.files[p]; there {
				fmt.Fprintf(out, "recorded\t%s\t%s\ndigest\t%s  %s\n", f.digest, p, f.digest, p)
			}
		}
	case "dir", "shared_dir":
		m.list(out, words[0])
	case "units":
		for i, name := range words {
			m.show(out, name, i > 0)
		}
	case "listeners": // preflight checks only: no other process listens
	case "disk":
		fmt.Fprintf(out, "disk\t%d\t4096\t%s\n", 100<<20, words[0])
	case "programs":
		for _, name := range words {
			if slices.Contains(installed, name) {
				fmt.Fprintf(out, "command\t%s\t/usr/sbin/%s\n", name, name)
			}
		}
	case "script":
		text, err := m.ask(words[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "output\t%s\n", base64.StdEncoding.EncodeToString([]byte(text)))
	case "printf":
		fmt.Fprint(out, "end\t\n")
	default:
		return fmt.Errorf("not simulated: function %s of observe.sh", function)
	}
	return nil
}

// state prints a line of stat.
func (m *machine) state(out io.Writer, p string) {
	if f, there := m.files[p]; there {
		fmt.Fprintf(out, "file\t%s\t%s\t%s\t%d\t%s\n", f.rawMode(0o100000), f.owner, f.group, len(f.content), p)
	} else if d, there := m.dirs[p]; there {
		fmt.Fprintf(out, "file\t%s\t%s\t%s\t4096\t%s\n", d.rawMode(0o040000), d.owner, d.group, p)
	}
}

func (m *machine) list(out io.Writer, dir string) {
	names := m.entries(dir)
	if _, there := m.dirs[dir]; !there && len(names) == 0 {
		return
	}
	fmt.Fprintf(out, "dir\t%s\n", dir)
	for _, name := range names {
		fmt.Fprintf(out, "entry\t%s\n", name)
	}
}

// show prints a block of "systemctl show".
func (m *machine) show(out io.Writer, name string, further bool) {
	if further {
		fmt.Fprint(out, "unit\t\n")
	}
	load, active, sub, enabled, pid, since := "not-found", "inactive", "dead", "", 0, ""
	if u := m.unit(name); u != nil {
		load, enabled = "loaded", map[bool]string{true: "enabled", false: "disabled"}[u.enabled]
		if u.active {
			active, sub, pid, since = "active", "running", u.pid, u.since
		}
	}
	for _, line := range []string{
		"Id=" + name, "LoadState=" + load, "ActiveState=" + active, "SubState=" + sub, "UnitFileState=" + enabled,
		"Result=success",
		fmt.Sprintf("MainPID=%d", pid), "NRestarts=0", "ActiveEnterTimestamp=" + since, "NeedDaemonReload=no",
	} {
		fmt.Fprintf(out, "unit\t%s\n", line)
	}
}
