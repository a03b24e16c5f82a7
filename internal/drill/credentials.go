package drill

import (
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Names of the files in layout.DrillRunDir with the credentials of the drill's API server.
const (
	caFile   = "ca.crt"
	certFile = "tls.crt"
	keyFile  = "tls.key"
)

// loopback is where the API server of a drill is reached on the machine.
const loopback = "127.0.0.1"

// credentialsLife is the lifetime of the certificate of a drill's API server.
const credentialsLife = 2 * longest

// credentials are those of one drill. Its authorities are made for it and exist only in memory, so that
// nobody else can log in to its API server, and nothing of it is trusted anywhere else.
type credentials struct {
	bundle  *pki.Bundle
	serving pki.KeyPair
}

func newCredentials() (credentials, error) {
	b, err := pki.Generate(pki.Options{ClusterName: "restore-drill", Algorithm: pki.ECDSAP256, Now: time.Now()})
	if err != nil {
		return credentials{}, fmt.Errorf("make the credentials of the drill: %w", err)
	}
	leaf := pki.APIServer(pki.APIServerNames{
		NodeName: "restore-drill", Advertise: loopback, ClusterDomain: component.DefaultClusterDomain,
	})
	pair, err := b.Issue(leaf, time.Now(), credentialsLife)
	if err != nil {
		return credentials{}, fmt.Errorf("make the credentials of the drill: %w", err)
	}
	return credentials{bundle: b, serving: pair}, nil
}

// files returns the files of the API server, by name.
func (c credentials) files() map[string]string {
	return map[string]string{
		caFile: c.bundle.Known(pki.Kubernetes), certFile: c.serving.Certificate, keyFile: c.serving.PrivateKey,
	}
}

// replica describes the API server of the drill for a client.
func (c credentials) replica(port int) component.Replica {
	return component.Replica{Name: "restore-drill", Address: loopback, Port: port, Bundle: c.bundle}
}
