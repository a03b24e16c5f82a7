package soak

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// Limits for a pulled plug, each for the worst of all times.
const (
	plugs           = 20 // unless the soak has a sample
	plugAddressBack = time.Second
	plugWritesBack  = 2 * time.Second
)

func plugScenario() Scenario { return Scenario{Name: "pulled plug", Run: pulledPlugs} }

// plug is what is noticed when the machine with the virtual IP and etcd's leader is killed with its cable pulled: its
// disk keeps what was written.
type plug struct {
	victim  string
	address time.Duration // until connections to the virtual IP are accepted again
	reads   time.Duration // the longest time of a client without one
	writes  time.Duration
	elected elections // where that time was spent
	failed  int       // requests of all clients
	refused int       // of them, and connections: whoever had the address answered that it does not serve
	load    string
	report  load.Report
}

// pulledPlugs powers off the machine with the virtual IP and etcd's leader, many times. Connections
// to the virtual IP show when another machine has it, and clients show when it serves.
func pulledPlugs(ctx context.Context, e *Env) ([]Result, error) {
	s, err := newSite(ctx, e)
	if err != nil {
		return nil, err
	}
	var all []plug
	for range cmp.Or(e.Points, plugs) {
		p, err := s.pullPlug(ctx)
		if err != nil {
			return plugResults(all), err
		}
		fmt.Fprintf(e.Log, "pulled plug %d: %s\n", len(all)+1, p)
		all = append(all, p)
	}
	return plugResults(all), s.checkConverged(ctx)
}

func (s *site) pullPlug(ctx context.Context) (plug, error) {
	victim, err := s.holder(ctx)
	if err != nil {
		return plug{}, err
	}
	p := plug{victim: victim.Name, load: computerLoad()}
	dialer := startDialer(ctx, net.JoinHostPort(s.work.VIP(), "6443"))
	p.report, err = s.lose(ctx, outage())
	dials := dialer.stop()
	p.address, p.refused = longestOutage(dials), refusals(dials)
	p.failed = p.report.Failed()
	for _, client := range p.report.Clients {
		p.reads, p.writes = max(p.reads, client.Reads.Gap.Length), max(p.writes, client.Writes.Gap.Length)
		p.refused += client.All.Refused + client.DialsRefused
	}
	if err == nil {
		p.elected, err = s.electionsAfter(ctx, s.cut, victim.Name)
	}
	return p, err
}

func (p plug) String() string {
	return fmt.Sprintf("%s: virtual IP %d ms (elected after %s), reads %d ms, writes %d ms (etcd's leader after %s), "+
		"%d requests failed, %d refused, load %s", p.victim, p.address.Milliseconds(), inMilliseconds(p.elected.address),
		p.reads.Milliseconds(), p.writes.Milliseconds(), inMilliseconds(p.elected.etcd), p.failed, p.refused, p.load)
}

// inMilliseconds formats the time until an election.
func inMilliseconds(d time.Duration) string {
	if d == 0 {
		return "an unknown time"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// PlugFigures returns the figures of pulled plugs without a value: what is measured, in order.
func PlugFigures() []jsonfile.Figure {
	var all []jsonfile.Figure
	for _, r := range plugResults(nil) {
		all = append(all, r.Figures...)
	}
	return all
}

// plugResults returns the four promises with all figures, and each time in the detail. The first result has the verdict
// of all criteria of an outage.
func plugResults(all []plug) []Result {
	c := outage()
	address := Result{
		Name:     fmt.Sprintf("pulled plug: the virtual IP is back within %s", plugAddressBack),
		Criteria: append([]string{"every attempt passes"}, c.Words(true)...),
	}
	writes := Result{Name: fmt.Sprintf("pulled plug: the first write through it within %s", plugWritesBack)}
	refused := Result{Name: "pulled plug: nothing is refused by those that survive"}
	kept := Result{Name: "pulled plug: no acknowledged write is lost"}
	back := jsonfile.Milliseconds("connections to the virtual IP", plugAddressBack)
	holders := jsonfile.Milliseconds("of it until keepalived has elected", 0)
	read := jsonfile.Milliseconds("the first read", 0)
	written := jsonfile.Milliseconds("the first write", plugWritesBack)
	leaders := jsonfile.Milliseconds("of it until etcd has elected", 0)
	refusals := jsonfile.Figure{Name: "refused requests and connections"}
	failures := jsonfile.Figure{Name: "failed requests"}
	for n, p := range all {
		address.judge(n+1, p.report, c)
		kept.countWrites(p.report)
		address.count(p.address <= plugAddressBack)
		writes.count(p.writes <= plugWritesBack)
		refused.count(p.refused == 0)
		back.Add(p.address)
		read.Add(p.reads)
		written.Add(p.writes)
		refusals.Values, failures.Values = append(refusals.Values, p.refused), append(failures.Values, p.failed)
		if p.elected.address > 0 {
			holders.Add(p.elected.address)
		}
		if p.elected.etcd > 0 {
			leaders.Add(p.elected.etcd)
		}
	}
	address.Figures, writes.Figures = []jsonfile.Figure{back, holders, read}, []jsonfile.Figure{written, leaders}
	refused.Figures = []jsonfile.Figure{refusals, failures}
	results := []Result{address, writes, refused}
	for i := range results {
		results[i].Detail = spreads(results[i].Figures)
	}
	for _, p := range all {
		results[0].Detail += "\n" + p.String()
	}
	return append(results, kept)
}

// spreads describes figures on one line.
func spreads(all []jsonfile.Figure) string {
	var texts []string
	for _, f := range all {
		texts = append(texts, f.Name+": "+spread(f.Values, f.Unit))
	}
	return strings.Join(texts, "; ")
}

// spread describes minimum, median and maximum. The median of an even number is the lower one.
func spread(all []int, unit string) string {
	if len(all) == 0 {
		return "not measured"
	}
	sorted := slices.Sorted(slices.Values(all))
	text := fmt.Sprintf("minimum %d, median %d, maximum %d %s", sorted[0], sorted[(len(sorted)-1)/2],
		sorted[len(sorted)-1], unit)
	return strings.TrimSpace(text)
}

// computerLoad describes how busy this computer is, which delays everything that is measured.
func computerLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%s on %d processors", fields[0], runtime.NumCPU())
}
