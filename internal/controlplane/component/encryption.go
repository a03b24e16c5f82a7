package component

import (
	"cmp"
	"errors"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// EncryptionConfigPath is the configuration of encryption at rest that the API server
// reads.
const EncryptionConfigPath = KubernetesDir + "/encryption.yaml"

// encryptionConfiguration is the schema of the file (k8s.io/apiserver/pkg/apis/apiserver/v1).
type encryptionConfiguration struct {
	APIVersion string               `json:"apiVersion"`
	Kind       string               `json:"kind"`
	Resources  []encryptedResources `json:"resources"`
}

type encryptedResources struct {
	Resources []string             `json:"resources"`
	Providers []encryptionProvider `json:"providers"` // the first one encrypts writes
}

// encryptionProvider has exactly one of its fields.
type encryptionProvider struct {
	Secretbox *encryptionKeys `json:"secretbox,omitempty"`
	AESCBC    *encryptionKeys `json:"aescbc,omitempty"`
	KMS       *kmsPlugin      `json:"kms,omitempty"`
	Identity  *struct{}       `json:"identity,omitempty"`
}

type encryptionKeys struct {
	Keys []encryptionKey `json:"keys"`
}

type encryptionKey struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

type kmsPlugin struct {
	APIVersion string `json:"apiVersion"`
	Name       string `json:"name"`
	Endpoint   string `json:"endpoint"`
	Timeout    string `json:"timeout,omitempty"`
}

// encrypts reports whether the API server needs an encryption configuration.
func (s Replica) encrypts() bool { return len(encryptedBy(s.Bundle)) > 0 }

// encryptedBy returns the resources that any encryption of b covers, sorted.
func encryptedBy(b *pki.Bundle) []string {
	var resources []string
	for _, e := range b.Encryptions() {
		if e.Kind != pki.Plain {
			resources = append(resources, e.Resources...)
		}
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}

// EncryptionDigest returns the SHA-256, in hex, of the file that the API server of a bundle reads; "" if it reads none.
// Replicas are compared by it, so the form of the file must stay as it is.
func EncryptionDigest(b *pki.Bundle) string {
	if len(encryptedBy(b)) == 0 {
		return ""
	}
	return ContentDigest(encryptionText(b))
}

// encryptionText returns the file's content for b. It contains keys.
func encryptionText(b *pki.Bundle) string {
	config := encryptionConfiguration{APIVersion: "apiserver.config.k8s.io/v1", Kind: "EncryptionConfiguration"}
	for _, resource := range encryptedBy(b) {
		var providers []encryptionProvider
		for _, e := range b.Encryptions() {
			providers = append(providers, providerOf(e, resource))
		}
		same := slices.IndexFunc(config.Resources,
			func(r encryptedResources) bool { return reflect.DeepEqual(r.Providers, providers) })
		if same >= 0 {
			config.Resources[same].Resources = append(config.Resources[same].Resources, resource)
			continue
		}
		config.Resources = append(config.Resources, encryptedResources{Resources: []string{resource}, Providers: providers})
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		panic("controlplane: encode encryption configuration: " + err.Error()) // strings can always be encoded
	}
	return string(text)
}

// providerOf returns the provider of e for one resource. A resource that e does not cover is
// stored unencrypted.
func providerOf(e pki.Encryption, resource string) encryptionProvider {
	if !e.Covers(resource) {
		return encryptionProvider{Identity: &struct{}{}}
	}
	keys := &encryptionKeys{Keys: []encryptionKey{{Name: e.Name, Secret: e.Key}}}
	switch e.Kind {
	case pki.KMS:
		return encryptionProvider{KMS: &kmsPlugin{APIVersion: "v2", Name: e.Name, Endpoint: e.Endpoint, Timeout: e.Timeout}}
	case pki.AESCBC:
		return encryptionProvider{AESCBC: keys}
	}
	return encryptionProvider{Secretbox: keys}
}

// EncryptionFrom parses a file that encryptionText wrote for a bundle that is not being
// rotated.
func EncryptionFrom(text string) (pki.Encryption, error) {
	if text == "" {
		return pki.Encryption{}, nil
	}
	var config encryptionConfiguration
	if err := yaml.Unmarshal([]byte(text), &config); err != nil || len(config.Resources) != 1 ||
		len(config.Resources[0].Providers) != 1 {
		return pki.Encryption{}, errors.New("it is not as the provider writes it") // not quoted: it may contain a key
	}
	return config.Resources[0].encryption()
}

// AdoptedEncryption parses a configuration that somebody else has written. plain reports whether the API servers read
// objects in the clear as well. No error quotes the text, which may contain a key.
func AdoptedEncryption(text string) (e pki.Encryption, plain bool, err error) {
	var config encryptionConfiguration
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return pki.Encryption{}, false, errors.New("it is not YAML")
	}
	if len(config.Resources) != 1 || slices.ContainsFunc(config.Resources[0].Resources, isOther) {
		return pki.Encryption{}, false, errors.New("it has not one list of resources, of secrets and configmaps only")
	}
	providers := config.Resources[0].Providers
	switch {
	case len(providers) == 2 && providers[1].Identity != nil:
		plain = true
	case len(providers) != 1:
		return pki.Encryption{}, false, errors.New("it has not one provider, or one and then identity: rewrite all objects " +
			"with the first provider, and remove the others")
	}
	if providers[0].KMS != nil && providers[0].KMS.APIVersion != "v2" {
		return pki.Encryption{}, false, errors.New("its plugin is not of version v2")
	}
	e, err = config.Resources[0].encryption()
	return e, plain, err
}

// SameEncryption reports whether a configuration that somebody else has written says what the provider writes for b.
func SameEncryption(text string, b *pki.Bundle) bool {
	have, readsPlain, err := AdoptedEncryption(text)
	if err != nil {
		return false
	}
	want, plain, err := AdoptedEncryption(encryptionText(b))
	return err == nil && readsPlain == plain && reflect.DeepEqual(have, want)
}

// isOther reports whether the provider does not encrypt a resource.
func isOther(resource string) bool { return resource != "secrets" && resource != "configmaps" }

// encryption returns what the first provider does, which has one key, or a plugin.
func (r encryptedResources) encryption() (pki.Encryption, error) {
	p, resources := r.Providers[0], slices.Sorted(slices.Values(r.Resources))
	kind, keys := pki.Secretbox, p.Secretbox
	switch {
	case p.KMS != nil:
		return pki.Encryption{
			Kind: pki.KMS, Resources: resources, Name: p.KMS.Name, Endpoint: p.KMS.Endpoint,
			Timeout: cmp.Or(p.KMS.Timeout, "3s"), // the API server's own
		}, nil
	case p.AESCBC != nil:
		kind, keys = pki.AESCBC, p.AESCBC
	}
	if keys == nil || len(keys.Keys) != 1 {
		return pki.Encryption{}, errors.New("its first provider is not secretbox or aescbc with one key, or kms")
	}
	return pki.Encryption{Kind: kind, Resources: resources, Name: keys.Keys[0].Name, Key: keys.Keys[0].Secret}, nil
}
