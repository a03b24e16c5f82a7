package load

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// during runs the clients until the stand-in has received that many requests.
func (s *standIn) during(cfg Config, requests int64) Report {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	l, err := Start(ctx, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	for s.number.Load() < requests && Sleep(ctx, time.Millisecond) == nil {
		continue
	}
	report, err := l.Stop(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s", report)
	return report
}

// kinds counts the errors of a client by kind.
func (c Client) kinds() map[string]int {
	kinds := map[string]int{}
	for _, f := range c.Errors {
		kinds[f.Kind] += f.Count
	}
	return kinds
}

// generous are criteria with gaps that no busy computer causes.
func generous() Criteria {
	c := Unnoticed()
	c.Longest = Gaps{Any: 10 * time.Second, Events: 10 * time.Second}
	return c
}

func TestUndisturbed(t *testing.T) {
	s := newStandIn(t, nil)
	report := s.during(s.config(), 100)
	if broken := Verdict(report, generous()); len(broken) > 0 {
		t.Errorf("nothing happened, and the report says:\n%s", strings.Join(broken, "\n"))
	}
	if got := int64(report.Tried()); got != s.number.Load() {
		t.Errorf("%d requests reported, %d arrived", got, s.number.Load())
	}
	kept, fresh := report.Clients[0], report.Clients[1]
	if kept.Dialled != 1 || fresh.Dialled != fresh.All.Tried {
		t.Errorf("%d connections for the kept client, %d for %d requests of the fresh one", kept.Dialled, fresh.Dialled,
			fresh.All.Tried)
	}
	for _, c := range report.Clients {
		if c.Reads.Tried+c.Writes.Tried != c.All.Tried || c.Acknowledged != c.Writes.Tried {
			t.Errorf("%s: the counts do not add up: %+v", c.Name, c)
		}
		if c.Reads.Tried > c.Writes.Tried ||
			c.Reads.Tried < c.Writes.Tried/3 { // before the first answer there is nothing to read
			t.Errorf("%s: %d reads, %d writes: they should alternate", c.Name, c.Reads.Tried, c.Writes.Tried)
		}
	}
	for _, w := range report.Watches {
		if w.Events != len(s.written) || w.Openings.Tried != 1 {
			t.Errorf("watch %s saw %d events in %d streams, %d were sent", w.Name, w.Events, w.Openings.Tried, len(s.written))
		}
	}
}

// TestRefusals: every tenth request is answered with an error, and the report must contain
// exactly these. A library that retries requests would hide some.
func TestRefusals(t *testing.T) {
	for code, name := range map[int]string{500: "HTTP 500", 429: "HTTP 429", 307: "HTTP 307"} {
		t.Run(name, func(t *testing.T) {
			var refusals atomic.Int64
			s := newStandIn(t, func(s *standIn) {
				s.disturb = func(n int64, w http.ResponseWriter, r *http.Request) bool {
					if n%10 != 0 {
						return false
					}
					refusals.Add(1)
					w.Header().Set("Retry-After", "1")
					w.Header().Set("Location", r.URL.Path)
					w.WriteHeader(code)
					return true
				}
			})
			report := s.during(s.config(), 60)
			count := report.Clients[0].kinds()[name] + report.Clients[1].kinds()[name]
			if int64(count) != refusals.Load() || report.Failed() != count {
				t.Errorf("%d refusals, %d told, %d failed", refusals.Load(), count, report.Failed())
			}
			all := report.Requests()
			if want := map[int]int{429: count}[code]; all.Refused != want || all.Excused != 0 || all.Repeated != 0 {
				t.Errorf("%s, want %d refused", all, want)
			}
			if got := int64(report.Tried()); got != s.number.Load() {
				t.Errorf("%d requests reported, %d arrived", got, s.number.Load())
			}
		})
	}
}

// TestDrops: every tenth request loses its connection or, over HTTP/2, its
// stream.
func TestDrops(t *testing.T) {
	var drops [3]atomic.Int64 // by HTTP version
	s := newStandIn(t, func(s *standIn) {
		s.disturb = func(n int64, _ http.ResponseWriter, r *http.Request) bool {
			if n%10 == 0 {
				drops[r.ProtoMajor].Add(1)
				panic(http.ErrAbortHandler)
			}
			return false
		}
	})
	report := s.during(s.config(), 60)
	kept, fresh := report.Clients[0], report.Clients[1]
	if got := kept.kinds()["HTTP/2 stream error"]; int64(got) != drops[2].Load() || kept.All.Failed != got {
		t.Errorf("kept: %d streams dropped, the report says %v", drops[2].Load(), kept.Errors)
	}
	if got := fresh.kinds()["connection closed"]; int64(got) != drops[1].Load() || fresh.All.Failed != got {
		t.Errorf("fresh: %d connections dropped, the report says %v", drops[1].Load(), fresh.Errors)
	}
}

// TestConnectionsClosed: all connections are closed once, including those of the watches.
func TestConnectionsClosed(t *testing.T) {
	s := newStandIn(t, nil)
	s.disturb = func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
		if n == 50 {
			s.server.CloseClientConnections()
		}
		return false
	}
	report := s.during(s.config(), 100)
	if report.Failed() == 0 {
		t.Error("request 50 had no answer, and the report says nothing")
	}
	for _, w := range report.Watches {
		if w.Resumed == 0 || len(w.Errors) == 0 || len(w.Missed)+w.Repeated+w.Disordered > 0 {
			t.Errorf("watch %s did not resume where it was: %+v", w.Name, w)
		}
	}
}

// TestGoAway: a server that shuts down gracefully causes no failures, and the report shows
// another connection.
func TestGoAway(t *testing.T) {
	var reported atomic.Bool
	s := newStandIn(t, func(s *standIn) {
		s.disturb = func(n int64, w http.ResponseWriter, r *http.Request) bool {
			if n >= 20 && r.ProtoMajor == 2 && !reported.Swap(true) {
				w.Header().Set("Connection", "close") // becomes a GOAWAY
			}
			return false
		}
	})
	report := s.during(s.config(), 100)
	if broken := Verdict(report, generous()); len(broken) > 0 {
		t.Errorf("nothing was lost, and the report says:\n%s", strings.Join(broken, "\n"))
	}
	if dialled := report.Clients[0].Dialled; dialled < 2 {
		t.Errorf("%d connection of the kept client", dialled)
	}
}

// stalled makes a server stop answering for a while, starting with request 30.
func stalled(stall time.Duration) func(*standIn) {
	var begun sync.Once
	free := make(chan struct{})
	return func(s *standIn) {
		s.disturb = func(n int64, _ http.ResponseWriter, _ *http.Request) bool {
			if n >= 30 {
				begun.Do(func() { time.AfterFunc(stall, func() { close(free) }) })
				<-free
			}
			return false
		}
	}
}

// TestStalledServer: nothing fails, and requests are sent at the same rate.
func TestStalledServer(t *testing.T) {
	const stall = 700 * time.Millisecond
	s := newStandIn(t, stalled(stall))
	report := s.during(s.config(), 120)
	if report.Failed() > 0 {
		t.Errorf("all were answered in time, and the report says: %v", Verdict(report, generous()))
	}
	for _, c := range report.Clients {
		if gap := c.All.Gap.Length; gap < stall/2 {
			t.Errorf("%s: longest gap %s", c.Name, gap)
		}
		if least := int(report.Took.Seconds()*testRate) - 2; c.All.Tried < least {
			t.Errorf("%s: %d requests in %s: the stall has slowed the sender", c.Name, c.All.Tried, report.Took)
		}
	}
}

// TestKeptConnectionIsReused: when all streams of a stalled connection are taken, requests wait
// for one; no second connection is opened.
func TestKeptConnectionIsReused(t *testing.T) {
	s := newStandIn(t, func(s *standIn) {
		stalled(700 * time.Millisecond)(s)
		s.streams = 6
	})
	l, err := prepare(s.config().complete())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	kept := l.clients[0]
	kept.via.streams = make(chan struct{}, 4)
	kept.request(t.Context(), 1000) // opens the connection, so that what follows does not wait for it
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() { kept.work(ctx) })
	for len(kept.ledger.acknowledged()) < 30 && Sleep(t.Context(), time.Millisecond) == nil {
		continue
	}
	cancel()
	working.Wait()
	got := kept.ledger.report("kept", &kept.via.dials, time.Since(l.begun))
	if got.All.Failed > 0 || got.Dialled != 1 {
		t.Errorf("%d connections, %d of %d requests failed: %s", got.Dialled, got.All.Failed, got.All.Tried, join(got.Errors))
	}
}

// TestNoAnswer: a request that is never answered fails after five seconds.
func TestNoAnswer(t *testing.T) {
	s := newStandIn(t, func(s *standIn) {
		s.disturb = func(n int64, _ http.ResponseWriter, r *http.Request) bool {
			if n != 30 {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client is gone
			<-r.Context().Done()
			return true
		}
	})
	report := s.during(s.config(), 60)
	if got := report.Clients[0].kinds()["no answer in time"] + report.Clients[1].kinds()["no answer in time"]; got != 1 ||
		report.Failed() != 1 {
		t.Errorf("one request had no answer, the report says: %v", Verdict(report, generous()))
	}
}

// TestLostWrite: the server acknowledges a write and loses it.
func TestLostWrite(t *testing.T) {
	var forgotten atomic.Bool
	s := newStandIn(t, func(s *standIn) {
		s.disturb = func(n int64, w http.ResponseWriter, r *http.Request) bool {
			if n < 20 || r.Method != http.MethodPost || forgotten.Swap(true) {
				return false
			}
			w.WriteHeader(http.StatusCreated)
			return true
		}
	})
	report := s.during(s.config(), 60)
	lost := report.Lost()
	if len(lost) != 1 {
		t.Fatalf("one write was lost, the report says %v", lost)
	}
	for _, w := range report.Watches {
		if !slices.Equal(w.Missed, lost) {
			t.Errorf("watch %s missed %v", w.Name, w.Missed)
		}
	}
}

// TestStreamsThatEnd: a watch resumes, and misses nothing.
func TestStreamsThatEnd(t *testing.T) {
	s := newStandIn(t, func(s *standIn) { s.streamLength = 10 })
	report := s.during(s.config(), 100)
	if broken := Verdict(report, generous()); len(broken) > 0 {
		t.Errorf("streams may end, and the report says:\n%s", strings.Join(broken, "\n"))
	}
	for _, w := range report.Watches {
		if w.Resumed < 3 || w.Events != len(s.written) {
			t.Errorf("watch %s saw %d of %d events and resumed %d times", w.Name, w.Events, len(s.written), w.Resumed)
		}
	}
}

func TestStartWithoutServer(t *testing.T) {
	s := newStandIn(t, nil)
	cfg := s.config()
	s.server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := Start(ctx, cfg); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("start against nothing: %v", err)
	}
}
