package haproxy

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const testVIP = "10.0.0.100"

func TestBackendsRoundTrip(t *testing.T) {
	servers := []server{serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "[fd00::12]:6443")}
	if got := parseBackends(testVIP, renderBackends(testVIP, servers, nil)); !reflect.DeepEqual(got,
		backends{servers: servers}) {
		t.Errorf("got %+v", got)
	}
	if got := parseBackends(testVIP, backendsHeader); !reflect.DeepEqual(got, backends{}) {
		t.Errorf("of no servers: %+v", got)
	}
}

// TestParseBackends: what registration does not write is told from what it does,
// and what is no name or address becomes none.
func TestParseBackends(t *testing.T) {
	cp1 := serverAt("cp1", "10.0.0.11:6443")
	marked := strings.TrimSpace(cp1.line(testVIP))
	mark := marked[strings.Index(marked, "#"):]
	for line, want := range map[string]backends{
		marked:                      {servers: []server{cp1}},
		marked + "\n" + marked:      {servers: []server{cp1}, repeated: []server{cp1}},
		"server cp1 10.0.0.11:6443": {servers: []server{cp1}, unmarked: []server{cp1}},
		"server cp2 10.0.0.11:6443 " + mark: {
			servers:  []server{serverAt("cp2", "10.0.0.11:6443")},
			unmarked: []server{serverAt("cp2", "10.0.0.11:6443")}, foreign: []string{"server cp2 10.0.0.11:6443 " + mark},
		},
		"server cp1 10.0.0.11:6443 weight 3 " + mark: {
			servers: []server{cp1}, unmarked: []server{cp1},
			foreign: []string{"server cp1 10.0.0.11:6443 weight 3 " + mark},
		},
		"balance first":                   {foreign: []string{"balance first"}},
		"server cp1 cp1.example.com:6443": {foreign: []string{"server cp1 cp1.example.com:6443"}},
		"server cp1 10.0.0.11":            {foreign: []string{"server cp1 10.0.0.11"}},
		"server zz';id>/tmp/p;:' 10.90.0.12:6443": {
			foreign: []string{"server zz';id>/tmp/p;:' 10.90.0.12:6443"},
		},
		"server $(reboot) 10.90.0.12:6443":     {foreign: []string{"server $(reboot) 10.90.0.12:6443"}},
		"server cp1 10.90.0.12:6443';reboot;'": {foreign: []string{"server cp1 10.90.0.12:6443';reboot;'"}},
		"server \x1b[2J 10.90.0.12:6443":       {foreign: []string{"server \x1b[2J 10.90.0.12:6443"}},
		"server " + strings.Repeat("a", 64) +
			" 10.90.0.12:6443": {foreign: []string{"server " + strings.Repeat("a", 64) + " 10.90.0.12:6443"}},
	} {
		if got := parseBackends(testVIP, backendsHeader+"    "+line+"\n"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\n got %+v\nwant %+v", line, got, want)
		}
	}
	if got := parseBackends("10.0.0.200", renderBackends(testVIP, []server{cp1}, nil)); len(got.unmarked) != 1 {
		t.Errorf("another endpoint's mark was taken: %+v", got)
	}
}

// TestMergeBackends: which servers all balancers shall list, by what each of them lists
// and what the replicas' machines say.
func TestMergeBackends(t *testing.T) {
	cp1, cp2, moved := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.12:6443"),
		serverAt("cp2", "10.0.0.12:7443")
	zz := serverAt("zz", "10.0.0.12:6443")
	all := renderBackends(testVIP, []server{cp1, cp2}, nil)
	one := renderBackends(testVIP, []server{cp1}, nil)
	by := func(bare ...server) string { return renderBackends(testVIP, []server{cp1}, bare) }
	forged := renderBackends(testVIP, []server{cp1, zz}, nil)
	elsewhere := renderBackends(testVIP, []server{cp1, moved}, nil)
	onFirst := func(s server) map[string][]server { return map[string][]server{"a": {s}} }
	none := host.Facts{}
	tests := map[string]struct {
		lists    []string
		up       []server // of the first balancer
		verdicts map[server]verdict
		wanted   []server
		kept     map[string][]server // by balancer
	}{
		"they agree, whoever cannot be asked": {
			lists:  []string{all, all, all},
			wanted: []server{cp1, cp2},
		},
		"registered while one was down": {
			lists:    []string{all, all, one},
			verdicts: map[server]verdict{cp2: confirmed}, wanted: []server{cp1, cp2},
		},
		"registered while two were down": {
			lists:    []string{all, one, one},
			verdicts: map[server]verdict{cp2: confirmed}, wanted: []server{cp1, cp2},
		},
		"left while one was down": {
			lists:    []string{all, one, one},
			verdicts: map[server]verdict{cp2: denied}, wanted: []server{cp1},
		},
		"left while two were down": {
			lists:    []string{all, all, one},
			verdicts: map[server]verdict{cp2: denied}, wanted: []server{cp1},
		},
		"most have it, and it cannot be asked": {
			lists:  []string{all, all, one},
			wanted: []server{cp1, cp2},
		},
		"one of two has it, and it cannot be asked": {
			lists: []string{all, one}, wanted: []server{cp1}, kept: onFirst(cp2),
		},
		"one of two has it, it cannot be asked, and a third one is new": {
			lists: []string{all, one, ""}, wanted: []server{cp1}, kept: onFirst(cp2),
		},
		"two of four have it, and it cannot be asked": {
			lists: []string{all, all, one, one}, wanted: []server{cp1}, kept: map[string][]server{"a": {cp2}, "b": {cp2}},
		},
		"few have it, and it cannot be asked": {lists: []string{all, one, one}, wanted: []server{cp1}},
		"few have it, it serves, and cannot be asked": {
			lists: []string{all, one, one}, up: []server{cp2}, wanted: []server{cp1}, kept: onFirst(cp2),
		},
		"few have it, another one says that it serves, and it cannot be asked": {
			lists: []string{one, all, one}, up: []server{cp2}, wanted: []server{cp1},
		},
		"a forged mark on one of two": {
			lists: []string{forged, one}, up: []server{zz}, wanted: []server{cp1}, kept: onFirst(zz),
		},
		"a forged mark on one of three": {
			lists: []string{forged, one, one}, up: []server{zz}, wanted: []server{cp1}, kept: onFirst(zz),
		},
		"a forged address of a replica that cannot be asked either": {
			lists: []string{elsewhere, all}, up: []server{moved}, wanted: []server{cp1},
			kept: map[string][]server{"a": {moved}, "b": {cp2}},
		},
		"a hand-written second address beside the registered one, and neither can be asked": {
			lists: []string{renderBackends(testVIP, []server{cp1, moved}, []server{cp2}), one}, up: []server{cp2, moved},
			wanted: []server{cp1}, kept: onFirst(moved),
		},
		"written by hand": {
			lists:    []string{by(zz), one, one},
			verdicts: map[server]verdict{zz: denied}, wanted: []server{cp1},
		},
		"written by hand, and serving": {
			lists: []string{by(zz), one}, up: []server{zz},
			verdicts: map[server]verdict{zz: denied}, wanted: []server{cp1},
		},
		"written by hand, to where nobody can be asked": {lists: []string{by(zz), one, one}, wanted: []server{cp1}},
		"the same on all": {lists: []string{by(zz), by(zz)}, wanted: []server{cp1}},
		"the same, serving, to where nobody can be asked": {
			lists: []string{by(zz), one}, up: []server{zz},
			wanted: []server{cp1}, kept: onFirst(zz),
		},
		"of an earlier version": {
			lists:    []string{by(cp2), by(cp2)},
			verdicts: map[server]verdict{cp2: confirmed}, wanted: []server{cp1, cp2},
		},
		"another port while one was down": {
			lists:    []string{elsewhere, all},
			verdicts: map[server]verdict{moved: confirmed, cp2: denied}, wanted: []server{cp1, moved},
		},
		"two addresses of one name, and it cannot be asked": {
			lists: []string{elsewhere, all, all}, wanted: []server{cp1, cp2},
		},
		"a hand-written second address of a name that is serving": {
			lists: []string{by(moved), all, all}, up: []server{moved},
			verdicts: map[server]verdict{cp2: confirmed}, wanted: []server{cp1, cp2},
		},
		"no list yet": {lists: []string{all, ""}, wanted: []server{cp1, cp2}},
	}
	for name, test := range tests {
		seen := map[string]balancer{}
		for i, text := range test.lists {
			b := balancer{facts: none}
			if text != "" {
				b = withList(balancer{}, testVIP, text)
			}
			if i == 0 {
				for _, s := range test.up {
					b.stats = append(b.stats, stat{Name: s.Name, Address: s.Address, Status: "UP"})
				}
			}
			seen[string(rune('a'+i))] = b
		}
		all, lists := candidates(seen)
		wanted, kept := mergeBackends(seen, all, lists, test.verdicts)
		if !slices.Equal(wanted, test.wanted) || !maps.EqualFunc(kept, test.kept, slices.Equal) {
			t.Errorf("%s: wanted %v, kept %v", name, wanted, kept)
		}
	}
}

// TestServersAsksWhereItMust: where the lists agree nobody is asked, and a line that
// stays without a mark stays where it is.
func TestServersAsksWhereItMust(t *testing.T) {
	cp1, cp2, zz := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.12:6443"), serverAt("zz", "10.0.0.13:6443")
	s := Spec{Address: testVIP}
	asked := map[string]int{}
	verdicts := make(chan string, 10)
	s.Registered = func(_ context.Context, name string, _ netip.AddrPort) (bool, error) {
		verdicts <- name
		if name == "zz" {
			return false, errors.New("no way there")
		}
		return true, nil
	}
	text := renderBackends(testVIP, []server{cp1, cp2}, nil)
	for name, got := range s.servers(t.Context(), map[string]balancer{
		"a": withList(balancer{}, testVIP, text),
		"b": withList(balancer{}, testVIP, text), "new": {},
	}) {
		if got != text {
			t.Errorf("%s shall have\n%s", name, got)
		}
	}
	if len(verdicts) > 0 {
		t.Errorf("asked %s", <-verdicts)
	}
	first := withList(balancer{}, testVIP, renderBackends(testVIP, []server{cp1}, []server{zz}))
	first.stats = []stat{{Name: zz.Name, Address: zz.Address, Status: "UP"}}
	got := s.servers(t.Context(), map[string]balancer{"a": first, "b": withList(balancer{}, testVIP, text)})
	want := map[string]string{"a": renderBackends(testVIP, []server{cp1, cp2}, []server{zz}), "b": text}
	if !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	close(verdicts)
	for name := range verdicts {
		asked[name]++
	}
	if !maps.Equal(asked, map[string]int{"cp2": 1, "zz": 1}) {
		t.Errorf("asked %v", asked)
	}
}

// TestUnconfirmedStays: a server whose machine cannot be asked stays as it is where it is listed, and comes to no other
// balancer, also in the rounds that follow.
func TestUnconfirmedStays(t *testing.T) {
	cp1, zz := serverAt("cp1", "10.0.0.11:6443"), serverAt("zz", "203.0.113.9:6443")
	s := Spec{Address: testVIP, Registered: func(context.Context, string, netip.AddrPort) (bool, error) {
		return false, errors.New("the host key is not known")
	}}
	one := renderBackends(testVIP, []server{cp1}, nil)
	want := map[string]string{"a": renderBackends(testVIP, []server{cp1, zz}, nil), "b": one, "new": one}
	seen := map[string]balancer{"a": lists(testVIP, cp1, zz), "b": lists(testVIP, cp1), "new": {}}
	if got := s.servers(t.Context(), seen); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	seen["new"] = lists(testVIP, cp1)
	first := seen["a"]
	first.stats = []stat{{Name: zz.Name, Address: zz.Address, Status: "UP"}}
	seen["a"] = first
	if got := s.servers(t.Context(), seen); !maps.Equal(got, want) {
		t.Errorf("once the new one has a list: got %q\nwant %q", got, want)
	}
}

// TestListDrift says where a replica is missing, and not where there is no list.
func TestListDrift(t *testing.T) {
	cp1, cp2 := serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.12:6443")
	got := listDrift(map[string]balancer{
		"a": lists(testVIP, cp1, cp2), "b": lists(testVIP, cp1), "c": {}, "d": {unreachable: host.ErrUnreachable},
		"e": withList(balancer{}, testVIP,
			renderBackends(testVIP, []server{cp1}, []server{serverAt("zz", "10.0.0.13:6443")})),
	})
	want := map[string][]string{
		"b": {"/etc/haproxy/kube/20-backends.cfg: lacks cp2 (10.0.0.12:6443), which is registered on a"},
		"e": {"/etc/haproxy/kube/20-backends.cfg: lacks cp2 (10.0.0.12:6443), which is registered on a"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}
