package targets

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// HealthCheckPath is what is requested of each target by HTTPS. The status 200 means ready.
const HealthCheckPath = "/readyz"

const (
	// probeTimeout limits one request of HealthCheckPath. Some of its checks wait for etcd.
	probeTimeout = 5 * time.Second
	// answerTimeout is how long an endpoint may take to answer, in addition to the time until a
	// replica that is ready is in rotation.
	answerTimeout = 30 * time.Second
)

// Why an endpoint does not answer.
var (
	ErrTerminated = errors.New("the balancer ends TLS itself")
)

// BaseURL is what clients of the endpoint use.
func (s *Set) BaseURL() string {
	return "https://" + net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
}

// WaitUntilAnswers returns when the endpoint answers, or why it does not.
func (s *Set) WaitUntilAnswers(ctx context.Context) error {
	err := WaitUntil(ctx, s.EntryTime()+answerTimeout, s.Answers)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s does not answer, although a replica is ready: %w", s.BaseURL(), err)
	}
	return err
}

// Answers returns why the endpoint does not answer as an API server of the cluster, or nil.
func (s *Set) Answers(ctx context.Context) error {
	dial := (&net.Dialer{}).DialContext
	if s.ProbeFrom != "" {
		dial = s.machine(s.ProbeFrom).Dial
	}
	chain, err := get(ctx, dial, s.BaseURL())
	if err != nil {
		return err
	}
	return s.checkIssuer(ctx, chain)
}

// checkIssuer compares the issuer of the endpoint's certificate with that of the first replica that answers.
// A balancer that ends TLS shows its own: no client of the cluster would accept it. If no replica answers, the answer
// of the endpoint is all there is.
func (s *Set) checkIssuer(ctx context.Context, chain []*x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	own, answered := <-s.servingChains(ctx, s.Hosts)
	if answered && !sameCluster(own.certificates, chain) {
		return fmt.Errorf("%w: %s shows a certificate of another issuer than %s", ErrTerminated, s.BaseURL(), own.at)
	}
	return nil
}

// servingChain is what the API server at host:port shows, its own certificate first.
type servingChain struct {
	at           string
	certificates []*x509.Certificate
}

// servingChains returns what the API servers of targets show, as they answer, and closes the channel when all have.
func (s *Set) servingChains(ctx context.Context, hosts map[string]string) <-chan servingChain {
	shown := make(chan servingChain, len(hosts))
	var all sync.WaitGroup
	for name, address := range hosts {
		all.Go(func() {
			if own, ok := s.chainOf(ctx, name, address); ok {
				shown <- own
			}
		})
	}
	go func() {
		all.Wait()
		close(shown)
	}()
	return shown
}

// chainOf returns what the API server of a target shows on its own machine, if that has the replica and answers.
func (s *Set) chainOf(ctx context.Context, name, address string) (own servingChain, ok bool) {
	observed, err := s.recordedInTime(ctx, address)
	if err != nil || observed.Name != name || observed.ClusterID != s.ClusterID {
		return servingChain{}, false
	}
	at := Target{Address: address, Port: observed.Port}.At()
	chain, _ := s.machine(address).ServingChain(ctx, at) // which a server may show before it ends the handshake
	return servingChain{at, chain}, len(chain) > 0
}

// sameCluster reports whether the issuer of one API server's certificate is among those of the other's chain. During a
// rotation, one of the two has a certificate of the next authority, and shows the one that the former has given to it.
func sameCluster(a, b []*x509.Certificate) bool { return issues(a, b) || issues(b, a) }

// issues reports whether the issuer of the first certificate of a chain is one of those of another chain.
func issues(a, b []*x509.Certificate) bool {
	return len(a) > 0 && slices.ContainsFunc(b, func(c *x509.Certificate) bool {
		return bytes.Equal(a[0].RawIssuer, c.RawIssuer) && bytes.Equal(a[0].AuthorityKeyId, c.AuthorityKeyId)
	})
}

// probeError is why a probe has failed. The next one may succeed.
type probeError struct{ error }

func (e *probeError) Unwrap() error { return e.error }

// Probe returns why the target's API server is not ready, or nil. The request is made on its
// own machine.
func (s *Set) Probe(ctx context.Context, t Target) error {
	if _, err := get(ctx, s.machine(t.Address).Dial, "https://"+t.At()); err != nil {
		return &probeError{err}
	}
	return nil
}

// Readiness is Probe for what a plan shows: one answer that is late is no drift. A hang is, which takes two probes.
func (s *Set) Readiness(ctx context.Context, t Target) error {
	return unlessLate(ctx, func() error { return s.Probe(ctx, t) })
}

// unlessLate probes again if the first answer was late.
func unlessLate(ctx context.Context, probe func() error) error {
	err := probe()
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	select {
	case <-time.After(probePause):
		return probe()
	case <-ctx.Done():
		return err
	}
}

// errStranger is why a target gets no requests although an API server answers at its address.
var errStranger = errors.New("an API server of another cluster answers at its address")

// probeAgain returns why an observed target is not ready by now, or nil.
func (s *Set) probeAgain(ctx context.Context, t Target) error {
	if t.Unreachable == nil {
		return s.Probe(ctx, t)
	}
	switch err := s.probeThroughOthers(ctx, t); {
	case errors.Is(err, errStranger):
		return fmt.Errorf("%w; %w", err, t.Unreachable)
	case err != nil:
		return t.Unreachable
	}
	return nil
}

// probeThroughOthers is Probe for a machine that is not reached by SSH: its API server may
// serve all the same. All other targets ask at once, because one of them may hang, or be cut off from this one. An
// answer to one of them is enough. Nobody can ask for its record, so its certificate is compared with those of the
// others.
func (s *Set) probeThroughOthers(ctx context.Context, t Target) error {
	type answer struct {
		chain []*x509.Certificate
		err   error
	}
	answers, asked := make(chan answer, len(s.Hosts)), 0
	for name, address := range s.Hosts {
		if name == t.Name {
			continue
		}
		asked++
		go func() {
			chain, err := get(ctx, s.machine(address).Dial, "https://"+t.At())
			answers <- answer{chain, err}
		}()
	}
	err := errors.New("no other target can be reached")
	for range asked {
		a := <-answers
		if a.err == nil {
			return s.checkCluster(ctx, t, a.chain)
		}
		err = a.err
	}
	return err
}

// checkCluster returns an error if the API server at the address of a target, which has shown this chain, is of another
// cluster: no other target's has a certificate of its issuer. If none of them answers, the readiness is all there is.
func (s *Set) checkCluster(ctx context.Context, t Target, chain []*x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	others := maps.Clone(s.Hosts)
	delete(others, t.Name)
	var stranger error
	for own := range s.servingChains(ctx, others) {
		if sameCluster(own.certificates, chain) {
			return nil
		}
		stranger = fmt.Errorf("%w: its certificate has another issuer than that of %s", errStranger, own.at)
	}
	return stranger
}

// get requests HealthCheckPath and returns the certificates that the server has shown. They are
// not verified: no secret is sent, and the answer of a machine is only its own. A redirection is not followed.
func get(
	ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), url string,
) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	web := &http.Client{
		Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+HealthCheckPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return nil, fmt.Errorf("it answers %s: %s", response.Status, problem.Line(string(text)))
	}
	if response.TLS == nil {
		return nil, errors.New("it answers without TLS")
	}
	return response.TLS.PeerCertificates, nil
}
