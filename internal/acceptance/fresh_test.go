package acceptance

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	freshInterval = 20 * time.Millisecond // between two requests
	freshTimeout  = time.Second           // of one request
	// calmFor is how long all requests succeed again after an event.
	calmFor = 3 * time.Second
)

// fresh are clients that request an endpoint 50 times a second, each over a connection of its own.
type fresh struct {
	mu      sync.Mutex
	results []freshResult
	all     sync.WaitGroup
	stop    context.CancelFunc
}

type freshResult struct {
	begun time.Time
	err   error
}

func startFresh(t *testing.T, url string) *fresh {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &fresh{stop: cancel}
	web := &http.Client{Timeout: freshTimeout, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // nothing secret
	}}
	f.all.Go(func() {
		tick := time.NewTicker(freshInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case begun := <-tick.C:
				f.all.Go(func() { f.request(ctx, web, url+"/readyz", begun) })
			}
		}
	})
	t.Cleanup(f.end)
	return f
}

func (f *fresh) request(ctx context.Context, web *http.Client, url string, begun time.Time) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err == nil {
		var response *http.Response
		if response, err = web.Do(request); err == nil {
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("HTTP %d", response.StatusCode)
			}
			_ = response.Body.Close()
		}
	}
	if ctx.Err() != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results = append(f.results, freshResult{begun, err})
}

func (f *fresh) end() {
	f.stop()
	f.all.Wait()
}

// freshReport is what the clients notice of one event.
type freshReport struct {
	longest time.Duration // between two requests that succeed
	failed  int
	sent    int
}

func (o freshReport) String() string {
	return fmt.Sprintf("%d ms, %d of %d requests failed", o.longest.Milliseconds(), o.failed, o.sent)
}

// during runs an event, waits until requests succeed again, and returns what failed since it began.
func (f *fresh) during(t *testing.T, limit time.Duration, event func()) freshReport {
	t.Helper()
	since := time.Now()
	event()
	for end := time.Now().Add(limit); !f.calm(since); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the endpoint does not answer %s after the event: %v", limit, f.since(since))
		}
	}
	return f.since(since)
}

// calm reports whether there were requests for a while, and all have succeeded.
func (f *fresh) calm(since time.Time) bool {
	now := time.Now()
	if now.Sub(since) < calmFor+freshTimeout {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.results {
		if r.begun.Before(now.Add(-calmFor)) {
			continue
		}
		if n++; r.err != nil {
			return false
		}
	}
	return n > int(calmFor/freshInterval)/2
}

func (f *fresh) since(at time.Time) freshReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	results := slices.Clone(f.results)
	slices.SortFunc(results, func(a, b freshResult) int { return a.begun.Compare(b.begun) })
	var o freshReport
	last := at
	for _, r := range results {
		switch {
		case r.begun.Before(at):
			continue
		case r.err != nil:
			o.failed++
		default:
			o.longest, last = max(o.longest, r.begun.Sub(last)), r.begun
		}
		o.sent++
	}
	return o
}
