// Command certificates creates the certificates and kubeconfigs of one machine in a directory, as
// the provider does, so that a benchmark can compare its process with that of kubeadm. The first
// machine also gets the CAs, in a bundle that the others share.
//
//	certificates DIRECTORY ALGORITHM NAME ADDRESS ENDPOINT
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: certificates DIRECTORY ALGORITHM NAME ADDRESS ENDPOINT")
	}
	m := machine{dir: filepath.Join(os.Args[1], os.Args[3]), name: os.Args[3], address: os.Args[4], endpoint: os.Args[5]}
	if err := m.create(filepath.Join(os.Args[1], "bundle"), pki.Algorithm(os.Args[2])); err != nil {
		log.Fatal(err)
	}
}

// machine receives certificates: an etcd member and a replica.
type machine struct{ dir, name, address, endpoint string }

// create creates the files of the machine, with the CAs of the bundle in a file.
func (m machine) create(bundle string, algorithm pki.Algorithm) error {
	now := time.Now()
	b, err := open(bundle, algorithm, now)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	for name, leaf := range m.leaves() {
		pair, err := b.Issue(leaf, now, 0)
		if err != nil {
			return err
		}
		if err := m.write(name+".crt", pair.Certificate); err != nil {
			return err
		}
		if err := m.write(name+".key", pair.PrivateKey); err != nil {
			return err
		}
	}
	return m.kubeconfigs(b, now)
}

// open reads the bundle, or generates it.
func open(path string, algorithm pki.Algorithm, now time.Time) (*pki.Bundle, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return pki.Parse(string(text), nil)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Algorithm: algorithm, Now: now})
	if err != nil {
		return nil, err
	}
	encoded, err := b.Encode(nil)
	if err != nil {
		return nil, err
	}
	return b, os.WriteFile(path, []byte(encoded), 0o600)
}

func (m machine) write(name, text string) error {
	return os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600)
}

// leaves returns the leaves of kubeadm's table, by the names of their files.
func (m machine) leaves() map[string]pki.Leaf {
	return map[string]pki.Leaf{
		"etcd-server":             pki.EtcdServer(m.name, m.address),
		"etcd-peer":               pki.EtcdPeer(m.name, m.address),
		"etcd-healthcheck-client": pki.EtcdHealthcheckClient(),
		"apiserver": pki.APIServer(pki.APIServerNames{
			NodeName: m.name, ClusterDomain: "cluster.local", ServiceIPs: []string{"10.96.0.1"}, Advertise: m.address,
			Endpoint: m.endpoint,
		}),
		"apiserver-kubelet-client": pki.APIServerKubeletClient(),
		"front-proxy-client":       pki.FrontProxyClient(),
		"apiserver-etcd-client":    pki.APIServerEtcdClient(),
	}
}

func (m machine) kubeconfigs(b *pki.Bundle, now time.Time) error {
	for name, user := range map[string]pki.Leaf{
		"admin":              pki.User("kubernetes-admin", "kubeadm:cluster-admins"),
		"controller-manager": pki.User("system:kube-controller-manager"),
		"scheduler":          pki.User("system:kube-scheduler"),
	} {
		pair, err := b.Issue(user, now, 0)
		if err != nil {
			return err
		}
		text, err := pki.Kubeconfig(pki.KubeconfigSpec{
			Cluster: b.ClusterName, Server: fmt.Sprintf("https://%s:6443", m.address), CA: b.Roots(pki.Kubernetes),
			User: user.CommonName, Client: pair,
		})
		if err != nil {
			return err
		}
		if err := m.write(name+".conf", text); err != nil {
			return err
		}
	}
	return nil
}
