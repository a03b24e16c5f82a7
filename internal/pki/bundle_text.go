package pki

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// format is the version of the text that Encode writes. A change that an older Parse would
// misinterpret needs a new number.
const format = 1

// encoded is a bundle as text. The order of its fields is the order in the text, so that equal
// bundles have equal texts. A bundle that was never rotated only has the first eight.
type encoded struct {
	Format         int                `json:"format"`
	ClusterID      string             `json:"cluster_id"`
	ClusterName    string             `json:"cluster_name"`
	Algorithm      Algorithm          `json:"algorithm"`
	CA             encodedPair        `json:"ca"`
	EtcdCA         encodedPair        `json:"etcd_ca"`
	FrontProxyCA   encodedPair        `json:"front_proxy_ca"`
	ServiceAccount encodedPair        `json:"service_account"`
	Encryption     *encodedEncryption `json:"encryption,omitempty"`
	// Protection is omitted while it is on, which is the default.
	Protection *bool `json:"deletion_protection,omitempty"`

	CARotation             *encodedRotation[encodedPair]       `json:"ca_rotation,omitempty"`
	EtcdCARotation         *encodedRotation[encodedPair]       `json:"etcd_ca_rotation,omitempty"`
	FrontProxyCARotation   *encodedRotation[encodedPair]       `json:"front_proxy_ca_rotation,omitempty"`
	ServiceAccountRotation *encodedRotation[encodedPair]       `json:"service_account_rotation,omitempty"`
	EncryptionRotation     *encodedRotation[encodedEncryption] `json:"encryption_rotation,omitempty"`
	WithdrawnKeys          []encodedEncryption                 `json:"withdrawn_encryption_keys,omitempty"`
}

// encodedPair is a KeyPair without the methods that hide its key.
type encodedPair struct {
	Certificate string `json:"certificate,omitempty"`
	PublicKey   string `json:"public_key,omitempty"`
	PrivateKey  string `json:"private_key,omitempty"`
}

// encodedEncryption is an Encryption without the methods that hide its key.
type encodedEncryption struct {
	Kind      EncryptionKind `json:"provider,omitempty"`
	Resources []string       `json:"resources,omitempty"`
	Name      string         `json:"name,omitempty"`
	Key       string         `json:"key,omitempty"`
	Endpoint  string         `json:"endpoint,omitempty"`
	Timeout   string         `json:"timeout,omitempty"`
}

type encodedRotation[T any] struct {
	Generation int    `json:"generation"`
	Other      *T     `json:"other,omitempty"`
	Cross      string `json:"cross,omitempty"`
	Retired    bool   `json:"retired,omitempty"`
	Withdrawn  string `json:"withdrawn,omitempty"`
	Former     *T     `json:"former,omitempty"`
}

// secrets returns pointers to everything in e that must be sealed.
func (e *encoded) secrets() []*string {
	places := []*string{&e.CA.PrivateKey, &e.EtcdCA.PrivateKey, &e.FrontProxyCA.PrivateKey, &e.ServiceAccount.PrivateKey}
	for _, r := range []*encodedRotation[encodedPair]{
		e.CARotation, e.EtcdCARotation, e.FrontProxyCARotation,
		e.ServiceAccountRotation,
	} {
		if r != nil && r.Other != nil {
			places = append(places, &r.Other.PrivateKey)
		}
	}
	if e.Encryption != nil {
		places = append(places, &e.Encryption.Key)
	}
	if r := e.EncryptionRotation; r != nil {
		for _, encryption := range []*encodedEncryption{r.Other, r.Former} {
			if encryption != nil {
				places = append(places, &encryption.Key)
			}
		}
	}
	for i := range e.WithdrawnKeys {
		places = append(places, &e.WithdrawnKeys[i].Key)
	}
	return places
}

// Encode returns the bundle as JSON with PEM inside. Private keys are sealed; with a nil seal
// they are in plain text.
func (b *Bundle) Encode(seal *Seal) (string, error) {
	e := b.encoded()
	for _, secret := range e.secrets() {
		sealed, err := seal.Close(*secret)
		if err != nil {
			return "", fmt.Errorf("write pki bundle: %w", err)
		}
		*secret = sealed
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic("pki: encode bundle: " + err.Error()) // strings and numbers can always be encoded
	}
	return string(text), nil
}

func (b *Bundle) encoded() encoded {
	e := encoded{
		Format:         format,
		ClusterID:      b.ClusterID,
		ClusterName:    b.ClusterName,
		Algorithm:      b.Algorithm,
		CA:             encodedPair(b.CA),
		EtcdCA:         encodedPair(b.EtcdCA),
		FrontProxyCA:   encodedPair(b.FrontProxyCA),
		ServiceAccount: encodedPair(b.ServiceAccount),

		CARotation:             encodeRotation(b.CARotation, pairAsText),
		EtcdCARotation:         encodeRotation(b.EtcdCARotation, pairAsText),
		FrontProxyCARotation:   encodeRotation(b.FrontProxyCARotation, pairAsText),
		ServiceAccountRotation: encodeRotation(b.ServiceAccountRotation, pairAsText),
		EncryptionRotation:     encodeRotation(b.EncryptionRotation, encryptionAsText),
	}
	if b.Deletable {
		off := false
		e.Protection = &off
	}
	if b.Encryption.Kind != Plain {
		text := encryptionAsText(b.Encryption)
		e.Encryption = &text
	}
	for _, withdrawn := range b.WithdrawnKeys {
		e.WithdrawnKeys = append(e.WithdrawnKeys, encryptionAsText(withdrawn))
	}
	return e
}

func pairAsText(k KeyPair) encodedPair { return encodedPair(k) }

func encryptionAsText(e Encryption) encodedEncryption { return encodedEncryption(e) }

func pairFromText(e encodedPair) KeyPair { return KeyPair(e) }

func encryptionFromText(e encodedEncryption) Encryption { return Encryption(e) }

func encodeRotation[T, E any](r Rotation[T], as func(T) E) *encodedRotation[E] {
	if r.Generation == 0 && r.Other == nil && r.Withdrawn == "" {
		return nil
	}
	return &encodedRotation[E]{
		Generation: r.Generation, Other: converted(r.Other, as), Cross: r.Cross, Retired: r.Retired, Withdrawn: r.Withdrawn,
		Former: converted(r.Former, as),
	}
}

func decodeRotation[T, E any](e *encodedRotation[E], from func(E) T) Rotation[T] {
	if e == nil {
		return Rotation[T]{}
	}
	return Rotation[T]{
		Generation: e.Generation, Other: converted(e.Other, from), Cross: e.Cross, Retired: e.Retired, Withdrawn: e.Withdrawn,
		Former: converted(e.Former, from),
	}
}

func converted[A, B any](a *A, as func(A) B) *B {
	if a == nil {
		return nil
	}
	b := as(*a)
	return &b
}

// Parse parses what Encode wrote, and checks that every key matches its certificate. seal opens
// sealed keys; a bundle in plain text needs none.
func Parse(text string, seal *Seal) (*Bundle, error) {
	e, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("read pki bundle: %w", err)
	}
	for _, secret := range e.secrets() {
		if *secret, err = seal.Open(*secret); err != nil {
			return nil, fmt.Errorf("read pki bundle: %w", err)
		}
	}
	b := &Bundle{
		ClusterID:      e.ClusterID,
		ClusterName:    e.ClusterName,
		Algorithm:      e.Algorithm,
		CA:             KeyPair(e.CA),
		EtcdCA:         KeyPair(e.EtcdCA),
		FrontProxyCA:   KeyPair(e.FrontProxyCA),
		ServiceAccount: KeyPair(e.ServiceAccount),

		CARotation:             decodeRotation(e.CARotation, pairFromText),
		EtcdCARotation:         decodeRotation(e.EtcdCARotation, pairFromText),
		FrontProxyCARotation:   decodeRotation(e.FrontProxyCARotation, pairFromText),
		ServiceAccountRotation: decodeRotation(e.ServiceAccountRotation, pairFromText),
		EncryptionRotation:     decodeRotation(e.EncryptionRotation, encryptionFromText),
	}
	if e.Encryption != nil {
		b.Encryption = Encryption(*e.Encryption)
	}
	for _, withdrawn := range e.WithdrawnKeys {
		b.WithdrawnKeys = append(b.WithdrawnKeys, encryptionFromText(withdrawn))
	}
	b.Deletable = e.Protection != nil && !*e.Protection
	if err := b.Validate(); err != nil {
		return nil, fmt.Errorf("read pki bundle: %w", err)
	}
	return b, nil
}

// SetDeletionProtection changes the protection in a bundle's text. Sealed keys stay unchanged,
// so that the result depends on the text alone.
func SetDeletionProtection(text string, protected bool) (string, error) {
	return edited(text, func(e *encoded) {
		if e.Protection = nil; !protected {
			e.Protection = &protected
		}
	})
}

// Rename changes the name of the cluster in a bundle's text. Sealed keys stay unchanged, as
// with SetDeletionProtection.
func Rename(text, name string) (string, error) {
	if err := ValidateClusterName(name); err != nil {
		return "", err
	}
	return edited(text, func(e *encoded) { e.ClusterName = name })
}

func edited(text string, edit func(*encoded)) (string, error) {
	e, err := decode(text)
	if err != nil {
		return "", fmt.Errorf("read pki bundle: %w", err)
	}
	edit(&e)
	changed, err := json.Marshal(e)
	if err != nil {
		panic("pki: encode bundle: " + err.Error()) // strings and numbers can always be encoded
	}
	return string(changed), nil
}

// decode reads the version before the other fields, which depend on it. The JSON decoder's
// errors are not passed on, because they quote the text.
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
		return encoded{}, fmt.Errorf("it has format version %d, but this provider reads only version %d: use the provider "+
			"version that wrote it, or a newer one",
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
