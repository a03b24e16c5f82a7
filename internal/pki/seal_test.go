package pki

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
)

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func seal(t testing.TB, identities []string, recipients ...string) *Seal {
	t.Helper()
	s, err := NewSeal(identities, "", recipients)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closed(t testing.TB, s *Seal, text string) string {
	t.Helper()
	sealed, err := s.Close(text)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// withPassphrase returns a text encrypted by age with a passphrase. The work factor is low, for
// tests; age's default takes a second.
func withPassphrase(t testing.TB, text, passphrase string, armored bool) string {
	t.Helper()
	recipient, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(4)
	return ageFile(t, text, recipient, armored)
}

func ageFile(t testing.TB, text string, recipient age.Recipient, armored bool) string {
	t.Helper()
	var out bytes.Buffer
	var to io.WriteCloser = nothingToClose{&out}
	if armored {
		to = armor.NewWriter(&out)
	}
	writer, err := age.Encrypt(to, recipient)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(writer, text)
	if err := errors.Join(err, writer.Close(), to.Close()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type nothingToClose struct{ io.Writer }

func (nothingToClose) Close() error { return nil }

const secretText = "-----BEGIN EC PRIVATE KEY-----\nnot a key, but as secret as one\n-----END EC PRIVATE KEY-----\n"

func TestSealOpensWhatItCloses(t *testing.T) {
	mine, yours := identity(t), identity(t)
	file := "# created: today\n# public key: " + mine.Recipient().String() + "\n" + mine.String() + "\n\n" +
		yours.String() + "\n"
	const passphrase = "correct horse"
	for name, test := range map[string]struct {
		identities []string
		passphrase string
		recipients []string
		want       []*age.X25519Identity // identities that can decrypt what is sealed
	}{
		"one identity": {identities: []string{mine.String()}, want: []*age.X25519Identity{mine}},
		"two identities": {
			identities: []string{mine.String(), yours.String()},
			want:       []*age.X25519Identity{mine, yours},
		},
		"a file of two": {identities: []string{file}, want: []*age.X25519Identity{mine, yours}},
		"the same twice": {
			identities: []string{mine.String(), mine.String()},
			want:       []*age.X25519Identity{mine},
		},
		"an armored file with passphrase": {
			[]string{withPassphrase(t, file, passphrase, true)},
			passphrase, nil,
			[]*age.X25519Identity{mine, yours},
		},
		"a binary file with passphrase": {
			[]string{withPassphrase(t, file, passphrase, false)},
			passphrase, nil,
			[]*age.X25519Identity{mine, yours},
		},
		"with and without passphrase": {
			[]string{withPassphrase(t, mine.String(), passphrase, true), yours.String()},
			passphrase, nil,
			[]*age.X25519Identity{mine, yours},
		},
		"lines around": {
			identities: []string{"\n" + mine.String() + "\n\n"},
			want:       []*age.X25519Identity{mine},
		},
		"a passphrase that is not needed": {[]string{mine.String()}, passphrase, nil, []*age.X25519Identity{mine}},
		"recipients, one of them with own": {[]string{mine.String()}, "", []string{
			" " + yours.Recipient().String() + "\n",
			mine.Recipient().String(),
		}, []*age.X25519Identity{mine, yours}},
		"fewer recipients than identities": {
			[]string{mine.String(), yours.String()},
			"",
			[]string{mine.Recipient().String()},
			[]*age.X25519Identity{mine},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSeal(test.identities, test.passphrase, test.recipients)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, id := range test.want {
				names = append(names, id.Recipient().String())
			}
			if slices.Sort(names); !slices.Equal(s.Recipients(), names) {
				t.Errorf("recipients are %q, want %q", s.Recipients(), names)
			}
			sealed := closed(t, s, secretText)
			wantNoSecret(t, sealed, secretText)
			if !strings.HasPrefix(sealed, armor.Header) || closed(t, s, secretText) == sealed {
				t.Error("it is not armored, or twice the same")
			}
			if opened, err := s.Open(sealed); err != nil || opened != secretText {
				t.Errorf("it does not open what it closed: %v", err)
			}
			for _, id := range test.want {
				if opened, err := seal(t, []string{id.String()}).Open(sealed); err != nil || opened != secretText {
					t.Errorf("one of its recipients cannot open it: %v", err)
				}
			}
			_, err = seal(t, []string{identity(t).String()}).Open(sealed)
			wantError(t, err, "sealed for others: none of the identities at hand opens them", secretText)
			if !errors.Is(err, ErrSealed) {
				t.Error("it is not ErrSealed")
			}
		})
	}
}

func TestNewSealRefuses(t *testing.T) {
	mine, yours := identity(t), identity(t)
	locked := withPassphrase(t, mine.String(), "correct horse", true)
	damaged := strings.Replace(mine.String(), "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1Q", 1)
	for name, test := range map[string]struct {
		identities []string
		passphrase string
		recipients []string
		wantErr    string
	}{
		"none":             {wantErr: "there is no identity: nothing that is sealed could be opened again"},
		"recipients alone": {recipients: []string{mine.Recipient().String()}, wantErr: "there is no identity"},
		"an empty one":     {identities: []string{""}, wantErr: "identity 1: it is neither"},
		"garbage": {
			identities: []string{mine.String(), "hello"},
			wantErr:    "identity 2: it is neither an age identity",
		},
		"a damaged one":            {identities: []string{damaged}, wantErr: "identity 1: it is neither"},
		"a recipient in its place": {identities: []string{mine.Recipient().String()}, wantErr: "identity 1: it is neither"},
		"an SSH key":               {identities: []string{bundle(t).CA.PrivateKey}, wantErr: "identity 1: it is neither"},
		"no passphrase": {
			identities: []string{locked},
			wantErr:    "identity 1: it is encrypted with a passphrase, which is not given",
		},
		"a wrong passphrase": {
			identities: []string{locked}, passphrase: "wrong horse",
			wantErr: "the passphrase does not open it",
		},
		"sealed to a key": {
			identities: []string{ageFile(t, mine.String(), yours.Recipient(), true)},
			passphrase: "correct horse", wantErr: "the passphrase does not open it",
		},
		"garbage in a locked file": {
			identities: []string{withPassphrase(t, "hello "+mine.String(), "correct horse", true)},
			passphrase: "correct horse", wantErr: "it is neither",
		},
		"half of a locked file": {
			identities: []string{locked[:len(locked)/2]}, passphrase: "correct horse",
			wantErr: "the passphrase does not open it",
		},
		"garbage as recipient": {
			identities: []string{mine.String()}, recipients: []string{"age1x"},
			wantErr: "recipient 1 is not an age X25519 recipient",
		},
		"none of its recipients": {
			identities: []string{mine.String()}, recipients: []string{yours.Recipient().String()},
			wantErr: "what is sealed could not be opened again",
		},
		"an identity as a recipient": {
			identities: []string{mine.String()}, recipients: []string{mine.String()},
			wantErr: "is not an age X25519 recipient",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSeal(test.identities, test.passphrase, test.recipients)
			wantError(t, err, test.wantErr, mine.String(), yours.String(), test.passphrase)
			if s != nil {
				t.Error("a refused seal")
			}
		})
	}
}

// TestSealForNewRecipients: with other recipients the same keys are encrypted again, and removed
// recipients cannot decrypt what is written from then on.
func TestSealForNewRecipients(t *testing.T) {
	leaving, staying := identity(t), identity(t)
	b := stagesOf(t, encrypting(t), KubernetesPart, 1)[1]
	both := seal(t, []string{leaving.String(), staying.String()})
	before := sealed(t, b, both)
	after := sealed(t, b, seal(t, []string{leaving.String(), staying.String()}, staying.Recipient().String()))
	for name, test := range map[string]struct {
		text    string
		seal    *Seal
		wantErr string
	}{
		"before, who leaves": {before, seal(t, []string{leaving.String()}), ""},
		"before, who stays":  {before, seal(t, []string{staying.String()}), ""},
		"after, who leaves":  {after, seal(t, []string{leaving.String()}), "sealed for others"},
		"after, who stays":   {after, seal(t, []string{staying.String()}), ""},
		"after, both":        {after, both, ""},
		"after, nobody":      {after, nil, "sealed, and no identity is given to open them"},
	} {
		t.Run(name, func(t *testing.T) {
			read, err := Parse(test.text, test.seal)
			if test.wantErr != "" {
				wantError(t, err, test.wantErr, secretsOf(b)...)
				if !errors.Is(err, ErrSealed) {
					t.Error("it is not ErrSealed")
				}
				return
			}
			if err != nil || !reflect.DeepEqual(read, b) {
				t.Errorf("another bundle, or none: %v", err)
			}
		})
	}
}

func sealed(t testing.TB, b *Bundle, s *Seal) string {
	t.Helper()
	text, err := b.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// secretsOf returns everything in a bundle that must not be disclosed.
func secretsOf(b *Bundle) []string {
	var secrets []string
	e := b.encoded()
	for _, place := range e.secrets() {
		secrets = append(secrets, *place)
	}
	return secrets
}

// secretLine returns the line of a PEM key with the secret number; the others contain the
// public key, which is in the certificate too.
func secretLine(secret string) string {
	if lines := strings.Split(secret, "\n"); len(lines) > 1 {
		return lines[1]
	}
	return secret
}

// TestEncodeSealed: certificates, names and numbers stay readable; keys do not, at any stage of
// any part.
func TestEncodeSealed(t *testing.T) {
	s := seal(t, []string{identity(t).String()})
	for _, p := range Parts() {
		for generation, b := range stagesOf(t, encrypting(t), p, 4) {
			text := sealed(t, b, s)
			for _, secret := range secretsOf(b) {
				wantNoSecret(t, text, secretLine(secret))
			}
			var open map[string]any
			if err := json.Unmarshal([]byte(text), &open); err != nil {
				t.Fatal(err)
			}
			if ca := open["ca"].(map[string]any); ca["certificate"] != b.CA.Certificate || open["cluster_name"] != "prod" {
				t.Errorf("%s at %d: what is no secret is not readable", p, generation)
			}
			if read, err := Parse(text, s); err != nil || !reflect.DeepEqual(read, b) {
				t.Errorf("%s at %d: another bundle, or none: %v", p, generation, err)
			}
		}
	}
}

// TestNoSeal: without a seal, keys are in plain text. With a seal, plain text can be parsed
// too, so that sealing can be introduced in an existing cluster.
func TestNoSeal(t *testing.T) {
	var none *Seal
	if got := closed(t, none, secretText); got != secretText {
		t.Error("no seal changes a text")
	}
	if got, err := none.Open(secretText); err != nil || got != secretText {
		t.Errorf("no seal does not open a text in the clear: %v", err)
	}
	if none.Recipients() != nil || none.String() != "Seal([])" {
		t.Errorf("no seal is %s with %v", none, none.Recipients())
	}
	s := seal(t, []string{identity(t).String()})
	if got := closed(t, s, ""); got != "" {
		t.Error("a key that is not there is sealed")
	}
	b := encrypting(t)
	if read, err := Parse(encode(t, b), s); err != nil || !reflect.DeepEqual(read, b) {
		t.Errorf("a bundle in the clear: %v", err)
	}
}

func TestOpenDamaged(t *testing.T) {
	s := seal(t, []string{identity(t).String()})
	whole := closed(t, s, secretText)
	body := strings.Index(whole, "\n") + 200 // after the part that names the recipient
	flipped := map[byte]string{'A': "B"}[whole[body]]
	if flipped == "" {
		flipped = "A"
	}
	for name, text := range map[string]string{
		"cut in the middle":  whole[:len(whole)/2],
		"the header alone":   armor.Header,
		"another letter":     whole[:body] + flipped + whole[body+1:],
		"no end":             strings.TrimSuffix(strings.TrimSpace(whole), armor.Footer),
		"something after it": whole + "more",
		"binary, no body":    binaryHeader + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			opened, err := s.Open(text)
			if opened != "" {
				t.Error("a part of it is given")
			}
			wantError(t, err, "the private keys are sealed", secretText)
			if !errors.Is(err, ErrSealed) {
				t.Error("it is not ErrSealed")
			}
		})
	}
	binary := ageFile(t, secretText, s.recipients[0], false)
	if opened, err := s.Open(binary); err != nil || opened != secretText {
		t.Errorf("a binary age file: %v", err)
	}
}

func TestPrintingHidesTheSeal(t *testing.T) {
	id := identity(t)
	s := seal(t, []string{id.String()})
	e := encrypting(t).Encryption
	secrets := []string{id.String(), e.Key}
	for _, value := range []any{
		s, *s,
		[]*Seal{s},
		struct{ S *Seal }{s},
		e, &e,
		[]Encryption{e},
		struct{ E Encryption }{e},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			printsNone(t, fmt.Sprintf(verb, value), secrets)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		printsNone(t, string(text), secrets)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		printsNone(t, log.String(), secrets)
	}
	if got, want := s.GoString(), "Seal(["+id.Recipient().String()+"])"; got != want {
		t.Errorf("it prints as %s, want %s", got, want)
	}
	if got := e.GoString(); got != "Encryption(secretbox key1)" {
		t.Errorf("it prints as %s", got)
	}
}

// printsNone searches for secrets as text and in hex.
func printsNone(t *testing.T, text string, secrets []string) {
	t.Helper()
	for _, secret := range secrets {
		if strings.Contains(text, secret[:24]) || strings.Contains(strings.ToLower(text), fmt.Sprintf("%x", secret[:24])) {
			t.Error("a secret is printed")
		}
	}
}

// fuzzIdentity is constant, so that fuzzing results can be kept. It protects nothing.
const fuzzIdentity = "AGE-SECRET-KEY-1MDQ2ACFPRJ9YJYS0NG23HER7UZ9Y8RR33ATT6R2JXNTYZ8AKEMMQWKWUKF"

// FuzzSeal searches for a panic, and for a secret in an error.
func FuzzSeal(f *testing.F) {
	id, err := age.ParseX25519Identity(fuzzIdentity)
	if err != nil {
		f.Fatal(err)
	}
	own := seal(f, []string{fuzzIdentity})
	f.Add(id.String(), "", closed(f, own, secretText))
	f.Add(withPassphrase(f, id.String(), "p", true), "p", withPassphrase(f, secretText, "p", false))
	f.Add("# a comment\n"+id.String(), "p", armor.Header+"\n")
	f.Fuzz(func(t *testing.T, identities, passphrase, text string) {
		if s, err := NewSeal([]string{identities}, passphrase, nil); err != nil {
			quotesNot(t, err, identities, passphrase)
		} else if opened, err := s.Open(closed(t, s, text)); err != nil || opened != text {
			t.Errorf("it does not open what it closed: %v", err)
		}
		if _, err := own.Open(text); err != nil {
			quotesNot(t, err, text)
		}
	})
}

// quotesNot checks that an error does not contain its input, which may be secret.
func quotesNot(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) > 20 && strings.Contains(err.Error(), line[:20]) {
				t.Errorf("the error quotes what it was given")
			}
		}
	}
}

// TestValidateSecretFile: the content of a file with a secret is no path, and the error does not quote it.
func TestValidateSecretFile(t *testing.T) {
	key := identity(t).String()
	for file, valid := range map[string]bool{
		"key.txt": true, "/home/ops/age-secret-key-1.txt": true, strings.Repeat("p", 4096): true,
		key: false, "# public key: age1x\n" + key + "\n": false, "SECRET\rLINE": false,
		strings.ReplaceAll(closed(t, seal(t, []string{key}), "SECRET"), "\n", " "): false,
		" age-encryption.org/v1 -> X25519 SECRET":                                  false,
		`{"key":"SECRET"}`:        false,
		strings.Repeat("p", 4097): false,
	} {
		err := ValidateSecretFile(file)
		if (err == nil) != valid || err != nil && err.Error() != "this is no path of a file: give the path, not the content" {
			t.Errorf("a text of %d characters, valid %t: %v", len(file), valid, err)
		}
	}
}
