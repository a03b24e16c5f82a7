package firewall

import (
	"fmt"
	"net/netip"
	"strings"
)

// tableName is the table of the rules in nftables.
const tableName = "kube_control_plane"

// NFTables returns, for each machine, a file for "nft -f" that drops everything that comes in and that
// the control plane does not need, and, with DropEgress, what goes out. Loading it again replaces the
// table. Connections of the machine with itself, and what ICMP says about connections, are let through:
// IPv6 does not work without.
func (s Site) NFTables() map[string]string {
	rules := s.Rules()
	files := map[string]string{}
	for _, machine := range s.machines(Machines) {
		var b strings.Builder
		// The empty table makes the first load work, where there is none to delete.
		fmt.Fprintf(&b, "table inet %[1]s\ndelete table inet %[1]s\ntable inet %[1]s {\n", tableName)
		writeChain(&b, "input", "iif", rulesOf(rules, machine, Ingress))
		if s.DropEgress {
			writeChain(&b, "output", "oif", rulesOf(rules, machine, Egress))
		}
		b.WriteString("}\n")
		files[machine.String()] = b.String()
	}
	return files
}

// writeChain writes a chain of a hook that drops what no rule accepts. device is nftables' name of the
// interface that a packet comes from or goes to.
func writeChain(b *strings.Builder, hook, device string, rules []Rule) {
	fmt.Fprintf(b, "  chain %[1]s {\n    type filter hook %[1]s priority filter; policy drop;\n"+
		"    ct state established,related accept\n    %[2]s lo accept\n"+
		"    meta l4proto { icmp, ipv6-icmp } accept\n", hook, device)
	for _, r := range rules {
		fmt.Fprintf(b, "    %s comment \"%s\"\n", r.nftables(), r.Name)
	}
	b.WriteString("  }\n")
}

// nftables returns a rule as nftables has it.
func (r Rule) nftables() string {
	side := "saddr"
	if r.Direction == Egress {
		side = "daddr"
	}
	if r.Remote.Bits() == 0 {
		return fmt.Sprintf("meta nfproto %s %s accept", family(r.Remote, "ipv4", "ipv6"), nftPort(r))
	}
	return fmt.Sprintf("%s %s %s %s accept", family(r.Remote, "ip", "ip6"), side, r.Remote, nftPort(r))
}

// richRule returns an ingress rule as firewalld has it.
func (r Rule) richRule() string {
	opened := fmt.Sprintf(`port port="%d" protocol="%s"`, r.Port, r.Protocol)
	if r.Protocol == VRRP {
		opened = `protocol value="vrrp"`
	}
	return fmt.Sprintf(`rule family="%s" source address="%s" %s accept`, family(r.Remote, "ipv4", "ipv6"), r.Remote,
		opened)
}

// What returns the protocol and port of a rule in words, as administrators know them.
func (r Rule) What() string {
	if r.Protocol == VRRP {
		return "VRRP (IP protocol 112)"
	}
	return fmt.Sprintf("%s %d", strings.ToUpper(string(r.Protocol)), r.Port)
}

// Missing says which rule of a firewall is missing, in words and as the usual firewalls have it, if the
// connections of an ingress rule are closed.
func (r Rule) Missing() string {
	return fmt.Sprintf("let %[1]s in on %[2]s from %[3]s (ingress; nftables: %[4]s; firewalld: firewall-cmd "+
		"--permanent --add-rich-rule='%[5]s'; security group: inbound %[1]s from %[6]s). If %[2]s lets it in already, "+
		"let %[1]s out on %[3]s to %[2]s (egress), and through what is between them",
		r.What(), r.Machine, r.Remote.Addr(), r.nftables(), r.richRule(), r.Remote)
}

func nftPort(r Rule) string {
	if r.Protocol == VRRP {
		return "meta l4proto 112"
	}
	return fmt.Sprintf("%s dport %d", r.Protocol, r.Port)
}

func family(p netip.Prefix, four, six string) string {
	if p.Addr().Is4() {
		return four
	}
	return six
}

// RichRules returns, for each machine, firewalld's rich rules for what the control plane needs.
func (s Site) RichRules() map[string][]string {
	rules := s.Rules()
	lists := map[string][]string{}
	for _, machine := range s.machines(Machines) {
		list := []string{}
		for _, r := range rulesOf(rules, machine, Ingress) {
			list = append(list, r.richRule())
		}
		lists[machine.String()] = list
	}
	return lists
}

// Table returns the flows as a table for the documentation.
func Table() string {
	var b strings.Builder
	b.WriteString("| rule | from | to | protocol | port | endpoints | what for |\n|---|---|---|---|---|---|---|\n")
	for _, f := range Flows {
		port := "–"
		switch {
		case f.Setting != "" && f.Port != 0:
			port = fmt.Sprintf("%d (`%s`)", f.Port, f.Setting)
		case f.Setting != "":
			port = fmt.Sprintf("`%s`", f.Setting)
		case f.Port != 0:
			port = fmt.Sprint(f.Port)
		}
		kinds := "all"
		if len(f.Kinds) > 0 {
			kinds = "`" + strings.Join(f.Kinds, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", f.Name, words(f.From), words(f.To),
			strings.ToUpper(string(f.Protocol)), port, kinds, f.Purpose)
	}
	return b.String()
}

func words(r Role) string { return strings.ReplaceAll(string(r), "_", " ") }
