package simulated

import (
	"bufio"
	"fmt"
	"io"
)

// lease holds a lease until its standard input ends.
func (m *machine) lease(script string, stdin io.Reader, stdout io.Writer) error {
	vars := variables(script)
	name := vars["name"]
	answer, taken := m.takeLease(name, vars["expected"])
	_, _ = io.WriteString(stdout, answer)
	if !taken {
		return nil
	}
	defer m.giveLease(name)
	if buffered, is := stdout.(*bufio.Writer); is {
		_ = buffered.Flush()
	}
	_, _ = io.Copy(io.Discard, stdin) // heartbeats
	return nil
}

// takeLease takes a lease, as lease.sh of package host does.
func (m *machine) takeLease(name, expected string) (answer string, taken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	times := m.leases[name]
	switch {
	case times < 0:
		return "held\nanother process\n", false
	case expected == "":
		times++
	case expected != fmt.Sprint(times):
		return "changed\n", false
	}
	m.leases[name] = -times
	return fmt.Sprintf("taken %d\n", times), true
}

func (m *machine) giveLease(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases[name] = -m.leases[name]
}
