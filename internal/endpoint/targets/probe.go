package targets

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed resolve.sh
var resolveScript host.Script

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
	ErrUnresolved = errors.New("the name cannot be resolved")
	ErrTerminated = errors.New("the balancer ends TLS itself")
)

// BaseURL is what clients of the endpoint use.
func (s *Set) BaseURL() string {
	return "https://" + net.JoinHostPort(s.Address, strconv.Itoa(s.Port))
}

// Resolves returns an error if the endpoint's name has no address.
func (s *Set) Resolves(ctx context.Context) error {
	name := s.Address
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if s.ProbeFrom == "" {
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			return fmt.Errorf("%w from this computer: %w", ErrUnresolved, err)
		}
		return nil
	}
	output, err := s.machine(s.ProbeFrom).Run(ctx, host.Command{
		Script: resolveScript, Vars: map[string]string{"name": name},
	})
	if err == nil && output != "resolved\n" {
		err = fmt.Errorf("%w on %s", ErrUnresolved, s.ProbeFrom)
	}
	return err
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
	shown := make(chan servingCertificate, len(s.Hosts))
	var all sync.WaitGroup
	for name, address := range s.Hosts {
		all.Go(func() {
			if own, ok := s.certificateOf(ctx, name, address); ok {
				shown <- own
			}
		})
	}
	go func() {
		all.Wait()
		close(shown)
	}()
	own, answered := <-shown
	if answered && (len(chain) == 0 || !sameIssuer(own.certificate, chain[0])) {
		return fmt.Errorf("%w: %s shows a certificate of another issuer than %s", ErrTerminated, s.BaseURL(), own.at)
	}
	return nil
}

// servingCertificate is what the API server at host:port shows.
type servingCertificate struct {
	at          string
	certificate *x509.Certificate
}

// certificateOf returns what the API server of a target shows on its own machine, if that has the replica and answers.
func (s *Set) certificateOf(ctx context.Context, name, address string) (own servingCertificate, ok bool) {
	observed, err := s.recordedInTime(ctx, address)
	if err != nil || observed.Name != name {
		return servingCertificate{}, false
	}
	at := Target{Address: address, Port: observed.Port}.At()
	chain, _ := s.machine(address).ServingChain(ctx, at) // which a server may show before it ends the handshake
	if len(chain) == 0 {
		return servingCertificate{}, false
	}
	return servingCertificate{at, chain[0]}, true
}

func sameIssuer(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawIssuer, b.RawIssuer) && bytes.Equal(a.AuthorityKeyId, b.AuthorityKeyId)
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

// probeAgain returns why an observed target is not ready by now, or nil.
func (s *Set) probeAgain(ctx context.Context, t Target) error {
	if t.Unreachable == nil {
		return s.Probe(ctx, t)
	}
	if s.probeThroughOthers(ctx, t) == nil {
		return nil
	}
	return t.Unreachable
}

// probeThroughOthers is Probe for a machine that is not reached by SSH: its API server may
// serve all the same.
func (s *Set) probeThroughOthers(ctx context.Context, t Target) error {
	err := errors.New("no other target can be reached")
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		if name == t.Name {
			continue
		}
		_, err = get(ctx, s.machine(s.Hosts[name]).Dial, "https://"+t.At())
		if !errors.Is(err, host.ErrUnreachable) {
			return err
		}
	}
	return err
}

// get requests HealthCheckPath and returns the certificates that the server has shown. They are
// not verified: no secret is sent, and the answer of a machine is only its own.
func get(
	ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), url string,
) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}, //nolint:gosec // see above
	}}
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
	return response.TLS.PeerCertificates, nil
}
