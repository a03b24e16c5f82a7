package haproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// standInAddress makes this test binary a stand-in for kube-apiserver, of which
// balancing sees only this much: TLS with HTTP/2, /readyz that fails from
// SIGTERM on, requests served during a shutdown delay, then a graceful end.
const standInAddress = "KUBE_STAND_IN_ADDRESS"

const standInPair = "/etc/stand-in.pem"

// seenFrom is the header in which a stand-in says where a request came from.
const seenFrom = "X-Seen-From"

// present reads the certificate each time, as kube-apiserver takes a new one
// without a restart. It and its key are one file, so that they always match.
func present(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(standInPair, standInPair)
	return &pair, err
}

func runStandIn(address string) error {
	var stopping atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if stopping.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "ok")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(seenFrom, r.RemoteAddr)
		_, _ = io.WriteString(w, address)
	})
	server := &http.Server{Addr: address, Handler: mux, TLSConfig: &tls.Config{GetCertificate: present}}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServeTLS("", "") }()
	terminated, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	select {
	case err := <-served:
		return err
	case <-terminated.Done():
	}
	stopping.Store(true)
	time.Sleep(3 * time.Second) // --shutdown-delay-duration
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// traffic asks the endpoint 50 times a second on a kept and 50 times on fresh
// connections, and counts what fails.
type traffic struct {
	stop          context.CancelFunc
	done          chan struct{}
	asked, failed atomic.Int64
	longest       atomic.Int64 // nanoseconds
	stalled       atomic.Int64 // nanoseconds: the longest time in which this program did not run
	since         time.Time
	errors        chan string
}

// mostStalled is how long a machine may stop before keepalived on the others loses its peer after
// three advertisements, 250 ms apart. The address then moves, and connections end, whatever the
// endpoint does.
const mostStalled = 500 * time.Millisecond

// stallScript notes in the journal when the machine did not run its processes for longer than
// mostStalled. /proc/uptime is in hundredths of a second.
const stallScript = `systemctl is-active --quiet stalls || systemd-run --quiet --unit=stalls sh -c '
while sleep 0.1; do
  read -r up rest </proc/uptime
  now=${up%.*}${up#*.}
  if [ -n "$last" ] && [ $((now - last)) -gt 60 ]; then echo "stopped for $((now - last - 10))0 ms"; fi
  last=$now
done'`

// watchStalls measures how late this program wakes up, until ctx ends.
func (tr *traffic) watchStalls(ctx context.Context) {
	const pulse = 20 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		time.Sleep(pulse)
		now := time.Now()
		if late := int64(now.Sub(last) - pulse); late > tr.stalled.Load() {
			tr.stalled.Store(late)
		}
		last = now
	}
}

// stalls returns what kept the computer or one of its machines from running since the traffic
// began, or "".
func (tr *traffic) stalls(t *testing.T) string {
	t.Helper()
	var all []string
	if here := time.Duration(tr.stalled.Load()); here > mostStalled {
		all = append(all, "this program stopped for "+here.String())
	}
	for _, m := range machines.lab.Machines() {
		output, err := m.Run(t.Context(), fmt.Sprintf("journalctl --quiet --output=cat --unit=stalls --since=@%d | "+
			"grep 'stopped for' || true", tr.since.Unix()))
		if err == nil && strings.TrimSpace(output) != "" {
			all = append(all, m.Name+" "+strings.Join(strings.Split(strings.TrimSpace(output), "\n"), ", "))
		}
	}
	return strings.Join(all, "; ")
}

// client trusts ca and either keeps its connection or makes a fresh one each time.
func client(ca []byte, fresh bool, timeout time.Duration) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: "kubernetes"},
		ForceAttemptHTTP2:   !fresh,
		DisableKeepAlives:   fresh,
		DialContext:         (&net.Dialer{Timeout: timeout}).DialContext,
		TLSHandshakeTimeout: timeout,
	}}
}

func startTraffic(url string, ca []byte, timeout time.Duration) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	tr := &traffic{
		stop: cancel, done: make(chan struct{}), errors: make(chan string, 1000), since: time.Now(),
	}
	go tr.watchStalls(ctx)
	go func() {
		defer close(tr.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		asking := make(chan struct{}, 400)
		kept, fresh := client(ca, false, timeout), client(ca, true, timeout)
		for ctx.Err() == nil {
			<-tick.C
			for kind, c := range map[string]*http.Client{"kept": kept, "fresh": fresh} {
				asking <- struct{}{}
				go func() {
					defer func() { <-asking }()
					tr.ask(c, kind, url)
				}()
			}
		}
		for range cap(asking) {
			asking <- struct{}{}
		}
	}()
	return tr
}

func (tr *traffic) ask(c *http.Client, kind, url string) {
	started := time.Now()
	err := func() error {
		answer, err := c.Get(url)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			return err
		}
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	}()
	tr.asked.Add(1)
	if took := int64(time.Since(started)); took > tr.longest.Load() {
		tr.longest.Store(took)
	}
	if err != nil {
		tr.failed.Add(1)
		select {
		case tr.errors <- fmt.Sprintf("%s %s after %s: %v", time.Now().Format("15:04:05.000"), kind,
			time.Since(started).Round(time.Millisecond), err):
		default:
		}
	}
}

// end stops the traffic and reports it. Failed requests do not count if the computer, or a machine
// on it, stopped for longer than mostStalled meanwhile.
func (tr *traffic) end(t *testing.T) (asked, failed int64) {
	t.Helper()
	tr.stop()
	<-tr.done
	close(tr.errors)
	shown := 0
	for line := range tr.errors {
		if shown++; shown <= 10 {
			t.Log(line)
		}
	}
	t.Logf("%d requests, %d failed, the slowest took %s", tr.asked.Load(), tr.failed.Load(),
		time.Duration(tr.longest.Load()).Round(time.Millisecond))
	if stalls := tr.stalls(t); tr.failed.Load() > 0 && stalls != "" {
		t.Logf("%d failed requests do not count: %s", tr.failed.Load(), stalls)
		return tr.asked.Load(), 0
	}
	return tr.asked.Load(), tr.failed.Load()
}

func standInIfAsked() {
	if address := os.Getenv(standInAddress); address != "" {
		if err := runStandIn(address); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}
