package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// tunnel is an HTTP client whose connections start on machine h, inside the SSH
// connection to it. The caller closes them with CloseIdleConnections.
func tunnel(h *host.Host, config *tls.Config) *http.Client {
	return &http.Client{Transport: bounded{&http.Transport{
		DialContext:     h.Dial,
		TLSClientConfig: config,
		// One connection is kept open, because a handshake costs the machine more than the
		// request. HTTP/1.1, so that a server that shuts down ends it immediately.
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: 64 << 10,
	}}}
}

// longestAnswer is in bytes. It is enough for a page of a list, and a compromised machine
// cannot fill the memory of the provider.
const longestAnswer = 32 << 20

var errAnswerTooLong = fmt.Errorf("the answer is longer than %d MiB", longestAnswer>>20)

// bounded is a transport that limits responses to longestAnswer.
type bounded struct{ *http.Transport }

func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.Transport.RoundTrip(request)
	if err == nil {
		response.Body = &boundedBody{ReadCloser: response.Body, left: longestAnswer}
	}
	return response, err
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errAnswerTooLong
	}
	return n, err
}

// verifiedTLS trusts the serving certificate of the API server at address.
func verifiedTLS(b *pki.Bundle, address string) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(b.Known(pki.Kubernetes))) {
		return nil, errors.New("the bundle's authority is not a certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: address}, nil
}

// selfSignedTLS accepts any certificate. kube-controller-manager and kube-scheduler serve with
// a certificate that they generate at each start, on a loopback address that is reached through
// SSH, whose host key was verified. The request carries no credentials.
func selfSignedTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}
}
