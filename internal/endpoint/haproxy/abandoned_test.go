package haproxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestAbandoned: each host that could not be cleaned is given up by its own
// address, and by nothing else.
func TestAbandoned(t *testing.T) {
	s := threeHosts()
	lost := fmt.Errorf("dial: %w", host.ErrUnreachable)
	strange := &host.HostKeyError{Address: "10.0.0.13", Seen: "ssh-ed25519 AAAA"}
	for _, c := range []struct {
		name    string
		lost    map[string]error
		abandon host.Abandoned
		want    []string // in the refusal; nil: none
		not     string
	}{
		{"none is lost", nil, nil, nil, ""},
		{"none is named", map[string]error{"cp2": lost, "cp3": lost}, nil, []string{
			"cp2 (10.0.0.12), cp3 (10.0.0.13)",
			`add "10.0.0.12", "10.0.0.13" to abandon_unreachable_hosts of the provider`,
		}, "cp1"},
		{
			"one of two is named",
			map[string]error{"cp2": lost, "cp3": lost},
			host.AbandonedAt("10.0.0.12"),
			[]string{`add "10.0.0.13" to`},
			"10.0.0.12",
		},
		{"both are named", map[string]error{"cp2": lost, "cp3": lost}, host.AbandonedAt("10.0.0.12", "10.0.0.13"), nil, ""},
		{
			"a host key is no such thing",
			map[string]error{"cp3": strange},
			host.AbandonedAt("10.0.0.13"),
			[]string{"host key of 10.0.0.13"},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := requireAbandoned(t.Context(), s, c.lost, c.abandon, deletedOnOthers, othersDone)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("%v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if err != nil && c.not != "" && strings.Contains(err.Error(), c.not) {
				t.Errorf("%v\nnames %q", err, c.not)
			}
			if err != nil && !errors.Is(err, host.ErrUnreachable) && !errors.Is(err, host.ErrHostKey) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

// TestUncleanedSummary: the summary says what the apply wanted. A Create is refused before its first change, and an
// Update has done the rest.
func TestUncleanedSummary(t *testing.T) {
	s := twoHosts()
	silent := must(host.NewPool(host.Config{Overrides: map[string]host.Override{
		"10.0.0.13": {Address: "127.0.0.1", Port: 1}, // where nothing listens
	}}))
	s.Machine = func(address string) *host.Host { return silent.Host(host.Target{Address: address}) }
	seen := map[string]balancer{"cp1": asRendered(s, "cp1"), "cp2": asRendered(s, "cp2")}
	seen["cp1"].facts.Files[recordPath] = host.FileState{Content: recordText(threeHosts())}
	_, created := createOn(t.Context(), s, seen)
	leaving := threeHosts()
	leaving.Hosts = map[string]*host.Host{"cp3": threeHosts().Hosts["cp3"]}
	changed := unchangedHosts(t.Context(), s, leaving, seen, map[string]error{"cp3": host.ErrUnreachable})
	for want, err := range map[string]error{
		"Endpoint 10.0.0.100 not created":                                     created,
		"Endpoint 10.0.0.100 changed, but not removed from every former host": changed,
	} {
		var p *problem.Problem
		if !errors.As(err, &p) || p.Title() != want || !strings.Contains(p.Host, "10.0.0.13") {
			t.Errorf("%v\nis not %q", err, want)
		}
	}
	if created != nil && !problem.Untouched(created) {
		t.Errorf("the refusal does not say that nothing was changed: %v", created)
	}
}
