package soak

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// Why a machine is the one that loses its power.
const (
	hasAddress = "it has the address"
	hasKept    = "the kept connection leads to its API server"
)

// ListedFigure is the figure of how long a dead machine is listed.
const ListedFigure = "a dead machine is among the addresses that the endpoint leads to"

// ListedFor returns how long a dead machine may be listed by a kind of endpoint: by DNS, as clients resolve it, or in
// the routes of a router. It is 0 for a kind that lists no machines.
func ListedFor(kind string) time.Duration {
	for _, k := range endpointKinds() {
		if k.name == kind {
			return k.listed
		}
	}
	return 0
}

// loss is the loss of a machine.
type loss struct {
	victim *lab.Machine
	listed time.Duration // how long it was listed since then
}

// loseOne powers a machine off while clients work, and on again: the one that the kept client depends on. Its member
// leads etcd, which is the worst case for each kind.
func (s *endpointSite) loseOne(ctx context.Context) ([]Result, error) {
	c := s.kind.outage()
	var lost loss
	report, err := s.duringLoad(ctx, c, func(l *load.Load) (err error) {
		if lost.victim, err = s.chooseVictim(ctx, l); err != nil {
			return err
		}
		lost.listed, err = s.loseMachine(ctx, lost.victim)
		return err
	})
	if err == nil {
		err = eventually(ctx, time.Minute, time.Second, s.checkConverged)
	}
	if lost.victim == nil {
		return nil, err
	}
	return uncompleted([]Result{s.kind.lossResult(lost, report, c)}, err), err
}

// outage returns the criteria for the loss of a machine.
func (k endpointKind) outage() load.Criteria {
	return outageOf(k.away, load.Gaps{Reads: k.away, Writes: k.away})
}

// chooseVictim returns the machine that the kept client depends on, when its member leads etcd and clients have not
// noticed that.
func (s *endpointSite) chooseVictim(ctx context.Context, l *load.Load) (victim *lab.Machine, err error) {
	err = eventually(ctx, time.Minute, time.Second, func(ctx context.Context) (err error) {
		if victim, err = s.dependedOn(ctx, l); err != nil {
			return err
		}
		three := s.three()
		at := slices.IndexFunc(three, func(m *lab.Machine) bool { return m.Name == victim.Name })
		if err := three.lead(ctx, at); err != nil {
			return err
		}
		if err := load.Sleep(ctx, quietTime); err != nil {
			return err
		}
		now, err := s.dependedOn(ctx, l)
		if err == nil && now.Name != victim.Name {
			err = fmt.Errorf("the kept client depended on %s, and depends on %s now", victim.Name, now.Name)
		}
		return err
	})
	return victim, err
}

// dependedOn returns the machine that has the address, if one has, or that of the API server of the kept connection.
func (s *endpointSite) dependedOn(ctx context.Context, l *load.Load) (*lab.Machine, error) {
	if s.kind.held {
		return s.holder(ctx)
	}
	certificate, err := l.KeptPeer(ctx)
	if err != nil {
		return nil, err
	}
	return named(certificate, s.three())
}

// named returns the machine whose address is in the certificate of an API server.
func named(certificate *x509.Certificate, machines fleet) (*lab.Machine, error) {
	var all fleet
	for _, m := range machines {
		if slices.ContainsFunc(certificate.IPAddresses, net.IP(m.Address.AsSlice()).Equal) {
			all = append(all, m)
		}
	}
	if len(all) != 1 {
		return nil, fmt.Errorf("%d machines have an address in the certificate of the kept connection, %v", len(all),
			certificate.IPAddresses)
	}
	return all[0], nil
}

// loseMachine leaves a machine without power for as long as clients may notice it, and returns how long it was listed.
func (s *endpointSite) loseMachine(ctx context.Context, victim *lab.Machine) (listed time.Duration, err error) {
	var both errgroup.Group // neither ends the other one
	both.Go(func() error { return s.powerCycle(ctx, victim, max(s.kind.away, 10*time.Second)) })
	if s.kind.listed > 0 {
		both.Go(func() error {
			begun := time.Now()
			survivors := slices.DeleteFunc(slices.Clone(s.three()), func(m *lab.Machine) bool { return m.Name == victim.Name })
			err := s.kind.reached(ctx, s.around, survivors)
			listed = time.Since(begun)
			return err
		})
	}
	err = both.Wait()
	return listed, err
}

// lossResult returns what clients observed of the loss of a machine.
func (k endpointKind) lossResult(lost loss, report load.Report, c load.Criteria) Result {
	r := Result{
		Name: k.row("a machine loses its power"), Criteria: c.Words(true), Violated: load.Verdict(report, c),
		Observed: []load.Summary{report.Summary()}, Series: report.Series(), Chosen: hasKept,
	}
	if k.held {
		r.Chosen = hasAddress
	}
	details := []string{fmt.Sprintf("%s: %s", lost.victim.Name, r.Chosen)}
	for _, client := range report.Clients {
		r.count(client.Reads.Gap.Length <= k.away && client.Writes.Gap.Length <= k.away)
		details = append(details, fmt.Sprintf("%s: %d ms without a read, %d ms without a write", client.Name,
			client.Reads.Gap.Length.Milliseconds(), client.Writes.Gap.Length.Milliseconds()))
	}
	if k.listed > 0 {
		figure := jsonfile.Milliseconds(ListedFigure, k.listed)
		if lost.listed > 0 { // or it was cut off
			figure.Add(lost.listed)
		}
		r.Figures = []jsonfile.Figure{figure}
		criterion := fmt.Sprintf("%s for at most %s", ListedFigure, k.listed)
		r.Criteria = append(r.Criteria, criterion)
		if lost.listed > k.listed {
			r.Violated = append(r.Violated, fmt.Sprintf("%s: it was %s", criterion, lost.listed))
		}
		r.count(lost.listed <= k.listed)
		details = append(details, spreads(r.Figures))
	}
	r.Detail = strings.Join(append(details, countsOf(report)), "; ")
	return r
}
