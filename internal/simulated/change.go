package simulated

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// change executes the calls of apply.sh's functions, and the effects on units of the script
// after them.
func (m *machine) change(script string, stdin io.Reader, stdout io.Writer) error {
	input, err := io.ReadAll(stdin)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	_, tail, _ := strings.Cut(script, "\ntoken=")
	lines, err := calls(tail)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := applying{machine: m, input: input}
	for _, call := range lines {
		if err := c.do(call); err != nil {
			return err
		}
	}
	for _, p := range c.changed {
		fmt.Fprintln(stdout, p)
	}
	fmt.Fprintln(stdout, "--")
	fmt.Fprint(stdout, c.output)
	return nil
}

// applying is one change in progress.
type applying struct {
	machine *machine
	input   []byte // content that is not consumed yet
	changed []string
	output  string // of the script after them
}

func (c *applying) do(call []string) error {
	m := c.machine
	switch call[0] {
	case "same=$(head": // -c SIZE | sha256sum: the digests come before the content
		return c.skip(call[2])
	case "dir": // PATH ID MODE OWNER RAWMODE
		owner, group, _ := strings.Cut(call[4], ":")
		if was, there := m.dirs[call[1]]; !there || was.mode != call[3] || was.owner != owner {
			c.changed = append(c.changed, call[1])
		}
		m.dirs[call[1]] = file{mode: call[3], owner: owner, group: group}
	case "stage": // PATH ID SIZE MODE OWNER RAWMODE UMASK
		return c.stage(call)
	case "link": // PATH ID TARGET
		name := call[3][strings.LastIndex(call[3], "/")+1:]
		if u := m.unit(name); u != nil {
			u.enabled = true
		}
	case "gone": // PATH ID
		if _, there := m.files[call[1]]; there {
			delete(m.files, call[1])
			c.changed = append(c.changed, call[1])
		}
	case `CHANGED=$changed`: // sh -euc SCRIPT kube </dev/null
		c.output = savedSnapshot(call[3])
		return m.act(call[3])
	}
	return nil
}

func (c *applying) skip(size string) error {
	n, err := strconv.Atoi(size)
	if err != nil || n > len(c.input) {
		return fmt.Errorf("not simulated: digests of %s bytes", size)
	}
	c.input = c.input[n:]
	return nil
}

func (c *applying) stage(call []string) error {
	size, err := strconv.Atoi(call[3])
	if err != nil || size > len(c.input) {
		return fmt.Errorf("standard input ended early: %s", call[1])
	}
	owner, group, _ := strings.Cut(call[5], ":")
	next := file{content: string(c.input[:size]), mode: call[4], owner: owner, group: group}
	c.input = c.input[size:]
	if was, there := c.machine.files[call[1]]; !there || was.content != next.content || was.mode != next.mode ||
		was.owner != next.owner {
		c.changed = append(c.changed, call[1])
	}
	c.machine.write(call[1], next)
	return nil
}

const (
	backendsPath = "/etc/haproxy/kube/20-backends.cfg"
	recordPath   = "/etc/haproxy/kube/endpoint.json"
	serverPrefix = "    server "
)

// savedSnapshot returns what a script prints that saves a snapshot: see internal/etcd/snapshot/save.sh. There is no
// file.
func savedSnapshot(script string) string {
	if !strings.Contains(script, "snapshot save") {
		return ""
	}
	return "size 20512\n" + `{"hash":1,"revision":1,"totalKey":1,"totalSize":20480}` + "\n"
}

// act executes the effects of the script after a change on files and units. Commands that only
// read or wait are skipped.
func (m *machine) act(script string) error {
	if servers, ok := variables(script)["servers"]; ok && m.files[backendsPath].content == "" {
		m.write(backendsPath, file{content: servers, mode: "644", owner: "root", group: "root"})
	}
	unit := ""
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "unit="):
			unit = strings.TrimPrefix(words[0], "unit=")
		case len(words) == 0:
		case words[0] == "member_start": // see internal/etcd/machine/runtime.sh
			if err := m.start("etcd.service"); err != nil {
				return err
			}
		case words[0] == "rm":
			for _, p := range words[1:] {
				delete(m.files, p)
			}
		case words[0] == "settle" && strings.HasSuffix(words[1], ".service"):
			if u := m.unit(words[1]); u == nil || !u.active {
				if err := m.start(words[1]); err != nil {
					return err
				}
			}
		case words[0] == "systemctl":
			if err := m.systemctl(words[1], words[2:], unit); err != nil {
				return err
			}
		}
	}
	return nil
}

// systemctl enables or starts units. A word in quotes is a function's variable.
func (m *machine) systemctl(verb string, words []string, unit string) error {
	for _, name := range words {
		if name == "$unit" {
			name = unit
		}
		u := m.unit(name)
		switch {
		case strings.HasPrefix(name, "-") || strings.HasPrefix(name, `"`):
		case verb == "enable" && u != nil:
			u.enabled = true
		case verb == "start" || verb == "restart":
			if err := m.start(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// claim writes the record of an endpoint.
func (m *machine) claim(script string, _ io.Reader, stdout io.Writer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(recordPath, file{content: variables(script)["record"], mode: "644", owner: "root", group: "root"})
	_, _ = io.WriteString(stdout, "claimed\n")
	return nil
}

// reach connects to the endpoint.
func (*machine) reach(_ string, _ io.Reader, stdout io.Writer) error {
	_, _ = io.WriteString(stdout, "reached\n")
	return nil
}

// register adds a server to the load balancer's list.
func (m *machine) register(script string, _ io.Reader, stdout io.Writer) error {
	vars := variables(script)
	name := vars["name"]
	if name == "" || vars["line"] == "" {
		return fmt.Errorf("not simulated: %.80q", script)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list, there := m.files[backendsPath]
	if !there {
		_, _ = io.WriteString(stdout, "absent\n")
		return nil
	}
	var header string
	servers := []string{vars["line"] + "\n"}
	for line := range strings.Lines(list.content) {
		switch {
		case !strings.HasPrefix(line, serverPrefix):
			header += line
		case !strings.HasPrefix(line, serverPrefix+name+" "):
			servers = append(servers, line)
		}
	}
	slices.Sort(servers)
	list.content = header + strings.Join(servers, "")
	m.write(backendsPath, list)
	_, _ = io.WriteString(stdout, "up\n")
	return nil
}

// backends returns name and address of the servers in the list.
func (m *machine) backends() [][2]string {
	var all [][2]string
	for line := range strings.Lines(m.files[backendsPath].content) {
		if rest, is := strings.CutPrefix(line, serverPrefix); is {
			if fields := strings.Fields(rest); len(fields) >= 2 {
				all = append(all, [2]string{fields[0], fields[1]})
			}
		}
	}
	return all
}

// receive receives one program; its content does not matter here.
func (m *machine) receive(script string, stdin io.Reader, _ io.Writer) error {
	_, tail, _ := strings.Cut(script, "\nreceive ")
	words := strings.Fields(tail)
	content, err := io.ReadAll(stdin)
	if err != nil || len(words) < 3 {
		return fmt.Errorf("not simulated: receive %q: %w", words, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.write(words[0], file{content: string(content), mode: "755", owner: "root", group: "root"})
	return nil
}
