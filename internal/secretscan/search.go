// Package secretscan finds private keys where they may not be: in any form that a program may write,
// in the files of a directory and on lab machines. Tests use it.
package secretscan

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
)

// needle is one form of a secret, as a file could contain it.
type needle struct {
	of   string // name of the secret
	form string
	text []byte
}

// Search finds secrets in any form that a program may write: PEM, DER, the bare numbers of a
// key, and any of these in hexadecimal or in base64 at any offset in the encoded text.
type Search struct {
	starts [1 << 16][]needle // by their first two bytes
	known  map[string]bool
}

// minNeedle is the minimum length of a needle, so that it does not occur by chance.
const minNeedle = 16

// New returns a search without secrets.
func New() *Search { return &Search{known: map[string]bool{}} }

// Len returns the number of forms that are searched for.
func (s *Search) Len() int { return len(s.known) }

func (s *Search) add(of, form string, text []byte) {
	if len(text) < minNeedle || s.known[string(text)] {
		return
	}
	s.known[string(text)] = true
	start := &s.starts[binary.BigEndian.Uint16(text)]
	*start = append(*start, needle{of, form, bytes.Clone(text)})
}

// AddText adds a text, and its base64 form.
func (s *Search) AddText(of, form, text string) {
	if len(text) < minNeedle {
		return
	}
	s.add(of, form, []byte(text))
	for _, aligned := range aligned([]byte(text), base64.StdEncoding) {
		s.add(of, form+" in base64", aligned)
	}
}

// AddBytes adds bytes, and their hexadecimal and base64 forms.
func (s *Search) AddBytes(of, form string, data []byte) {
	if len(data) < minNeedle {
		return
	}
	s.add(of, form, data)
	s.add(of, form+" in hexadecimal", []byte(hex.EncodeToString(data)))
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for _, aligned := range aligned(data, encoding) {
			s.add(of, form+" in base64", aligned)
		}
	}
}

// aligned returns the part of the base64 of a text with data in it that depends on data alone,
// for each of the three offsets at which data may begin.
func aligned(data []byte, encoding *base64.Encoding) [3][]byte {
	var all [3][]byte
	for shift := range all {
		padded := append(make([]byte, shift), data...)
		text := encoding.EncodeToString(padded)
		from, to := (shift*8+5)/6, len(padded)/3*4
		all[shift] = []byte(text[from:max(from, to)])
	}
	return all
}

// AddPEM adds all private keys of a PEM text and returns their number.
func (s *Search) AddPEM(of, text string) int {
	for line := range strings.Lines(text) { // as they are wrapped there
		s.addLine(of, strings.TrimSpace(line), publicParts(text))
	}
	n := 0
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return n
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		n++
		s.AddBytes(of, "DER", block.Bytes)
		for _, number := range numbers(block.Bytes) {
			s.AddBytes(of, "the secret number", number)
		}
	}
}

// addLine adds a line of a PEM body. The public part of a key is in its certificate too, and is
// no secret.
func (s *Search) addLine(of, line string, public []byte) {
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(line, "="))
	if err != nil || len(data) < minNeedle || bytes.Contains(public, data) {
		return
	}
	s.AddText(of, "a line of PEM", line)
}

// publicParts returns everything in a PEM text that is public.
func publicParts(text string) []byte {
	var public []byte
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return public
		}
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			public = append(public, block.Bytes...)
		} else if key, ok := parsed(block.Bytes).(crypto.Signer); ok {
			if der, err := x509.MarshalPKIXPublicKey(key.Public()); err == nil {
				public = append(public, der...)
			}
		}
	}
}

// parsed returns a private key from any of its DER forms, or nil.
func parsed(der []byte) any {
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key
	}
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key
	}
	return nil
}

// numbers returns the secret numbers of a private key, independent of its encoding.
func numbers(der []byte) [][]byte {
	switch key := parsed(der).(type) {
	case *ecdsa.PrivateKey:
		if number, err := key.Bytes(); err == nil {
			return [][]byte{number}
		}
	case *rsa.PrivateKey:
		all := [][]byte{key.D.Bytes()}
		for _, prime := range key.Primes {
			all = append(all, prime.Bytes())
		}
		return all
	case ed25519.PrivateKey:
		return [][]byte{key.Seed()}
	}
	return nil
}

// In lists the secrets that data contains, with or without line breaks between.
func (s *Search) In(data []byte) []string {
	var got []string
	output := map[string]bool{}
	for _, text := range [][]byte{data, squeezed(data)} {
		for i := 0; i+minNeedle <= len(text); i++ {
			for _, n := range s.starts[binary.BigEndian.Uint16(text[i:])] {
				if fragments := fmt.Sprintf("%s of %s", n.form, n.of); bytes.HasPrefix(text[i:], n.text) && !output[fragments] {
					output[fragments] = true
					got = append(got, fragments)
				}
			}
		}
	}
	return got
}

// squeezed returns data without the characters that may break base64 into lines, escaped or
// not.
func squeezed(data []byte) []byte {
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '\\' && i+1 < len(data) && (data[i+1] == 'n' || data[i+1] == 'r' || data[i+1] == '\\'):
			if data[i+1] != '\\' { // \\n is \n, escaped once more
				i++
			}
		default:
			out = append(out, c)
		}
	}
	return out
}
