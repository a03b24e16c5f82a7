package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func ecdsaSigner(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestHostKeys(t *testing.T) {
	client := newClient(t)
	second := ecdsaSigner(t) // the server has two keys
	s := newTestServer(t, client.signer.PublicKey(), func(c *ssh.ServerConfig) { c.AddHostKey(second) })
	own, ec := keyLine(s.key.PublicKey()), keyLine(second.PublicKey())
	otherKeyLine := keyLine(newSigner(t).PublicKey())
	otherECKeyLine := keyLine(ecdsaSigner(t).PublicKey())
	port := strconv.Itoa(s.port())
	const plain = machineName
	dialled := "[127.0.0.1]:" + port

	tests := map[string]struct {
		pinned, known string
		refused       bool
		trusted       int // the number of known keys in the error
	}{
		"pinned":                     {pinned: own},
		"pinned second key":          {pinned: ec},
		"pinned with comment":        {pinned: own + " root@machine"},
		"pinned another":             {pinned: otherKeyLine, refused: true, trusted: 1},
		"pinned beats known_hosts":   {pinned: otherKeyLine, known: plain + " " + own, refused: true, trusted: 1},
		"unknown":                    {refused: true},
		"known by cluster address":   {known: plain + " " + own},
		"known by name and port":     {known: "[" + plain + "]:" + port + " " + own},
		"known by dialled address":   {known: dialled + " " + own},
		"known second key only":      {known: plain + " " + ec},
		"one of several names":       {known: "other,10.1.2.3," + plain + " " + own},
		"upper case":                 {known: "MACHINE.test " + own},
		"pattern":                    {known: "*.test " + own},
		"pattern with port":          {known: "[*.test]:" + port + " " + own},
		"question mark":              {known: "machine.tes? " + own},
		"negated":                    {known: "*.test,!machine.test " + own, refused: true},
		"other name":                 {known: "machine2.test " + own, refused: true},
		"hashed":                     {known: knownhosts.HashHostname(plain) + " " + own},
		"hashed with port":           {known: knownhosts.HashHostname(dialled) + " " + own},
		"hashed other":               {known: knownhosts.HashHostname("machine2.test") + " " + own, refused: true},
		"changed":                    {known: plain + " " + otherKeyLine, refused: true, trusted: 1},
		"changed to another type":    {known: plain + " " + otherECKeyLine, refused: true, trusted: 1},
		"old and new key":            {known: plain + " " + otherKeyLine + "\n" + plain + " " + own},
		"revoked":                    {known: "@revoked * " + own + "\n" + plain + " " + own, refused: true, trusted: 1},
		"pinned and revoked":         {pinned: own, known: "@revoked * " + own, refused: true, trusted: 1},
		"pinned, revoked by name":    {pinned: own, known: "@revoked " + plain + " " + own, refused: true, trusted: 1},
		"pinned, revoked by dialled": {pinned: own, known: "@revoked " + dialled + " " + own, refused: true, trusted: 1},
		"pinned, revoked elsewhere":  {pinned: own, known: "@revoked machine2.test " + own},
		"pinned, another revoked":    {pinned: own, known: "@revoked * " + otherKeyLine},
		"other key revoked":          {known: "@revoked * " + otherKeyLine + "\n" + plain + " " + own},
		"comments and obsolete types": {known: "# hosts\n\n  \nold ssh-old " + oldKey + "\n" + plain + " " + own +
			" comment\r\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := configFor(s, client)
			config.KnownHosts = test.known
			config.Overrides[machineName] = Override{Address: "127.0.0.1", Port: s.port(), HostKey: test.pinned}
			before := s.connectionCount()
			_, err := openPool(t, config).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"})
			if !test.refused {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var untrusted *HostKeyError
			if !errors.As(err, &untrusted) || !errors.Is(err, ErrHostKey) || errors.Is(err, ErrUnreachable) {
				t.Fatalf("error %v, want a HostKeyError", err)
			}
			if untrusted.Address != machineName || untrusted.Seen != own && untrusted.Seen != ec ||
				len(untrusted.Known) != test.trusted {
				t.Errorf("HostKeyError %+v", untrusted)
			}
			if tries := s.connectionCount() - before; tries != 1 {
				t.Errorf("%d connections: a refused key must not be tried again", tries)
			}
		})
	}
}

// oldKey is a key of a type that x/crypto does not support.
const oldKey = "AAAAB3NzaC1vbGQ="

func TestHostCertificates(t *testing.T) {
	client, authority := newClient(t), newSigner(t)
	key := newSigner(t)
	serverWith := func(change func(*ssh.Certificate)) *testServer {
		c := &ssh.Certificate{
			Key: key.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{machineName},
			ValidBefore: uint64(time.Now().Add(time.Hour).Unix()), //nolint:gosec // after 1970
		}
		change(c)
		if err := c.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(c, key)
		if err != nil {
			t.Fatal(err)
		}
		return newTestServer(t, client.signer.PublicKey(), func(c *ssh.ServerConfig) { c.AddHostKey(signer) })
	}
	trust := "@cert-authority *.test " + keyLine(authority.PublicKey())
	tests := map[string]struct {
		change func(*ssh.Certificate)
		known  string
		reason string // "": accepted
	}{
		"valid": {func(*ssh.Certificate) {}, trust, ""},
		"the dialled name": {
			func(c *ssh.Certificate) { c.ValidPrincipals = []string{"127.0.0.1"} },
			"@cert-authority 127.0.0.* " + keyLine(authority.PublicKey()), "",
		},
		"the dialled name and port": {
			func(c *ssh.Certificate) { c.ValidPrincipals = []string{"other", "127.0.0.1"} },
			"@cert-authority [127.0.0.1]:* " + keyLine(authority.PublicKey()), "",
		},
		"an authority for another name": {
			func(c *ssh.Certificate) { c.ValidPrincipals = []string{"127.0.0.1"} }, trust, "principal",
		},
		"no principals": {func(c *ssh.Certificate) { c.ValidPrincipals = nil }, trust, "names no machine"},
		"of a user":     {func(c *ssh.Certificate) { c.CertType = ssh.UserCert }, trust, "certificate"},
		"authority revoked": {
			func(*ssh.Certificate) {}, trust + "\n@revoked *.test " + keyLine(authority.PublicKey()),
			"revoked",
		},
		"key known, authority revoked": {
			func(*ssh.Certificate) {},
			trust + "\n@revoked * " + keyLine(authority.PublicKey()) + "\n" + machineName + " " + keyLine(key.PublicKey()),
			"revoked",
		},
		"many principals": {
			func(c *ssh.Certificate) {
				c.ValidPrincipals = slices.Repeat([]string{"\x1b[31mother\u202e"}, 5000)
			}, trust, `\x1b`,
		},
		"other principal": {func(c *ssh.Certificate) { c.ValidPrincipals = []string{"other"} }, trust, "principal"},
		"expired":         {func(c *ssh.Certificate) { c.ValidBefore = 1000 }, trust, "expired"},
		"other authority": {
			func(*ssh.Certificate) {}, "@cert-authority * " + keyLine(newSigner(t).PublicKey()),
			"no authorities",
		},
		"revoked": {func(*ssh.Certificate) {}, trust + "\n@revoked * " + keyLine(key.PublicKey()), "revoked"},
		"key itself known": {
			func(c *ssh.Certificate) { c.ValidBefore = 1000 },
			trust + "\n" + machineName + " " + keyLine(key.PublicKey()), "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serverWith(test.change)
			config := configFor(s, client)
			config.KnownHosts = test.known
			config.Overrides[machineName] = Override{Address: "127.0.0.1", Port: s.port()}
			_, err := openPool(t, config).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"})
			if test.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, ErrHostKey) {
				t.Fatalf("error %v, want ErrHostKey", err)
			}
			mustContain(t, err, test.reason)
			if len(err.Error()) > 2<<10 || strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("the server's words are not bounded or visible: %.400q", err)
			}
		})
	}
}
