package haproxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// presentedTimeout limits one TLS handshake with a replica: as long as HAProxy's own check may
// take.
const presentedTimeout = 5 * time.Second

// presented is the certificate chain that a replica presents to its clients.
type presented struct {
	server
	chain  []*x509.Certificate // leaf first
	silent error               // why there is no chain; nil if there is one
	serves string              // a balancer that reports it as healthy; "" if none does
}

// checkTrust refuses to remove a CA from the balancers while a replica in rotation still needs
// it. It reads the replicas' certificates only if a CA is removed.
func checkTrust(ctx context.Context, s Spec, what string, seen map[string]balancer) error {
	if s.CACertificate == "" {
		return nil
	}
	before, err := currentTrust(ctx, s, seen)
	if err != nil {
		return refusedError(s, what, err)
	}
	before = unverifiable(before, s.CACertificate)
	if len(before) == 0 {
		return nil
	}
	replicas := presentedByAll(ctx, s, reachableOf(seen))
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, replica := range replicas {
		if replica.silent != nil && replica.serves == "" {
			problem.Progress(ctx, "replica %s is down and cannot be asked for its certificate: %v", replica.Name, replica.silent)
		}
	}
	reasons := distrusted(before, s.CACertificate, replicas, time.Now())
	if len(reasons) == 0 {
		return nil
	}
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not " + what,
		Attribute: "ca_certificate",
		Cause: "the balancers would no longer trust the certificates of replicas that they send requests to: " +
			"the health checks of these would fail, and the endpoint would send them nothing",
		Unchanged: problem.Nothing,
		Next: "finish the earlier stage of the rotation: set it back by one and apply, until every replica presents a " +
			"certificate of the new authority, " +
			"then raise it again",
		Detail: "  " + strings.Join(reasons, "\n  "),
	}
}

// currentTrust returns, by balancer, the CA certificates (PEM) that it verifies the replicas
// against, "" if it verifies nothing. A balancer that already has the wanted ones is left out.
func currentTrust(ctx context.Context, s Spec, seen map[string]balancer) (map[string]string, error) {
	var mu sync.Mutex
	before := map[string]string{}
	err := onHosts(names(seen), func(name string) error {
		b := seen[name]
		state, ok := b.facts.Files[caPath]
		if b.unreachable != nil || !b.installed() || ok && state.SHA256 == sha256Hex([]byte(s.CACertificate)) {
			return nil
		}
		facts, err := s.Hosts[name].Observe(ctx, host.Query{Contents: []string{caPath}})
		if err != nil {
			return fmt.Errorf("read %s on %s: %w", caPath, s.label(name), err)
		}
		mu.Lock()
		defer mu.Unlock()
		before[name] = facts.Files[caPath].Content
		return nil
	})
	return before, err
}

// unverifiable returns the balancers from which after removes a CA certificate.
func unverifiable(before map[string]string, after string) map[string]string {
	taken := map[string]string{}
	for name, text := range before {
		switch {
		case len(pki.CertificatesIn(text)) == 0: // any certificate was accepted
			taken[name] = ""
		case pki.Loses(text, after):
			taken[name] = text
		}
	}
	return taken
}

// distrusted describes the replicas whose certificates a balancer accepts with the CA
// certificates before the change and would reject with those after it. A replica that no
// balancer accepts is not affected. A healthy replica that presented no certificate counts as
// affected.
func distrusted(before map[string]string, after string, replicas []presented, now time.Time) []string {
	accepted := func(chain []*x509.Certificate) bool {
		for _, roots := range before {
			if roots == "" || pki.Accepts(roots, chain, pki.Server, now) {
				return true
			}
		}
		return false
	}
	var reasons []string
	for _, replica := range replicas {
		label := replica.String()
		switch {
		case replica.silent != nil && replica.serves != "":
			reasons = append(reasons,
				fmt.Sprintf("%s: %s reports it as healthy, but it presented no certificate (%v): apply again when it answers",
					label, replica.serves, replica.silent))
		case replica.silent == nil && accepted(replica.chain) && !pki.Accepts(after, replica.chain, pki.Server, now):
			reasons = append(reasons, fmt.Sprintf("%s: its certificate is signed by %q, which would no longer be trusted",
				label, replica.chain[0].Issuer.CommonName))
		}
	}
	return reasons
}

// presentedByAll returns the certificate chain of each replica that a balancer lists.
func presentedByAll(ctx context.Context, s Spec, reachable map[string]balancer) []presented {
	replicas := allServers(reachable)
	answers := make([]presented, len(replicas))
	var all sync.WaitGroup
	for i, replica := range replicas {
		all.Go(func() {
			answers[i] = presented{server: replica, serves: healthyOn(replica, reachable)}
			answers[i].chain, answers[i].silent = presentedBy(ctx, s, names(reachable), replica)
		})
	}
	all.Wait()
	return answers
}

// healthyOn returns a balancer that reports the replica as healthy, or "".
func healthyOn(replica server, seen map[string]balancer) string {
	for _, name := range names(seen) {
		for _, backend := range seen[name].stats {
			if backend.Name == replica.Name && backend.Address == replica.Address && backend.up() {
				return name
			}
		}
	}
	return ""
}

// presentedBy dials the replica from one balancer after the other until it answers.
func presentedBy(ctx context.Context, s Spec, from []string, replica server) ([]*x509.Certificate, error) {
	var failures []error
	for _, name := range from {
		chain, err := certificateOf(ctx, s.Hosts[name], replica.Address)
		if err == nil {
			return chain, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// certificateOf returns the chain that a replica presents to a client on the machine.
func certificateOf(ctx context.Context, from *host.Host, address netip.AddrPort) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, presentedTimeout)
	defer cancel()
	return from.ServingChain(ctx, address.String())
}
