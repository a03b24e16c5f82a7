package host

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"
)

// verifier decides whether the key an SSH server presents is trusted. There is
// no trust on first use.
type verifier struct {
	name        string // the cluster address, for messages
	trusted     []ssh.PublicKey
	authorities []ssh.PublicKey
	revoked     []ssh.PublicKey
}

// verifier gathers what is trusted for e: the pinned key alone, or else what
// known_hosts says of the cluster address and of the dialled one.
func (s settings) verifier(e endpoint) verifier {
	v := verifier{name: e.name}
	if e.pinned != nil {
		v.trusted = []ssh.PublicKey{e.pinned}
		return v
	}
	for _, entry := range s.known {
		if !entry.matches(lookupNames(e)) {
			continue
		}
		switch entry.marker {
		case "":
			v.trusted = append(v.trusted, entry.key)
		case "cert-authority":
			v.authorities = append(v.authorities, entry.key)
		case "revoked":
			v.revoked = append(v.revoked, entry.key)
		}
	}
	return v
}

// lookupNames are the names under which known_hosts may list e. Like ssh(1), a
// server on another port than 22 is also found by its name alone.
func lookupNames(e endpoint) []string {
	var names []string
	for _, address := range []string{e.name, e.address} {
		if e.port != defaultPort {
			names = append(names, "["+address+"]:"+strconv.Itoa(e.port))
		}
		names = append(names, address)
	}
	return names
}

// algorithms puts those of the trusted keys first, so that a server with
// several keys presents the one that is known, and the rest behind them, so
// that a server without it shows what it has instead (as OpenSSH does in
// order_hostkeyalgs). Certificates are asked for only where an authority is known.
func (v verifier) algorithms() []string {
	var first, certified, plain []string
	for _, algorithm := range ssh.SupportedAlgorithms().HostKeys {
		base, isCertificate := strings.CutSuffix(algorithm, "-cert-v01@openssh.com")
		switch {
		case isCertificate:
			certified = append(certified, algorithm)
		case slices.ContainsFunc(v.trusted, func(k ssh.PublicKey) bool { return keyMatchesAlgorithm(k, base) }):
			first = append(first, algorithm)
		default:
			plain = append(plain, algorithm)
		}
	}
	if len(v.authorities) > 0 {
		return slices.Concat(certified, first, plain)
	}
	return append(first, plain...)
}

// keyMatchesAlgorithm: an RSA key signs with the SHA-2 algorithms (RFC 8332),
// every other key has one algorithm of its own name.
func keyMatchesAlgorithm(key ssh.PublicKey, algorithm string) bool {
	if key.Type() == ssh.KeyAlgoRSA {
		return algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512
	}
	return key.Type() == algorithm
}

// check is the ssh.HostKeyCallback.
func (v verifier) check(_ string, remote net.Addr, seen ssh.PublicKey) error {
	refuse := func(key ssh.PublicKey, reason string) error {
		return &HostKeyError{Address: v.name, Seen: keyLine(key), Known: keyLines(v.trusted), Reason: reason}
	}
	certificate, ok := seen.(*ssh.Certificate)
	if !ok {
		switch {
		case containsKey(v.revoked, seen):
			return refuse(seen, "it is marked @revoked in known_hosts")
		case !containsKey(v.trusted, seen):
			return refuse(seen, "")
		}
		return nil
	}
	checker := ssh.CertChecker{
		IsHostAuthority: func(authority ssh.PublicKey, _ string) bool { return containsKey(v.authorities, authority) },
		IsRevoked: func(c *ssh.Certificate) bool {
			return containsKey(v.revoked, c.Key) || containsKey(v.revoked, c.SignatureKey)
		},
	}
	// The checker takes the port off again and compares the name with the principals.
	if err := checker.CheckHostKey(net.JoinHostPort(v.name, "22"), remote, certificate); err != nil {
		if containsKey(v.trusted, certificate.Key) && !containsKey(v.revoked, certificate.Key) {
			return nil
		}
		return refuse(certificate.Key, "its certificate is not valid: "+strings.TrimPrefix(err.Error(), "ssh: "))
	}
	return nil
}

func containsKey(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

func keyLine(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func keyLines(keys []ssh.PublicKey) []string {
	var lines []string
	for _, key := range keys {
		lines = append(lines, keyLine(key))
	}
	return lines
}

// parsePinned reads one authorized_keys line; "" is nil.
func parsePinned(line string) (ssh.PublicKey, error) {
	if strings.TrimSpace(line) == "" {
		return nil, nil
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return nil, errors.New(`not a public key in authorized_keys format ("ssh-ed25519 AAAA…")`)
	case len(options) > 0:
		return nil, fmt.Errorf("unexpected %q before the key: give the key type and the key only", strings.Join(options, ","))
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("more than one line: pin one key")
	}
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return nil, errors.New("this is a certificate: pin the plain key, or put its authority into known_hosts as @cert-authority")
	}
	return key, nil
}
