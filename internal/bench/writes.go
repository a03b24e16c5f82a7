package bench

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// Writes at a steady rate are measured while something else takes the members' time: nothing, a client that follows
// every change into a file, as snapshots of changes need one, and a full snapshot each minute. A measurement lasts for
// a minute. Then the members are defragmented while the writes go on.
const (
	writesPerSecond = 100
	writesFor       = time.Minute
	writeTimeout    = 30 * time.Second
	stillUsed       = 0.4 // of the database, when it is defragmented
)

// burden is what goes on beside the writes, on the leader's machine.
type burden struct {
	name   string
	script string
	counts bool // the script prints how many of the writes it has seen
}

func burdens() []burden {
	vars := map[string]string{"seconds": strconv.Itoa(int(writesFor / time.Second))}
	return []burden{
		{name: "nothing"},
		{"one client follows all changes into a file", with(vars, memberScript+followScript), true},
		{name: "a full snapshot each minute", script: memberScript + saveScript},
	}
}

// writes measures writes with databases of all sizes, each with a new cluster.
func (b *bench) writes(ctx context.Context) ([]Result, error) {
	if err := b.renewMembers(ctx, few); err != nil {
		return nil, err
	}
	var results []Result
	for _, size := range b.sizes {
		measured, err := b.writesOf(ctx, size)
		if err != nil {
			return results, fmt.Errorf("%s: %w", size, err)
		}
		results = append(results, measured...)
	}
	return results, nil
}

func (b *bench) writesOf(ctx context.Context, size Size) ([]Result, error) {
	if err := b.onEach(ctx, b.first(few), "rm -rf /var/lib/etcd-archive"); err != nil { // of the size before
		return nil, err
	}
	if err := b.installEtcd(ctx, b.first(few)); err != nil {
		return nil, err
	}
	d, err := b.fill(ctx, size)
	if err != nil {
		return nil, err
	}
	source := map[string]any{"id": fmt.Sprintf("writes-%d", size), "snapshot": snapshotFile}
	if err := b.wantMembers(b.work.Machines(few), nil, source); err != nil {
		return nil, err
	}
	if _, err := b.work.Apply(ctx, b.log); err != nil {
		return nil, err
	}
	client, err := b.etcd(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	medians, tails := times{}, times{}
	for round := range size.rounds() {
		for _, also := range burdens() {
			took, err := b.writesWith(ctx, client, also)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", also.name, err)
			}
			fmt.Fprintf(b.log, "%s, round %d of %d, beside %s: p50 %.2f ms, p99 %.2f ms\n", size, round+1, size.rounds(),
				also.name, took.quantile(0.5), took.quantile(0.99))
			medians.add(times{also.name: {took.quantile(0.5)}})
			tails.add(times{also.name: {took.quantile(0.99)}})
		}
	}
	pauses, failed, err := b.defragmented(ctx, client, size, source)
	if err != nil {
		return nil, fmt.Errorf("defragment: %w", err)
	}
	if _, err := b.work.Apply(ctx, b.log, "-destroy"); err != nil {
		return nil, err
	}
	return append(compareWrites(d, medians, tails),
		figure(d.named("longest write while three members are defragmented"), slices.Max(pauses)/1000, "s"),
		figure(d.named("failed writes of it"), float64(failed), ""),
		figure(d.named("writes of it"), float64(len(pauses)+failed), "")), nil
}

// compareWrites compares the latencies beside each burden with those beside nothing.
func compareWrites(d database, medians, tails times) []Result {
	all := burdens()
	alone := all[0].name
	var results []Result
	for _, also := range all[1:] {
		for _, q := range []struct {
			name string
			of   times
		}{{"p50", medians}, {"p99", tails}} {
			name := d.named(fmt.Sprintf("%s of %d writes per second beside: %s", q.name, writesPerSecond, also.name))
			results = append(results, ratioTo(name+", against nothing", q.of[also.name], q.of[alone], "ms"))
		}
	}
	return results
}

// etcd returns a client of the members.
func (b *bench) etcd(ctx context.Context) (*clientv3.Client, error) {
	const pki = "/etc/kubernetes/pki/etcd/"
	var texts [3][]byte
	for i, file := range []string{"ca.crt", "healthcheck-client.crt", "healthcheck-client.key"} {
		text, err := b.first(1)[0].Run(ctx, "cat "+pki+file)
		if err != nil {
			return nil, err
		}
		texts[i] = []byte(text)
	}
	pair, err := tls.X509KeyPair(texts[1], texts[2])
	if err != nil {
		return nil, fmt.Errorf("read the certificate of a client: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(texts[0]) {
		return nil, errors.New("the members have no authority")
	}
	var endpoints []string
	for _, m := range b.first(few) {
		endpoints = append(endpoints, fmt.Sprintf("https://%s:2379", m.Address))
	}
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(),
		TLS: &tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return b.lab.DialContext(ctx, "tcp", address)
		})},
	})
}

// writesWith measures writes beside a burden, which begins with them.
func (b *bench) writesWith(ctx context.Context, client *clientv3.Client, also burden) (series, error) {
	m, err := b.leader(ctx, client)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, writesFor)
	defer cancel()
	var took series
	var failed int
	seen := ""
	group, ctx := errgroup.WithContext(ctx)
	if also.script != "" {
		group.Go(func() (err error) {
			seen, err = m.Run(ctx, with(variables(m), also.script))
			return err
		})
	}
	group.Go(func() error {
		took, failed = steady(ctx, client, limited.Done())
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if failed > 0 || len(took) == 0 {
		return nil, fmt.Errorf("%d of %d writes failed", failed, failed+len(took))
	}
	lines := append(strings.Fields(seen), "") // the shell may say first how what it has ended has ended
	if n, err := strconv.Atoi(lines[max(0, len(lines)-2)]); also.counts && (err != nil || n < len(took)*9/10) {
		return nil, fmt.Errorf("it has seen %q of %d writes", seen, len(took))
	}
	return took, nil
}

// leader returns the machine of the leader.
func (b *bench) leader(ctx context.Context, client *clientv3.Client) (*lab.Machine, error) {
	for _, m := range b.first(few) {
		status, err := client.Status(ctx, fmt.Sprintf("https://%s:2379", m.Address))
		if err != nil {
			return nil, fmt.Errorf("ask the member on %s: %w", m.Name, err)
		}
		if status.Leader == status.Header.MemberId {
			return m, nil
		}
	}
	return nil, errors.New("no member leads")
}

// steady writes until a channel is closed, and returns how many milliseconds each write took from the moment at which
// it was due, and how many failed. A write that waits delays no other one.
func steady(ctx context.Context, client clientv3.KV, until <-chan struct{}) (took series, failed int) {
	value := string(make([]byte, 1000))
	tick := time.NewTicker(time.Second / writesPerSecond)
	defer tick.Stop()
	var mu sync.Mutex
	var all sync.WaitGroup
	for n := 0; ; n++ {
		select {
		case <-until:
			all.Wait()
			return took, failed
		case due := <-tick.C:
			all.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, writeTimeout)
				defer cancel()
				_, err := client.Put(ctx, fmt.Sprintf("/writes/%d", n%1000), value)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
					return
				}
				took = append(took, float64(time.Since(due).Microseconds())/1000)
			})
		}
	}
}

// quantile returns the value that the share q of all values does not exceed.
func (s series) quantile(q float64) float64 {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// defragmented frees a part of the database, and has Terraform defragment the members while writes go on.
func (b *bench) defragmented(
	ctx context.Context, client *clientv3.Client, size Size, source map[string]any,
) (took series, failed int, err error) {
	last := int64(0)
	for n := 1; n <= int(float64(size/megabyte)*(1-stillUsed)); n++ {
		answer, err := client.Delete(ctx, fmt.Sprintf("/bench/%d/", n), clientv3.WithPrefix())
		if err != nil {
			return nil, 0, fmt.Errorf("delete keys: %w", err)
		}
		last = answer.Header.Revision
	}
	if _, err := client.Compact(ctx, last, clientv3.WithCompactPhysical()); err != nil {
		return nil, 0, fmt.Errorf("compact: %w", err)
	}
	b.maintenance = map[string]any{"defragment": fmt.Sprintf("bench-%d", size)}
	defer func() { b.maintenance = nil }()
	if err := b.wantMembers(b.work.Machines(few), nil, source); err != nil {
		return nil, 0, err
	}
	until, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { took, failed = steady(ctx, client, until.Done()) })
	_, err = b.work.Apply(ctx, b.log)
	cancel()
	all.Wait()
	if err == nil && len(took) == 0 {
		err = errors.New("nothing was written meanwhile")
	}
	return took, failed, err
}
