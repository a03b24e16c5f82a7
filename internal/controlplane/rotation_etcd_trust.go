package controlplane

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// etcdTimeout limits the request for the certificate of one member.
const etcdTimeout = 5 * time.Second

// checkEtcdTrust returns an error if an etcd CA would be removed from the trust of an API
// server while a member has a certificate of that CA alone: the API server would start without
// etcd.
func checkEtcdTrust(ctx context.Context, s Spec, f observed) error {
	next := s.Bundle.Anchors(pki.Etcd)
	if !pki.Loses(f.facts.Files[component.EtcdClientCA].Content, next) {
		return nil
	}
	var refused []string
	for _, member := range slices.Sorted(slices.Values(s.EtcdURLs)) {
		chain, err := servingChain(ctx, s, member)
		switch {
		case err != nil:
			refused = append(refused, fmt.Sprintf("cannot determine which certificate %s serves: %v", member, err))
		case !pki.Accepts(next, chain, pki.Server, time.Now()):
			refused = append(refused, fmt.Sprintf("%s serves a certificate of %q, which would no longer be trusted", member, chain[0].Issuer.CommonName))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return rotationNotYet(s, strings.Join(refused, "; "), "make sure that every etcd member runs and has been applied at the stage before, then apply again.")
}

// servingChain returns the certificate chain that an etcd member serves, as seen from the
// machine of the replica.
func servingChain(ctx context.Context, s Spec, member string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	at, err := url.Parse(member)
	if err != nil {
		return nil, err
	}
	// A member may end the handshake without a client certificate. By then it has sent
	// its own.
	chain, err := s.Host.ServingChain(ctx, at.Host)
	if len(chain) == 0 && err != nil {
		return nil, innermost(err)
	}
	return chain, nil
}
