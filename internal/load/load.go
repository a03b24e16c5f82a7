// Package load runs clients against a control plane while it is changed, and reports exactly
// what they observed: every failed request, the longest gap, acknowledged writes that were
// lost, events that watches missed. Tests and cmd/kube-lab use it to verify the provider's
// guarantees.
//
// The clients never retry: every request that they count as failed would also have failed for a
// program with an ordinary connection. Failed means failed: excused failures are counted as failed
// too, and what the libraries of HTTP and gRPC repeat by themselves is counted as repeated.
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
	// requestTimeout is how long a request may take before it counts as failed.
	requestTimeout = 5 * time.Second
	// startTimeout limits the wait for every client's first success.
	startTimeout = 30 * time.Second
)

// Dial connects to a numeric address in the control plane's network.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Config configures the clients.
type Config struct {
	Dial       Dial   // nil: the program is in the control plane's network
	Kubeconfig string // the administrator's, whose server is the virtual IP; "": only the direct writer
	Etcd       *Etcd  // nil: no direct writer and no comparison of members
	// Criteria say how many requests the clients send, and which failures are excused. With a rate of
	// 0 they are those of Unnoticed.
	Criteria Criteria
}

// Etcd describes how to connect to the members.
type Etcd struct {
	// Endpoints returns the client URLs at which a member may be. The direct writer asks them for the
	// current members, and writes only to these.
	Endpoints func() []string
	TLS       *tls.Config // CA and client certificate; the server name is set for each member
}

func (c Config) complete() Config {
	if c.Dial == nil {
		c.Dial = new(net.Dialer).DialContext
	}
	if c.Criteria.Rate == 0 {
		c.Criteria = Unnoticed()
	}
	return c
}

// Load is a set of running clients.
type Load struct {
	run      string
	begun    time.Time
	api      api
	admin    *link // that of the kept client, also for requests that are not measured; nil without API
	clients  []*client
	watches  []*watch
	etcd     *etcdWriter // nil without direct writer
	pressure pressureLog
	halt     context.CancelFunc
	cut      context.CancelFunc
	sending  sync.WaitGroup
	watching sync.WaitGroup
}

// Start starts the clients. It returns after the first success of each. They run until Stop is
// called or ctx ends. If ctx ends before Stop, the report shows a gap.
func Start(ctx context.Context, cfg Config) (*Load, error) {
	l, err := prepare(cfg.complete())
	if err != nil {
		return nil, fmt.Errorf("start load: %w", err)
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	revision := ""
	if l.admin != nil {
		if revision, err = l.api.ensureNamespace(starting, l.admin); err != nil {
			l.close()
			return nil, fmt.Errorf("start load: %w", err)
		}
	}
	if l.etcd != nil {
		if err := l.etcd.client.open(starting); err != nil {
			l.close()
			return nil, fmt.Errorf("start load: %w", err)
		}
	}
	l.work(ctx, revision)
	if err := l.waitForFirst(starting); err != nil {
		l.end()
		l.clean(context.WithoutCancel(ctx))
		l.close()
		return nil, fmt.Errorf("start load: %w", err)
	}
	return l, nil
}

func prepare(cfg Config) (*Load, error) {
	begun := time.Now()
	l := &Load{run: strconv.FormatInt(begun.UnixNano(), 36), begun: begun}
	if cfg.Kubeconfig != "" {
		if err := l.prepareClients(cfg); err != nil {
			return nil, err
		}
	}
	if cfg.Etcd != nil {
		if cfg.Etcd.TLS == nil || cfg.Etcd.Endpoints == nil {
			return nil, errors.New("etcd is to be written to directly, but its endpoints or credentials are not given")
		}
		members := &etcdMembers{dial: cfg.Dial, tls: cfg.Etcd.TLS, endpoints: cfg.Etcd.Endpoints}
		l.etcd = &etcdWriter{
			members: members, client: &etcdClient{members: members},
			prefix: "/kube-load/" + l.run + "/", ledger: newLedger(begun, cfg.Criteria.excusing(EtcdWrite)),
		}
	}
	if l.admin == nil && l.etcd == nil {
		return nil, errors.New("neither a kubeconfig nor etcd is given")
	}
	return l, nil
}

// prepareClients creates the clients of the API server.
func (l *Load) prepareClients(cfg Config) error {
	to, err := readTarget(cfg)
	if err != nil {
		return err
	}
	l.api = api{server: to.server, run: l.run}
	kept, fresh := to.kept(), to.fresh()
	l.admin = kept
	l.clients = []*client{{name: "kept", via: kept}, {name: "fresh", via: fresh}}
	for _, c := range l.clients {
		c.rate, c.api = cfg.Criteria.Rate, l.api
		c.ledger = newLedger(l.begun, cfg.Criteria.excusing(APIRequest))
	}
	for i := range cfg.Criteria.Watches {
		log := newWatchLog(l.begun, cfg.Criteria.excusing(WatchOpening))
		w := &watch{name: fmt.Sprintf("kept %d", i/2+1), api: l.api, via: kept, log: log}
		if i%2 == 1 {
			w.name, w.via = fmt.Sprintf("own %d", i/2+1), to.kept()
		}
		l.watches = append(l.watches, w)
	}
	return nil
}

// work starts watches and writers, each in the background.
func (l *Load) work(ctx context.Context, revision string) {
	var sending, watching context.Context
	sending, l.halt = context.WithCancel(ctx)
	watching, l.cut = context.WithCancel(ctx)
	for _, w := range l.watches {
		l.watching.Go(func() { w.work(watching, revision) })
	}
	for _, c := range l.clients {
		l.sending.Go(func() { c.work(sending) })
	}
	if l.etcd != nil {
		l.sending.Go(func() { l.etcd.work(sending) })
	}
	l.sending.Go(func() { l.pressure.work(sending, l.begun) })
}

func (l *Load) waitForFirst(ctx context.Context) error {
	for _, c := range l.clients {
		if err := c.ledger.waitForFirst(ctx); err != nil {
			return fmt.Errorf("client %s: %w", c.name, err)
		}
	}
	for _, w := range l.watches {
		if err := w.log.waitForFirst(ctx); err != nil {
			return fmt.Errorf("watch %s: %w", w.name, err)
		}
	}
	if l.etcd == nil {
		return nil
	}
	if err := l.etcd.ledger.waitForFirst(ctx); err != nil {
		return fmt.Errorf("direct writer to etcd: %w", err)
	}
	return nil
}
