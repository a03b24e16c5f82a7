package etcd

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func sidesOf(addresses ...string) map[netip.Addr]connections.Side {
	sides := map[netip.Addr]connections.Side{}
	for _, address := range addresses {
		sides[netip.MustParseAddr(address)] = connections.Side{}
	}
	return sides
}

func TestMemberRules(t *testing.T) {
	for liveness, want := range map[bool][]string{
		true: {
			"10.0.0.12 to 10.0.0.11:2380", "10.0.0.12 to 10.0.0.11:2379", "10.0.0.11 to 10.0.0.12:2380",
			"10.0.0.11 to 10.0.0.12:2379",
		},
		false: {"10.0.0.12 to 10.0.0.11:2380", "10.0.0.11 to 10.0.0.12:2380"},
	} {
		var got []string
		for _, r := range memberRules(sidesOf("10.0.0.12", "10.0.0.11"), liveness) {
			got = append(got, fmt.Sprintf("%s to %s:%d", r.Remote.Addr(), r.Machine, r.Port))
		}
		if !slices.Equal(got, want) {
			t.Errorf("liveness probes %t: %q, want %q", liveness, got, want)
		}
	}
}

// TestClosedError: a member is told what concerns its machine, and one that nothing concerns why it is not
// created either.
func TestClosedError(t *testing.T) {
	rules := memberRules(sidesOf("127.0.0.12", "127.0.0.11"), false)
	closed := []connections.Closed{{Rule: rules[0], How: "no answer"}}
	for address, want := range map[string]string{
		"127.0.0.11": "closed between its machine and others", "127.0.0.12": "closed between its machine and others",
		"127.0.0.13": "closed between machines of its cluster",
	} {
		spec := Spec{}
		spec.Name, spec.Host = "cp", (&host.Pool{}).Host(host.Target{Address: address})
		err := closedError(spec, closed)
		if !problem.Untouched(err) || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "127.0.0.12 does not reach TCP port 2380 of 127.0.0.11") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
