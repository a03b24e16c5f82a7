package pki

import (
	"crypto"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// format is the version of the text that Encode writes. A change that an older
// Parse would misread needs a new number.
const format = 1

const clusterIDBytes = 16

// encoded is a bundle as text. The order of its fields is the order in the
// text, so that equal bundles are equal texts.
type encoded struct {
	Format         int         `json:"format"`
	ClusterID      string      `json:"cluster_id"`
	ClusterName    string      `json:"cluster_name"`
	Algorithm      Algorithm   `json:"algorithm"`
	CA             encodedPair `json:"ca"`
	EtcdCA         encodedPair `json:"etcd_ca"`
	FrontProxyCA   encodedPair `json:"front_proxy_ca"`
	ServiceAccount encodedPair `json:"service_account"`
}

// encodedPair is a KeyPair without the methods that hide its key.
type encodedPair struct {
	Certificate string `json:"certificate,omitempty"`
	PublicKey   string `json:"public_key,omitempty"`
	PrivateKey  string `json:"private_key"`
}

// Encode writes the bundle as JSON with PEM inside. It holds private keys.
func (b *Bundle) Encode() string {
	text, err := json.Marshal(encoded{
		Format:         format,
		ClusterID:      b.ClusterID,
		ClusterName:    b.ClusterName,
		Algorithm:      b.Algorithm,
		CA:             encodedPair(b.CA),
		EtcdCA:         encodedPair(b.EtcdCA),
		FrontProxyCA:   encodedPair(b.FrontProxyCA),
		ServiceAccount: encodedPair(b.ServiceAccount),
	})
	if err != nil {
		panic("pki: encode bundle: " + err.Error()) // strings and a number always encode
	}
	return string(text)
}

// Parse reads what Encode wrote, and checks that every key matches its certificate.
func Parse(text string) (*Bundle, error) {
	e, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read pki bundle: %w", err)
	}
	b := &Bundle{
		ClusterID:      e.ClusterID,
		ClusterName:    e.ClusterName,
		Algorithm:      e.Algorithm,
		CA:             KeyPair(e.CA),
		EtcdCA:         KeyPair(e.EtcdCA),
		FrontProxyCA:   KeyPair(e.FrontProxyCA),
		ServiceAccount: KeyPair(e.ServiceAccount),
	}
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("read pki bundle: %w", err)
	}
	return b, nil
}

// decode reads the version before the rest, whose fields depend on it. The
// JSON decoder's errors are not passed on, because they quote the text.
func decode(text string) (encoded, error) {
	if strings.TrimSpace(text) == "" {
		return encoded{}, errors.New("it is empty")
	}
	var version struct{ Format *int }
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return encoded{}, errors.New("it is not the JSON of a bundle")
	}
	if version.Format == nil {
		return encoded{}, errors.New("it has no format version")
	}
	if *version.Format != format {
		return encoded{}, fmt.Errorf("it has format version %d, but this provider reads only version %d: use the provider version that wrote it, or a newer one",
			*version.Format, format)
	}
	var e encoded
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return encoded{}, fmt.Errorf("it has a field that format version %d does not have, or one of the wrong type", format)
	}
	return e, nil
}

// Validate checks that the parts of a bundle belong together: Parse does it by
// itself, a bundle put together from existing files needs it. It knows no
// time: an expired authority is valid here and refused by Issue.
func (b *Bundle) Validate() error {
	if id, err := hex.DecodeString(b.ClusterID); err != nil || len(id) != clusterIDBytes || hex.EncodeToString(id) != b.ClusterID {
		return fmt.Errorf("cluster id must be %d lower-case hex digits", 2*clusterIDBytes)
	}
	if err := ValidateClusterName(b.ClusterName); err != nil {
		return err
	}
	if _, err := b.Algorithm.keyRequest(); err != nil {
		return err
	}
	return b.validateKeys()
}

func (b *Bundle) validateKeys() error {
	type purpose struct {
		name string
		key  crypto.PublicKey
	}
	var purposes []purpose
	for _, a := range []Authority{Kubernetes, Etcd, FrontProxy} {
		certificate, _, err := b.signer(a)
		if err != nil {
			return err
		}
		purposes = append(purposes, purpose{"authority " + string(a), certificate.PublicKey})
	}
	public, err := b.ServiceAccount.serviceAccount()
	if err != nil {
		return fmt.Errorf("service account: %w", err)
	}
	purposes = append(purposes, purpose{"service account", public})
	for i, p := range purposes {
		for _, q := range purposes[:i] {
			if samePublicKey(p.key, q.key) {
				return fmt.Errorf("%s and %s have the same key: one key must never serve two purposes", q.name, p.name)
			}
		}
	}
	return nil
}
