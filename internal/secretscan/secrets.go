package secretscan

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// AddFile adds the private keys of a file: PEM, a kubeconfig, or a configuration of encryption at
// rest. It returns their number.
func (s *Search) AddFile(of, text string) int {
	n := s.AddPEM(of, text)
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimLeft(line, " -"), ":")
		decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(value))
		if err != nil {
			continue
		}
		switch field {
		case "client-key-data":
			n += s.AddPEM(of, string(decoded))
		case "secret":
			s.AddBytes(of, "a key of encryption", decoded)
			n++
		}
	}
	return n
}

// AddBundle adds every secret of a bundle, and returns their number.
func (s *Search) AddBundle(b *pki.Bundle) (int, error) {
	n := 0
	for name, r := range map[string]struct {
		pair  pki.KeyPair
		other *pki.KeyPair
	}{
		"the Kubernetes authority":  {b.CA, b.CARotation.Other},
		"the etcd authority":        {b.EtcdCA, b.EtcdCARotation.Other},
		"the front-proxy authority": {b.FrontProxyCA, b.FrontProxyCARotation.Other},
		"the service accounts":      {b.ServiceAccount, b.ServiceAccountRotation.Other},
	} {
		n += s.AddPEM(name, r.pair.PrivateKey)
		if r.other != nil {
			n += s.AddPEM(name+", the other one", r.other.PrivateKey)
		}
	}
	encryptions := append([]pki.Encryption{b.Encryption}, b.WithdrawnKeys...)
	for _, other := range []*pki.Encryption{b.EncryptionRotation.Other, b.EncryptionRotation.Former} {
		if other != nil {
			encryptions = append(encryptions, *other)
		}
	}
	for _, e := range encryptions {
		if e.Key == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(e.Key)
		if err != nil {
			return n, fmt.Errorf("read the key of encryption at rest: %w", err)
		}
		s.AddBytes("the encryption at rest", "its key", key)
		n++
	}
	return n, nil
}
