package barrier

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// debian is the output of observe.sh on a Debian 12 machine with firewalld 1.3.3, whose interface is in
// no zone, and where SELinux is off.
const debian = `default	public
device	eth0
zone	public
	public
	  target: default
	  icmp-block-inversion: no
	  interfaces: 
	  sources: 
	  services: dhcpv6-client ssh
	  ports: 
	  protocols: 
	  forward: yes
	  masquerade: no
	  forward-ports: 
	  source-ports: 
	  icmp-blocks: 
	  rich rules: 
policy	allow-host-ipv6
	allow-host-ipv6 (active)
	  priority: -15000
	  target: CONTINUE
	  ingress-zones: ANY
	  egress-zones: HOST
	  services: 
	  ports: 
	  protocols: 
	  masquerade: no
	  forward-ports: 
	  source-ports: 
	  icmp-blocks: 
	  rich rules: 
		rule family="ipv6" icmp-type name="neighbour-advertisement" accept
		rule family="ipv6" icmp-type name="neighbour-solicitation" accept
		rule family="ipv6" icmp-type name="router-advertisement" accept
		rule family="ipv6" icmp-type name="redirect" accept
service	dhcpv6-client
	dhcpv6-client
	  ports: 546/udp
	  protocols: 
	  source-ports: 
	  modules: 
	  destination: ipv6:fe80::/64
	  includes: 
	  helpers: 
service	ssh
	ssh
	  ports: 22/tcp
	  protocols: 
	  source-ports: 
	  modules: 
	  destination: 
	  includes: 
	  helpers: 
`

var (
	anyone  = []Opening{{Protocol: "tcp", Port: 6443}}
	members = []Opening{
		{Protocol: "tcp", Port: 2380, From: []netip.Addr{netip.MustParseAddr("10.0.0.12"), netip.MustParseAddr("10.0.0.13")}},
	}
	holders = []Opening{
		{Protocol: "tcp", Port: 6443}, {Protocol: VRRP, From: []netip.Addr{netip.MustParseAddr("10.0.0.12")}},
	}
)

func TestClosed(t *testing.T) {
	with := func(old, text string) string { return strings.Replace(debian, old, text, 1) }
	const ports = "  ports: \n\t  protocols: \n\t  forward: yes"
	const rules = "icmp-blocks: \n\t  rich rules: \n"
	rule := func(text string) string { return with(rules, "icmp-blocks: \n\t  rich rules: \n\t\t"+text+"\n") }
	const other = "zone\tinternal\n\tinternal (active)\n\t  target: default\n\t  sources: 10.0.0.0/24 ipset:friends\n" +
		"\t  services: \n\t  ports: 2380/tcp\n\t  protocols: vrrp\n"
	const public = "firewalld does not let in %s (zone public), which other machines need: run " +
		"firewall-cmd --permanent --zone=public %s && firewall-cmd --reload"
	closed := func(what, arguments string) []string {
		return []string{strings.Replace(strings.Replace(public, "%s", what, 1), "%s", arguments, 1)}
	}
	api := closed("6443/tcp", "--add-port=6443/tcp")
	for name, c := range map[string]struct {
		output   string
		openings []Opening
		want     []string
	}{
		"no firewalld": {"", holders, nil},
		"a new firewall": {debian, holders, closed("6443/tcp, vrrp",
			"--add-port=6443/tcp && firewall-cmd --permanent --zone=public --add-protocol=vrrp")},
		"members":       {debian, members, closed("2380/tcp", "--add-port=2380/tcp")},
		"an open port":  {with(ports, "  ports: 6443/tcp\n\t  protocols: \n\t  forward: yes"), anyone, nil},
		"a range":       {with(ports, "  ports: 6000-7000/tcp\n\t  protocols: 112\n\t  forward: yes"), holders, nil},
		"another range": {with(ports, "  ports: 6444-7000/tcp 6443/udp\n\t  protocols: \n\t  forward: yes"), anyone, api},
		"a service": {
			with("dhcpv6-client ssh", "kube-api ssh") + "service\tkube-api\n\tkube-api\n\t  ports: 6443/tcp\n", anyone, nil,
		},
		"a service of another zone": {debian + "service\tkube-api\n\tkube-api\n\t  ports: 6443/tcp\n", anyone, api},
		"a zone that accepts all":   {with("target: default", "target: ACCEPT"), holders, nil},
		"a zone that rejects all":   {with("target: default", "target: DROP"), anyone, api},
		"a zone of the interface": {
			debian + "zone\ttrusted\n\ttrusted (active)\n\t  target: ACCEPT\n\t  interfaces: eth0\n", holders, nil,
		},
		"a zone of another interface": {
			debian + "zone\ttrusted\n\ttrusted (active)\n\t  target: ACCEPT\n\t  interfaces: eth1\n", anyone, api,
		},
		"a zone of the members":              {debian + other, members, nil},
		"a zone of the other hosts":          {debian + other, holders, api},
		"a rich rule":                        {rule(`rule port port="6443" protocol="tcp" accept`), anyone, nil},
		"a rich rule for a sender":           {rule(`rule family="ipv4" source address="10.0.0.0/8" accept`), holders, nil},
		"a rich rule for another port":       {rule(`rule port port="6444" protocol="tcp" accept`), anyone, api},
		"a rich rule that rejects":           {rule(`rule port port="6443" protocol="tcp" reject`), anyone, api},
		"a rich rule for VRRP":               {rule(`rule protocol value="112" accept`), holders, api},
		"a rich rule for a service":          {rule(`rule service name="ssh" accept`), anyone, api},
		"a rich rule for an unknown service": {rule(`rule service name="k8s" accept`), anyone, nil},
		"a policy": {
			debian + "policy\tmine\n\tmine (active)\n\t  target: CONTINUE\n\t  egress-zones: HOST\n" +
				"\t  ports: 6443/tcp\n", anyone, nil,
		},
		"a policy for forwarding": {
			debian + "policy\tmine\n\tmine (active)\n\t  target: ACCEPT\n\t  egress-zones: ANY\n", anyone, api,
		},
		"the interface in a closed zone": {
			debian + "zone\tdmz\n\tdmz (active)\n\t  target: default\n\t  interfaces: eth0\n", anyone,
			[]string{strings.ReplaceAll(api[0], "public", "dmz")},
		},
		"the zone of a sender's address": {
			debian + "zone\twork\n\t  sources: 10.0.0.0/8\n" + other + "zone\ttrusted\n\t  target: ACCEPT\n" +
				"\t  sources: 10.0.0.12 10.0.0.13\n", []Opening{{Protocol: "tcp", Port: 179, From: members[0].From}}, nil,
		},
		"senders in two zones": {
			debian + "zone\ttrusted\n\t  target: ACCEPT\n\t  sources: 10.0.0.12\n", members,
			closed("2380/tcp", "--add-port=2380/tcp"),
		},
		"all of TCP":       {with(ports, "  ports: \n\t  protocols: tcp\n\t  forward: yes"), anyone, nil},
		"another protocol": {with(ports, "  ports: \n\t  protocols: esp udp\n\t  forward: yes"), anyone, api},
		"no ports": {
			with(ports, "  ports: 70000/tcp 6000-x/tcp x-7000/tcp 7000-6000/tcp\n\t  protocols: \n\t  forward: yes"),
			anyone, api,
		},
		"a hostile zone": {
			"default\tpublic\ndevice\teth0\nzone\tpublic;reboot\n\t  target: default\n", anyone, nil,
		},
	} {
		if got := parse(c.output).closed(c.openings); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", name, got, c.want)
		}
	}
}

func TestString(t *testing.T) {
	for want, o := range map[string]Opening{
		"1/tcp": {Protocol: "tcp", Port: 1}, "3784/udp": {Protocol: "udp", Port: 3784}, "vrrp": {Protocol: VRRP},
	} {
		if o.String() != want {
			t.Errorf("%+v is %q", o, o.String())
		}
	}
}

func TestDenied(t *testing.T) {
	needs := Needs{Boolean: "haproxy_connect_any", Labelled: 6443}
	const off = "selinux\tenforcing\nboolean\thaproxy_connect_any\t0\n"
	for name, c := range map[string]struct {
		output string
		denied bool
	}{
		"no SELinux":              {"", false},
		"off":                     {off, true},
		"on":                      {"selinux\tenforcing\nboolean\thaproxy_connect_any\t1\n", false},
		"permissive":              {"boolean\thaproxy_connect_any\t0\n", false},
		"another policy":          {"selinux\tenforcing\n", false},
		"a label of the port":     {off + "portcon\tportcon tcp 6443 system_u:object_r:http_port_t:s0\n", false},
		"a label of a range":      {off + "portcon\tportcon tcp 6000-7000 system_u:object_r:http_port_t:s0\n", false},
		"a label of another port": {off + "portcon\tportcon tcp 6444 system_u:object_r:http_port_t:s0\n", true},
		"a label for UDP":         {off + "portcon\tportcon udp 6443 system_u:object_r:http_port_t:s0\n", true},
		"neither on nor off":      {"selinux\tenforcing\nboolean\thaproxy_connect_any\t2\n", false},
		"a hostile name":          {"selinux\tenforcing\nboolean\thaproxy_connect_any;reboot\t0\n", false},
	} {
		got := parse(c.output).denied(needs)
		if (len(got) > 0) != c.denied || c.denied && !strings.Contains(got[0], "setsebool -P haproxy_connect_any 1") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := parse(off).denied(Needs{}); got != nil {
		t.Errorf("a program without a boolean: %q", got)
	}
}

// FuzzParse: whatever a machine says, nothing but names and ports gets into the commands.
func FuzzParse(f *testing.F) {
	f.Add(debian)
	f.Add("selinux\tenforcing\nboolean\thaproxy_connect_any\t0\nportcon\tportcon tcp 1-70000 x\n")
	f.Fuzz(func(t *testing.T, output string) {
		for _, line := range parse(output).closed(holders) {
			_, command, _ := strings.Cut(line, ": run ")
			for _, word := range strings.Split(command, " ") {
				name, isZone := strings.CutPrefix(word, "--zone=")
				if isZone && !zoneName.MatchString(name) ||
					!isZone && strings.Trim(word, "-=/&abcdefghijklmnopqrstuvwxyz0123456789") != "" {
					t.Errorf("the command is %q", command)
				}
			}
		}
	})
}
