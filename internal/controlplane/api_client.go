package controlplane

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// adminCertificateLife is the lifetime of the provider's client certificate.
	adminCertificateLife = 10 * time.Minute
	// apiTimeout limits one request.
	apiTimeout = 30 * time.Second
)

// apiClient is what a typed client needs to connect to a replica's API server.
type apiClient struct {
	rest *rest.Config
	web  *http.Client
}

// hasAdminCertificate reports whether an admin certificate is available. The bundle of an etcd
// member has none if they were signed externally for a replica.
func (s Spec) hasAdminCertificate() bool {
	_, signed := s.Bundle.Signed[component.SystemMasters().Name]
	return signed || !s.Bundle.External(pki.Kubernetes)
}

// adminClient connects to the API server of the replica through SSH, as system:masters, the
// group that bypasses RBAC. The certificate is issued for this call and exists only in memory,
// unless it was signed externally.
func adminClient(s Spec) (access apiClient, done func(), err error) {
	config, err := verifiedTLS(s.Bundle, s.Host.Address())
	if err != nil {
		return apiClient{}, nil, err
	}
	pair, err := s.Bundle.Issue(component.SystemMasters(), time.Now(), adminCertificateLife)
	if err != nil {
		return apiClient{}, nil, err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return apiClient{}, nil, fmt.Errorf("load client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	web := tunnel(s.Host, config)
	web.Timeout = apiTimeout
	return apiClient{
		rest: &rest.Config{Host: s.LocalURL(), UserAgent: "terraform-provider-kube", QPS: -1}, // unlimited: the server has its own limits
		web:  web,
	}, web.CloseIdleConnections, nil
}
