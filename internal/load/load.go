// Package load keeps clients on a control plane while something is done to it,
// and reports exactly what they saw: every failed request, the longest gap,
// writes that were acknowledged and lost, events that watches missed. Tests and
// cmd/kube-lab use it to prove what the provider promises.
//
// The clients retry nothing. What they call failed would have been seen by a
// program that holds an ordinary connection.
package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// requestTimeout is how long a request may take before it has failed.
	requestTimeout = 5 * time.Second
	// startTimeout bounds the wait for every client's first success.
	startTimeout = 30 * time.Second
	// readBackTimeout bounds the search, at the end, for a server that answers.
	readBackTimeout = time.Minute
	// catchUpTimeout is how long watches may lag behind the last write.
	catchUpTimeout = 10 * time.Second
	// askInterval is the pause between attempts that are not measured.
	askInterval = 100 * time.Millisecond
)

// Dial connects to a numeric address in the control plane's network.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Config says what the clients use.
type Config struct {
	Dial       Dial   // nil: the program is in the control plane's network
	Kubeconfig string // the administrator's; its server is the virtual IP
	Rate       int    // requests per second of each client; 0 means 50
	Watches    int    // 0 means 4; every second one shares the kept connection
	Etcd       *Etcd  // nil: no direct writer and no comparison of members
}

// Etcd says how the members are reached.
type Etcd struct {
	Endpoints func() []string // client URLs as of now
	TLS       *tls.Config     // authority and client certificate; the server's name is set for each member
}

func (c Config) complete() Config {
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Rate == 0 {
		c.Rate = 50
	}
	if c.Watches == 0 {
		c.Watches = 4
	}
	return c
}

// Load is a set of clients at work.
type Load struct {
	run     string
	begun   time.Time
	api     api
	admin   *link // the kept client's: what is not measured goes there too
	clients []*client
	watches []*watch
	etcd    *putter // nil without direct writer
	halt    context.CancelFunc
	cut     context.CancelFunc
	sending sync.WaitGroup
	looking sync.WaitGroup
}

// Start puts the clients to work. It returns when every one of them has had its
// first success. They work until Stop is called or ctx ends; a ctx that ends
// before Stop shows in the report as a gap.
func Start(ctx context.Context, cfg Config) (*Load, error) {
	l, err := prepare(cfg.complete())
	if err != nil {
		return nil, fmt.Errorf("start load: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	revision, err := l.api.found(starting, l.admin)
	if err != nil {
		l.close()
		return nil, fmt.Errorf("start load: %w", err)
	}
	l.work(ctx, revision)
	if err := l.awaitFirst(starting); err != nil {
		l.end()
		l.clean(context.WithoutCancel(ctx))
		l.close()
		return nil, fmt.Errorf("start load: %w", err)
	}
	return l, nil
}

func prepare(cfg Config) (*Load, error) {
	to, err := readTarget(cfg)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	l := &Load{run: strconv.FormatInt(begun.UnixNano(), 36), begun: begun}
	l.api = api{server: to.server, run: l.run}
	kept, fresh := to.kept(), to.fresh()
	l.admin = kept
	l.clients = []*client{
		{name: "kept", rate: cfg.Rate, api: l.api, via: kept, ledger: newLedger(begun)},
		{name: "fresh", rate: cfg.Rate, api: l.api, via: fresh, ledger: newLedger(begun)},
	}
	for i := range cfg.Watches {
		w := &watch{name: fmt.Sprintf("kept %d", i/2+1), api: l.api, via: kept, sightings: newSightings(begun)}
		if i%2 == 1 {
			w.name, w.via = fmt.Sprintf("own %d", i/2+1), to.kept()
		}
		l.watches = append(l.watches, w)
	}
	if cfg.Etcd != nil {
		if cfg.Etcd.TLS == nil || cfg.Etcd.Endpoints == nil {
			return nil, errors.New("etcd is to be written to directly, but its endpoints or credentials are not given")
		}
		l.etcd = &putter{
			members: &members{dial: cfg.Dial, tls: cfg.Etcd.TLS, endpoints: cfg.Etcd.Endpoints},
			prefix:  "/kube-load/" + l.run + "/", ledger: newLedger(begun),
		}
	}
	return l, nil
}

// work starts watches and writers, each in the background.
func (l *Load) work(ctx context.Context, revision string) {
	var sending, watching context.Context
	sending, l.halt = context.WithCancel(ctx)
	watching, l.cut = context.WithCancel(ctx)
	for _, w := range l.watches {
		l.looking.Go(func() { w.work(watching, revision) })
	}
	for _, c := range l.clients {
		l.sending.Go(func() { c.work(sending) })
	}
	if l.etcd != nil {
		l.sending.Go(func() { l.etcd.work(sending) })
	}
}

func (l *Load) awaitFirst(ctx context.Context) error {
	for _, c := range l.clients {
		if err := c.ledger.awaitFirst(ctx); err != nil {
			return fmt.Errorf("client %s: %w", c.name, err)
		}
	}
	for _, w := range l.watches {
		if err := w.sightings.awaitFirst(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", w.name, err)
		}
	}
	if l.etcd == nil {
		return nil
	}
	if err := l.etcd.ledger.awaitFirst(ctx); err != nil {
		return fmt.Errorf("direct writer to etcd: %w", err)
	}
	return nil
}

// Stop ends the clients and reads every acknowledged key back. With an error
// the report says what the clients saw, but not whether all writes are there.
// It is called once.
func (l *Load) Stop(ctx context.Context) (Report, error) {
	defer l.close()
	stopped := time.Since(l.begun)
	l.halt()
	l.sending.Wait()
	l.awaitWatches(ctx)
	l.end()
	report := l.report(stopped)
	err := l.readBack(ctx, &report)
	l.clean(context.WithoutCancel(ctx))
	if err != nil {
		return report, fmt.Errorf("stop load: %w", err)
	}
	return report, nil
}

// end stops writers and watches and waits for them.
func (l *Load) end() {
	l.halt()
	l.cut()
	l.sending.Wait()
	l.looking.Wait()
}

// awaitWatches gives the watches time to see the last writes.
func (l *Load) awaitWatches(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	written := l.acknowledged()
	for _, w := range l.watches {
		for len(w.sightings.missed(written)) > 0 && pause(ctx, askInterval) == nil {
			continue // the condition is the wait
		}
	}
}

// acknowledged lists the ConfigMaps that must be there.
func (l *Load) acknowledged() []string {
	var names []string
	for _, c := range l.clients {
		names = append(names, c.ledger.acknowledged()...)
	}
	return names
}

// report says what the clients saw until now, whose sending ended at stopped.
func (l *Load) report(stopped time.Duration) Report {
	report := Report{Run: l.run, Took: stopped}
	for _, c := range l.clients {
		report.Clients = append(report.Clients, c.ledger.report(c.name, int(c.via.dialled.Load()), stopped))
		report.Late = max(report.Late, c.late)
	}
	written := l.acknowledged()
	for _, w := range l.watches {
		report.Watches = append(report.Watches, w.sightings.report(w.name, written, stopped))
	}
	if l.etcd != nil {
		direct := l.etcd.ledger.report("etcd", int(l.etcd.members.dialled.Load()), stopped)
		report.Etcd = &direct
	}
	return report
}

// readBack completes the report with what is there now.
func (l *Load) readBack(ctx context.Context, report *Report) error {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	there, err := l.api.names(ctx, l.admin)
	if err != nil {
		return err
	}
	for i, c := range l.clients {
		report.Clients[i].Lost = without(c.ledger.acknowledged(), there)
	}
	if l.etcd == nil {
		return nil
	}
	keys, err := l.etcd.keys(ctx)
	if err != nil {
		return err
	}
	report.Etcd.Lost = without(l.etcd.ledger.acknowledged(), keys)
	hashes, err := l.etcd.members.hashes(ctx)
	report.Hashes = &hashes
	return err
}

// clean removes what the run wrote, so that runs do not add up. It is best
// effort: nothing depends on it.
func (l *Load) clean(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readBackTimeout)
	defer cancel()
	_ = l.api.clean(ctx, l.admin)
	if l.etcd != nil {
		_ = l.etcd.clean(ctx)
	}
}

func (l *Load) close() {
	for _, c := range l.clients {
		c.via.transport.CloseIdleConnections()
	}
	for _, w := range l.watches {
		w.via.transport.CloseIdleConnections()
	}
	if l.etcd != nil {
		l.etcd.members.close()
	}
}

// without gives those of names that are not there.
func without(names []string, there map[string]bool) []string {
	var lost []string
	for _, name := range names {
		if !there[name] {
			lost = append(lost, name)
		}
	}
	return lost
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// persist repeats act, which is not measured, until it succeeds or ctx ends.
func persist(ctx context.Context, act func(context.Context) error) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*requestTimeout)
		err := act(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if stopped := pause(ctx, askInterval); stopped != nil {
			return errors.Join(err, stopped)
		}
	}
}
