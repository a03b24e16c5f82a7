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

// verifier decides whether the key of an SSH server is trusted. There is no trust on first use.
type verifier struct {
	name        string // the cluster address, for messages
	trusted     []ssh.PublicKey
	authorities []authority
	revoked     []ssh.PublicKey
}

// authority is a CA that may sign a certificate for one of the machine's names.
type authority struct {
	name string
	key  ssh.PublicKey
}

// verifier returns what is trusted for e: the pinned key alone or, without one, the entries of
// known_hosts for the cluster address and the dialled address. Keys that known_hosts revokes
// are rejected in both cases.
func (s settings) verifier(e endpoint) verifier {
	v := verifier{name: e.name}
	for _, address := range addresses(e) {
		for _, entry := range s.known {
			if !entry.matches(lookupNames(address, e.port)) {
				continue
			}
			switch {
			case entry.marker == "revoked":
				v.revoked = append(v.revoked, entry.key)
			case e.pinned != nil:
			case entry.marker == "cert-authority":
				v.authorities = append(v.authorities, authority{address, entry.key})
			case !containsKey(v.trusted, entry.key):
				v.trusted = append(v.trusted, entry.key)
			}
		}
	}
	if e.pinned != nil {
		v.trusted = []ssh.PublicKey{e.pinned}
	}
	return v
}

// addresses returns the addresses of e: the cluster address, and the one that is dialled.
func addresses(e endpoint) []string {
	if e.address == e.name {
		return []string{e.name}
	}
	return []string{e.name, e.address}
}

// lookupNames returns the names under which known_hosts may list an address. As with ssh(1), a
// server on another port than 22 is also looked up by its name alone.
func lookupNames(address string, port int) []string {
	if port == defaultPort {
		return []string{address}
	}
	return []string{"[" + address + "]:" + strconv.Itoa(port), address}
}

// algorithms puts the algorithms of trusted keys first, so that a server with several keys
// presents the known one. The others follow, so that a server without a known key shows which
// keys it has (as OpenSSH does in order_hostkeyalgs). Certificates are requested only if an
// authority is known.
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

// keyMatchesAlgorithm reports whether key can sign with algorithm. An RSA key signs with the
// SHA-2 algorithms (RFC 8332), every other key has one algorithm of the same name.
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
	certificate, certified := seen.(*ssh.Certificate)
	key := seen
	if certified {
		key = certificate.Key
	}
	switch {
	case containsKey(v.revoked, seen) || containsKey(v.revoked, key):
		return refuse(key, "it is marked @revoked in known_hosts")
	case certified && containsKey(v.revoked, certificate.SignatureKey):
		return refuse(key, "the authority of its certificate is marked @revoked in known_hosts")
	case containsKey(v.trusted, key):
		return nil
	case !certified:
		return refuse(key, "")
	}
	if err := v.checkCertificate(remote, certificate); err != nil {
		return refuse(key, "its certificate is not valid: "+oneLine(strings.TrimPrefix(err.Error(), "ssh: ")))
	}
	return nil
}

// checkCertificate accepts a certificate that names the machine, by its cluster address or by
// the dialled address, and is signed by an authority for that name. A certificate without names
// is rejected: it would be valid for every machine.
func (v verifier) checkCertificate(remote net.Addr, certificate *ssh.Certificate) error {
	if len(certificate.ValidPrincipals) == 0 {
		return errors.New("it names no machine (principals)")
	}
	err := errors.New("no authorities for it are known")
	for _, a := range v.authorities {
		checker := ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey,
			_ string,
		) bool {
			return containsKey([]ssh.PublicKey{a.key}, key)
		}}
		// The checker removes the port again and compares the name with the principals.
		if err = checker.CheckHostKey(net.JoinHostPort(a.name, "22"), remote, certificate); err == nil {
			return nil
		}
	}
	return err
}

func containsKey(keys []ssh.PublicKey, key ssh.PublicKey) bool {
	return slices.ContainsFunc(keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// keyLine returns a key in authorized_keys format, or its fingerprint if the key is longer than
// any key in common use.
func keyLine(key ssh.PublicKey) string {
	const longest = 4 << 10
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	if len(line) > longest {
		return oneLine(key.Type()) + " " + ssh.FingerprintSHA256(key)
	}
	return line
}

func keyLines(keys []ssh.PublicKey) []string {
	var lines []string
	for _, key := range keys {
		lines = append(lines, keyLine(key))
	}
	return lines
}

// parsePinned parses one authorized_keys line; "" is nil.
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
		return nil, errors.New("this is a certificate: pin the plain key, or put its authority into known_hosts as " +
			"@cert-authority")
	}
	return key, nil
}
