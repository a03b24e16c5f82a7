package haproxy

import (
	"slices"
	"strings"
	"testing"
	"unicode"
)

// unshown reports whether problem.Line would not keep a character.
func unshown(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }

// FuzzReadRecord verifies that a record is a valid one, or none.
func FuzzReadRecord(f *testing.F) {
	f.Add(recordText(threeHosts()))
	f.Add(`{"cluster_id": "$(id)", "hosts": {"a b": "10.0.0.1"}, "drain_timeout": -1}`)
	f.Fuzz(func(t *testing.T, text string) {
		if r := readRecord(text); r != nil && r.validate() != nil {
			t.Errorf("%q is parsed as %+v", text, r)
		}
	})
}

// FuzzParseBackends verifies that the servers that are parsed are rendered and parsed as the same.
func FuzzParseBackends(f *testing.F) {
	const vip = "10.0.0.100"
	own, other := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "[fd00::12]:6443")
	f.Add(renderBackends(vip, []server{own}, []server{other}))
	f.Add("    server cp1 10.0.0.11:6443\n    server cp1 10.0.0.11:6443 weight 0\n    server $(id) x:1\n")
	f.Fuzz(func(t *testing.T, text string) {
		b := parseBackends(vip, text)
		var registered []server
		for _, s := range b.servers {
			if b.has(s) {
				registered = append(registered, s)
			}
		}
		again := parseBackends(vip, renderBackends(vip, registered, b.unmarked))
		slices.SortFunc(b.servers, byName)
		slices.SortFunc(again.servers, byName)
		if len(again.foreign) > 0 || !slices.Equal(b.servers, again.servers) || len(again.unmarked) != len(b.unmarked) {
			t.Errorf("%q is parsed as %+v, and rendered again as %+v", text, b, again)
		}
	})
}

// FuzzReadStats verifies that what HAProxy reports can be shown in a terminal.
func FuzzReadStats(f *testing.F) {
	f.Add("# pxname,svname,addr,status,scur,check_status,check_desc,last_chk\n" +
		proxyName + ",cp1,10.0.0.11:6443,UP,3,L7OK,Layer7 check passed,OK\n")
	f.Add("# pxname,svname,addr,status,scur\n" + proxyName + ",\x1b[2J,x,UP,-1\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		stats, _ := readStats(text)
		for _, s := range stats {
			if s.Sessions < 0 || strings.ContainsFunc(s.Name+s.Status+s.Check+s.Last, unshown) {
				t.Errorf("%q is parsed as %+v", text, s)
			}
		}
	})
}

// FuzzParseAddresses verifies that the name of a network interface is plain.
func FuzzParseAddresses(f *testing.F) {
	f.Add("2: eth0    inet 10.0.0.11/24 brd 10.0.0.255 scope global eth0\n", "")
	f.Add("2: $(id)    inet 10.0.0.11/24\n3: e/h    inet6 fd00::1/64\n", "$(id)")
	f.Fuzz(func(t *testing.T, text, wanted string) {
		if _, name := parseAddresses(text, wanted, "10.0.0.11"); name != "" && ValidateInterface(name) != nil {
			t.Errorf("%q has the interface %q", text, name)
		}
	})
}

// FuzzFormer verifies that what the configurations of the former services say can be shown in a terminal, and that what
// a comment says is nothing.
func FuzzFormer(f *testing.F) {
	f.Add(formerConfig, "frontend a\n    bind *:8443\nlisten \x1b[2J\n    bind :80\n")
	f.Add("virtual_ipaddress {\n10.0.0.100\n", "frontend")
	f.Fuzz(func(t *testing.T, keepalived, balancer string) {
		b := balancerWith(keepalived, balancer)
		for _, name := range b.formerServesMore(Spec{Port: 6443}) {
			if strings.ContainsFunc(name, unshown) {
				t.Errorf("%q has %q", balancer, name)
			}
		}
		commented := "# " + strings.NewReplacer("\n", "\n# ", "\r", "").Replace(keepalived)
		if got := parseFormer(commented); len(got.addresses)+len(got.routerIDs)+len(got.more) > 0 || got.includes {
			t.Errorf("%q is parsed as %+v", commented, got)
		}
	})
}

// FuzzRendered verifies that an endpoint that is imported from a machine has a virtual IP and a plain interface.
func FuzzRendered(f *testing.F) {
	s := threeHosts()
	facts := machineOf(s, "cp1", "eth0")
	f.Add(facts.Files[endpointPath].Content, facts.Files[keepalivedPath].Content, facts.Files[recordPath].Content)
	f.Add("bind $(id):6443\n", "interface \x1b[2J\nvirtual_router_id 999\n", "{}")
	f.Fuzz(func(t *testing.T, balancer, vrrp, record string) {
		for path, text := range map[string]string{endpointPath: balancer, keepalivedPath: vrrp, recordPath: record} {
			state := facts.Files[path]
			state.Content = text
			facts.Files[path] = state
		}
		got, err := rendered(s.Hosts["cp1"], facts)
		if err == nil && (!got.vip.IsValid() || got.device != "" && ValidateInterface(got.device) != nil ||
			strings.ContainsFunc(got.name+got.address, unshown)) {
			t.Errorf("%q and %q are parsed as %+v", balancer, vrrp, got)
		}
	})
}
