package external

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
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed resolve.sh
var resolveScript host.Script

const (
	// probeTimeout limits one request of HealthCheckPath. Some of its checks wait for etcd.
	probeTimeout = 5 * time.Second
	// answerTimeout is how long an endpoint may take to answer, in addition to the detection
	// time, when a replica is ready.
	answerTimeout = 30 * time.Second
)

var (
	errUnresolved = errors.New("the name cannot be resolved")
	errTerminated = errors.New("the balancer ends TLS itself")
)

// url is what clients of the endpoint use.
func (r *Registrar) url() string {
	return "https://" + net.JoinHostPort(r.registration.Address, strconv.Itoa(r.registration.Port))
}

// resolves returns an error if the endpoint's name has no address.
func (r *Registrar) resolves(ctx context.Context) error {
	name := r.registration.Address
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if r.registration.ProbeFrom == "" {
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			return fmt.Errorf("%w from this computer: %w", errUnresolved, err)
		}
		return nil
	}
	output, err := r.machine(r.registration.ProbeFrom).Run(ctx, host.Command{
		Script: resolveScript, Vars: map[string]string{"name": name},
	})
	if err == nil && output != "resolved\n" {
		err = fmt.Errorf("%w on %s", errUnresolved, r.registration.ProbeFrom)
	}
	return err
}

// waitUntilAnswers returns when the endpoint answers, or why it does not.
func (r *Registrar) waitUntilAnswers(ctx context.Context) error {
	err := r.waitUntil(ctx, r.registration.DetectionTime+answerTimeout, r.answers)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s does not answer, although a replica is ready: %w", r.url(), err)
	}
	return err
}

// answers returns why the endpoint does not answer as an API server of the cluster, or nil.
func (r *Registrar) answers(ctx context.Context) error {
	dial := (&net.Dialer{}).DialContext
	if r.registration.ProbeFrom != "" {
		dial = r.machine(r.registration.ProbeFrom).Dial
	}
	chain, err := get(ctx, dial, r.url())
	if err != nil {
		return err
	}
	return r.checkIssuer(ctx, chain)
}

// checkIssuer compares the issuer of the endpoint's certificate with that of the replicas.
// A balancer that ends TLS shows its own: no client of the cluster would accept it.
func (r *Registrar) checkIssuer(ctx context.Context, chain []*x509.Certificate) error {
	for _, name := range slices.Sorted(maps.Keys(r.registration.Hosts)) {
		machine := r.machine(r.registration.Hosts[name])
		observed, err := r.recorded(ctx, machine.Address())
		if err != nil || observed.Name != name {
			continue
		}
		at := target{address: machine.Address(), port: observed.Port}.at()
		own, err := machine.ServingChain(ctx, at)
		if err != nil && len(own) == 0 {
			continue // the next one, or nobody: then the answer is all there is
		}
		if len(chain) == 0 || !sameIssuer(own[0], chain[0]) {
			return fmt.Errorf("%w: %s shows a certificate of another issuer than %s", errTerminated, r.url(), at)
		}
		return nil
	}
	return nil
}

func sameIssuer(a, b *x509.Certificate) bool {
	return bytes.Equal(a.RawIssuer, b.RawIssuer) && bytes.Equal(a.AuthorityKeyId, b.AuthorityKeyId)
}

// probeTarget returns why the target's API server is not ready, or nil. The request is made on its
// own machine.
func (r *Registrar) probeTarget(ctx context.Context, t target) error {
	_, err := get(ctx, r.machine(t.address).Dial, "https://"+t.at())
	return err
}

// probeThroughOthers is probeTarget for a machine that is not reached by SSH: its API server may
// serve all the same.
func (r *Registrar) probeThroughOthers(ctx context.Context, t target) error {
	err := errors.New("no other target can be reached")
	for _, name := range slices.Sorted(maps.Keys(r.registration.Hosts)) {
		if name == t.name {
			continue
		}
		_, err = get(ctx, r.machine(r.registration.Hosts[name]).Dial, "https://"+t.at())
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

// waitUntil calls try until it succeeds or timeout has passed, and returns its last error.
func (*Registrar) waitUntil(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	end := time.Now().Add(timeout)
	for {
		err := try(ctx)
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

// nextStep says what to do about an endpoint that does not answer.
func nextStep(err error) string {
	switch {
	case errors.Is(err, errUnresolved):
		return "create the DNS record of the endpoint (address), or name a machine that can resolve it " +
			"(external.probe_from), then apply again"
	case errors.Is(err, errTerminated):
		return "let the balancer pass TCP connections through without ending TLS, then apply again"
	case errors.Is(err, errNotATarget):
		return "add the replica to external.targets of the endpoint and to the balancer, then apply again"
	}
	return "check that the balancer listens at this address, sends connections to the targets that the endpoint's " +
		"attribute backend lists, and checks them by HTTPS with the path " + HealthCheckPath + ", then apply again; if " +
		"this computer cannot reach the endpoint, name a machine that can (external.probe_from)"
}

func parsePort(text string) (int, error) {
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s is not a TCP port", problem.Quote(text))
	}
	return port, endpoint.ValidatePort(port)
}
