package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Seal encrypts private keys with age (age-encryption.org/v1) for storage, and decrypts them. A
// nil Seal stores them in plain text.
type Seal struct {
	identities []age.Identity
	recipients []age.Recipient
	names      []string // of the recipients, sorted
}

// ErrSealed means that a private key cannot be decrypted with the available identities.
var ErrSealed = errors.New("the private keys are sealed")

// NewSeal parses identities. Each is an age identity (AGE-SECRET-KEY-1…), the text of an
// identity file, or an identity file that age has encrypted with a passphrase. recipients
// (age1…) can decrypt what is sealed from now on; if there are none, the recipients of the
// identities are used. Sealed keys must stay readable here, so one of the identities must be
// among the recipients. Errors quote no secret.
func NewSeal(identities []string, passphrase string, recipients []string) (*Seal, error) {
	s := &Seal{}
	own := map[string]age.Recipient{}
	for i, text := range identities {
		read, err := readIdentities(text, passphrase)
		if err != nil {
			return nil, fmt.Errorf("identity %d: %w", i+1, err)
		}
		for _, identity := range read {
			s.identities = append(s.identities, identity)
			own[identity.Recipient().String()] = identity.Recipient()
		}
	}
	if len(s.identities) == 0 {
		return nil, errors.New("there is no identity: nothing that is sealed could be opened again")
	}
	if err := s.address(recipients, own); err != nil {
		return nil, err
	}
	return s, nil
}

// address sets the recipients.
func (s *Seal) address(recipients []string, own map[string]age.Recipient) error {
	to := map[string]age.Recipient{}
	readable := len(recipients) == 0
	if readable {
		to = own
	}
	for i, text := range recipients {
		recipient, err := age.ParseX25519Recipient(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("recipient %d is not an age X25519 recipient (age1…)", i+1) // it may be an identity
		}
		to[recipient.String()] = recipient
		_, isOwn := own[recipient.String()]
		readable = readable || isOwn
	}
	if !readable {
		return errors.New("none of the identities belongs to one of the recipients: what is sealed could not be opened again")
	}
	for name, recipient := range to {
		s.names = append(s.names, name)
		s.recipients = append(s.recipients, recipient)
	}
	slices.Sort(s.names)
	return nil
}

// readIdentities does not quote age's errors: they may contain a part of the text.
func readIdentities(text, passphrase string) ([]*age.X25519Identity, error) {
	if Sealed(text) {
		plain, err := unlock(text, passphrase)
		if err != nil {
			return nil, err
		}
		text = plain
	}
	parsed, err := age.ParseIdentities(strings.NewReader(text))
	if err != nil {
		return nil, errors.New("it is neither an age identity (AGE-SECRET-KEY-1…) nor a file of them")
	}
	var identities []*age.X25519Identity
	for _, identity := range parsed {
		x25519, ok := identity.(*age.X25519Identity)
		if !ok {
			return nil, errors.New("it is of another kind than X25519")
		}
		identities = append(identities, x25519)
	}
	return identities, nil
}

// unlock decrypts an identity file that age has encrypted with a passphrase.
func unlock(text, passphrase string) (string, error) {
	if passphrase == "" {
		return "", errors.New("it is encrypted with a passphrase, which is not given")
	}
	identity, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return "", errors.New("the passphrase cannot be used")
	}
	plain, err := decrypt(text, identity)
	if err != nil {
		return "", errors.New("the passphrase does not open it")
	}
	return plain, nil
}

const binaryHeader = "age-encryption.org/v1"

// Sealed reports whether a text is the output of Close, or another age file.
func Sealed(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, armor.Header) || strings.HasPrefix(text, binaryHeader)
}

// Recipients returns the public keys that can decrypt what is sealed, sorted. A nil Seal has
// none.
func (s *Seal) Recipients() []string {
	if s == nil {
		return nil
	}
	return slices.Clone(s.names)
}

// Close encrypts a text to the recipients, as an armored age file.
func (s *Seal) Close(text string) (string, error) {
	if s == nil || text == "" {
		return text, nil
	}
	var sealed bytes.Buffer
	armored := armor.NewWriter(&sealed)
	writer, err := age.Encrypt(armored, s.recipients...)
	if err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	_, err = io.WriteString(writer, text)
	if err := errors.Join(err, writer.Close(), armored.Close()); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	return sealed.String(), nil
}

// Open reverses Close. Plain text is returned unchanged.
func (s *Seal) Open(text string) (string, error) {
	switch {
	case !Sealed(text):
		return text, nil
	case s == nil:
		return "", fmt.Errorf("%w, and no identity is given to open them", ErrSealed)
	}
	plain, err := decrypt(text, s.identities...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return "", fmt.Errorf("%w for others: none of the identities at hand opens them", ErrSealed)
	case err != nil:
		return "", fmt.Errorf("%w, and the sealed text is damaged", ErrSealed)
	}
	return plain, nil
}

func decrypt(text string, identities ...age.Identity) (string, error) {
	var source io.Reader = strings.NewReader(text)
	if strings.HasPrefix(strings.TrimSpace(text), armor.Header) {
		source = armor.NewReader(source)
	}
	reader, err := age.Decrypt(source, identities...)
	if err != nil {
		return "", err
	}
	plain, err := io.ReadAll(reader)
	return string(plain), err
}

// maxPath is longer than any path that Linux opens.
const maxPath = 4096

// ValidateSecretFile accepts what can be the path of a file with secrets, and refuses the content of one. Its error
// quotes nothing.
func ValidateSecretFile(file string) error {
	if strings.ContainsAny(file, "\r\n") || len(file) > maxPath || Sealed(file) ||
		strings.HasPrefix(strings.TrimSpace(file), "{") || strings.Contains(file, "AGE-SECRET-KEY-") {
		return errors.New("this is no path of a file: give the path, not the content")
	}
	return nil
}
