package simulated

import (
	"fmt"
	"strings"
)

// ask answers the script of a query.
func (m *machine) ask(script string) (string, error) {
	switch {
	case strings.Contains(script, "show stat -1 4 -1"):
		return m.balancer(script), nil
	case strings.Contains(script, eachName):
		return m.replica(script), nil
	case strings.HasPrefix(script, eachFile):
		return m.printed(script), nil
	case strings.Contains(script, "\nmember_report "), // no machine has static pods
		strings.Contains(script, "\nreplica_report "),
		strings.Contains(script, "kubelet_config="),              // nor a kubelet
		strings.Contains(script, "blkid -c /dev/null -o device"): // nor a volume that is not mounted
		return "", nil
	}
	return "", fmt.Errorf("not simulated: script %.120q", script)
}

const (
	separator   = "--\n"
	haproxyUnit = "kube-endpoint-haproxy.service"
	keepalived  = "kube-endpoint-keepalived.service"
)

// balancer answers an endpoint's query: addresses, neighbours, statistics.
func (m *machine) balancer(script string) string {
	var out strings.Builder
	if strings.Contains(script, "ip -o address show\n") {
		fmt.Fprintf(&out, "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet %s/24 brd + scope global eth0\n",
			m.address)
		if m.cluster.machines[0] == m && m.units[keepalived] != nil && m.units[keepalived].active {
			fmt.Fprintf(&out, "2: eth0    inet %s/32 scope global eth0\n", m.cluster.vip)
		}
	}
	out.WriteString(separator + separator)
	if m.units[haproxyUnit] != nil && m.units[haproxyUnit].active {
		out.WriteString("# pxname,svname,scur,status,check_status,check_desc,last_chk,addr,\n")
		for _, s := range m.backends() {
			fmt.Fprintf(&out, "kube-apiserver,%s,0,UP,L7OK,Layer7 check passed,,%s,\n", s[0], s[1])
		}
	}
	return out.String()
}

// Text that identifies a replica's query: a loop over kubeconfigs and one over components.
const (
	eachFile = "for file in "
	eachName = "for name in "
)

// replica answers with kubeconfigs without their keys, and with the running programs.
func (m *machine) replica(script string) string {
	var out strings.Builder
	for _, p := range loop(script, eachFile) {
		f, there := m.files[p]
		if !there {
			continue
		}
		out.WriteString("=== " + p + "\n")
		for line := range strings.Lines(f.content) {
			if !strings.Contains(line, "client-key-data:") {
				out.WriteString(line)
			}
		}
	}
	for _, name := range loop(script, eachName) {
		if u := m.units[name+".service"]; u != nil && u.active {
			fmt.Fprintf(&out, "=== %s\n%s\n", name, m.command(name+".service").Program)
		}
	}
	return out.String()
}

// printed answers the script of controlplane/machine.PrintFiles.
func (m *machine) printed(script string) string {
	var out strings.Builder
	for _, p := range loop(script, eachFile) {
		if f, there := m.files[p]; there {
			out.WriteString("=== " + p + "\n" + f.content + "\n")
		}
	}
	return out.String()
}

// loop returns the words that a loop of a script iterates over; none without the loop.
func loop(script, head string) []string {
	_, rest, _ := strings.Cut(script, head)
	words, _, _ := strings.Cut(rest, ";")
	return strings.Fields(words)
}
