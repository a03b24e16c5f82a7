package host

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the hash that known_hosts prescribes
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"

	"golang.org/x/crypto/ssh"
)

// knownHosts is a parsed known_hosts text (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
type knownHosts []knownHost

type knownHost struct {
	marker   string // "", "cert-authority" or "revoked"
	patterns []string
	key      ssh.PublicKey
}

// parseKnownHosts parses text. An unreadable line is an error, because what it was meant to
// trust or revoke is unknown. A key of a type that no longer exists (ssh-dss) can never be
// presented, so its line is skipped.
func parseKnownHosts(text string) (knownHosts, error) {
	var known knownHosts
	for number, line := range strings.Split(text, "\n") {
		marker, patterns, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
		switch {
		case errors.Is(err, io.EOF): // blank line or comment
			if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' {
				return nil, fmt.Errorf("line %d: expected host, key type and key", number+1)
			}
			continue
		case err != nil && strings.Contains(err.Error(), "unknown key algorithm"):
			continue
		case err != nil:
			return nil, fmt.Errorf("line %d: %s", number+1, strings.TrimPrefix(err.Error(), "ssh: "))
		case marker != "" && marker != "cert-authority" && marker != "revoked":
			return nil, fmt.Errorf("line %d: unknown marker @%s", number+1, marker)
		}
		known = append(known, knownHost{marker, patterns, key})
	}
	return known, nil
}

// matches reports whether the entry applies to any of names. A negated pattern that matches
// excludes the entry for that name.
func (k knownHost) matches(names []string) bool {
	for _, name := range names {
		if k.matchesName(strings.ToLower(name)) {
			return true
		}
	}
	return false
}

func (k knownHost) matchesName(name string) bool {
	matched := false
	for _, pattern := range k.patterns {
		if strings.HasPrefix(pattern, "|1|") {
			matched = matched || matchesHash(pattern, name)
			continue
		}
		bare, negated := strings.CutPrefix(strings.ToLower(pattern), "!")
		if !matchesPattern(bare, name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchesPattern supports * and ?; the brackets of "[host]:port" are literal. Two spellings of
// one IPv6 address are equal.
func matchesPattern(pattern, name string) bool {
	if ip := net.ParseIP(pattern); ip != nil {
		return ip.Equal(net.ParseIP(name))
	}
	// path.Match's "*" stops at "/", which no host name contains.
	escaped := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`).Replace(pattern)
	matched, err := path.Match(escaped, name)
	return err == nil && matched
}

// matchesHash checks "|1|salt|HMAC-SHA1(salt, name)".
func matchesHash(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 {
		return false
	}
	salt, saltErr := base64.StdEncoding.DecodeString(parts[2])
	want, wantErr := base64.StdEncoding.DecodeString(parts[3])
	if saltErr != nil || wantErr != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}
