package acceptance

import (
	"crypto/tls"
	"net"
	"net/http"
	"testing"
)

// etcdCredentials returns the health-check credentials of a member from its machine.
func etcdCredentials(t *testing.T, name string) *tls.Config {
	t.Helper()
	read := func(file string) []byte {
		return []byte(onMachine(t, shared.lab.Machine(name), "cat /etc/kubernetes/pki/etcd/"+file))
	}
	pair, err := tls.X509KeyPair(read("healthcheck-client.crt"), read("healthcheck-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: poolOf(string(read("ca.crt"))),
		Certificates: []tls.Certificate{pair},
	}
}

// members returns the client URLs of the members on machines.
func members(names ...string) []string {
	var urls []string
	for _, name := range names {
		urls = append(urls, "https://"+net.JoinHostPort(address(name), "2379"))
	}
	return urls
}

// askMember sends a request to a member that needs no permissions. An error means that one of
// the two does not trust the other.
func (c credentials) askMember(t *testing.T, url string) error {
	t.Helper()
	code, text, err := c.call(t.Context(), url, http.MethodGet, "/version", nil, nil)
	if err == nil && code != http.StatusOK {
		t.Fatalf("%s/version: HTTP %d: %s", url, code, text)
	}
	return err
}
