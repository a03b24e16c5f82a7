// Package client connects to the components of one replica through SSH: it probes whether they are
// ready, and makes the few requests to the API server that the replica's lifecycle needs.
package client

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// adminCertificateLife is the lifetime of the provider's client certificate.
	adminCertificateLife = 10 * time.Minute
	// apiTimeout limits one request.
	apiTimeout = 30 * time.Second
)

// adminAccess is what a typed client needs to connect to a replica's API server.
type adminAccess struct {
	rest *rest.Config
	web  *http.Client
}

// Client connects to the components of one replica. Its zero value is not usable.
type Client struct {
	host    *host.Host
	replica component.Replica
}

// New returns the client for the replica s on its machine h. It does not connect yet.
func New(h *host.Host, s component.Replica) Client { return Client{host: h, replica: s} }

// hasAdminCertificate reports whether an admin certificate is available. The bundle of an etcd
// member has none if they were signed externally for a replica.
func (c Client) hasAdminCertificate() bool {
	_, signed := c.replica.Bundle.Signed[component.SystemMasters().Name]
	return signed || !c.replica.Bundle.External(pki.Kubernetes)
}

// admin connects to the API server of the replica through SSH, as system:masters, the
// group that bypasses RBAC. The certificate is issued for this call and exists only in memory,
// unless it was signed externally.
func (c Client) admin() (access adminAccess, done func(), err error) {
	config, err := verifiedTLS(c.replica.Bundle, c.replica.Address)
	if err != nil {
		return adminAccess{}, nil, err
	}
	pair, err := c.replica.Bundle.Issue(component.SystemMasters(), time.Now(), adminCertificateLife)
	if err != nil {
		return adminAccess{}, nil, err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return adminAccess{}, nil, fmt.Errorf("load client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	web := tunnel(c.host, config)
	web.Timeout = apiTimeout
	return adminAccess{
		rest: &rest.Config{Host: c.replica.LocalURL(), UserAgent: "terraform-provider-kube", QPS: -1}, // unlimited: the server has its own limits
		web:  web,
	}, web.CloseIdleConnections, nil
}
