package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func encrypted(t *testing.T, client testClient, passphrase string) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKeyWithPassphrase(client.raw, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func certificateLine(t *testing.T, key, authority ssh.Signer, change func(*ssh.Certificate)) string {
	t.Helper()
	c := &ssh.Certificate{
		Key: key.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"root"},
		ValidBefore: uint64(time.Now().Add(time.Hour).Unix()), //nolint:gosec // after 1970
	}
	if change != nil {
		change(c)
	}
	if err := c.SignCert(rand.Reader, authority); err != nil {
		t.Fatal(err)
	}
	return keyLine(c)
}

func TestNewPoolRefusesSettings(t *testing.T) {
	client, other := newClient(t), newClient(t)
	public := keyLine(client.signer.PublicKey())
	locked := encrypted(t, client, "right")
	authority := newSigner(t)
	with := func(change func(*Config)) Config {
		c := Config{Credentials: Credentials{PrivateKey: client.pem}}
		change(&c)
		return c
	}
	tests := map[string]struct {
		config Config
		field  string
		cause  string
	}{
		"encrypted, no passphrase": {
			with(func(c *Config) { c.PrivateKey = locked }), "private_key",
			"encrypted and no passphrase",
		},
		"wrong passphrase": {
			with(func(c *Config) { c.PrivateKey, c.Passphrase = locked, "wrong" }), "passphrase",
			"does not decrypt",
		},
		"public key": {with(func(c *Config) { c.PrivateKey = public }), "private_key", "public key"},
		"path":       {with(func(c *Config) { c.PrivateKey = "~/.ssh/id_ed25519" }), "private_key", "not its path"},
		"PuTTY key": {
			with(func(c *Config) { c.PrivateKey = "PuTTY-User-Key-File-3: ssh-ed25519" }), "private_key",
			"puttygen",
		},
		"TLS certificate": {
			with(func(c *Config) { c.PrivateKey = pemText("CERTIFICATE", []byte("x")) }), "private_key",
			"CERTIFICATE",
		},
		"damaged key": {
			with(func(c *Config) { c.PrivateKey = pemText("OPENSSH PRIVATE KEY", []byte("x")) }),
			"private_key", "unreadable",
		},
		"certificate, no key": {
			Config{Credentials: Credentials{Certificate: public}},
			"certificate",
			"needs the private key",
		},
		"certificate is a key": {with(func(c *Config) { c.Certificate = public }), "certificate", "not a certificate"},
		"certificate of another key": {
			with(func(c *Config) { c.Certificate = certificateLine(t, other.signer, authority, nil) }), "certificate",
			"another private key",
		},
		"host certificate": {
			with(func(c *Config) {
				c.Certificate = certificateLine(t, client.signer, authority, func(c *ssh.Certificate) { c.CertType = ssh.HostCert })
			}), "certificate", "host certificate",
		},
		"expired certificate": {
			with(func(c *Config) {
				c.Certificate = certificateLine(t, client.signer, authority, func(c *ssh.Certificate) { c.ValidBefore = 1000 })
			}), "certificate", "expired at 1970-01-01T00:16:40Z",
		},
		"agent missing": {
			with(func(c *Config) { c.Agent = filepath.Join(t.TempDir(), "none") }), "agent",
			"no such file",
		},
		"agent not socket": {with(func(c *Config) { c.Agent = t.TempDir() }), "agent", "not a socket"},
		"known_hosts":      {with(func(c *Config) { c.KnownHosts = "# ok\n\nhost ssh-ed25519\n" }), "known_hosts", "line 3"},
		"known_hosts path": {with(func(c *Config) { c.KnownHosts = "~/.ssh/known_hosts" }), "known_hosts", "line 1"},
		"known_hosts mark": {with(func(c *Config) { c.KnownHosts = "@odd host " + public }), "known_hosts", "@odd"},
		"port":             {with(func(c *Config) { c.Port = 70000 }), "port", "70000"},
		"timeout":          {with(func(c *Config) { c.ConnectTimeout = -1 }), "connect_timeout", "negative"},
		"keepalive":        {with(func(c *Config) { c.Keepalive = -1 }), "keepalive", "negative"},
		"override port": {
			with(func(c *Config) { c.Overrides = map[string]Override{"10.0.0.11": {Port: -1}} }),
			"hosts.10.0.0.11.port", "-1",
		},
		"override host key": {
			with(func(c *Config) { c.Overrides = map[string]Override{"10.0.0.11": {HostKey: "x"}} }),
			"hosts.10.0.0.11.host_key", "authorized_keys",
		},
		"bastion address": {with(func(c *Config) { c.Bastion = &Bastion{} }), "bastion.address", "empty"},
		"bastion host key": {
			with(func(c *Config) { c.Bastion = &Bastion{Address: "b", HostKey: "host " + public} }),
			"bastion.host_key", "",
		},
		"bastion key": {with(func(c *Config) {
			c.Bastion = &Bastion{Address: "b", Credentials: Credentials{PrivateKey: "x"}}
		}), "bastion.private_key", "PEM"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewPool(test.config)
			var setting *ConfigError
			if !errors.As(err, &setting) || setting.Field != test.field {
				t.Fatalf("error %v, want a ConfigError of %s", err, test.field)
			}
			mustContain(t, err, test.cause)
			if strings.Contains(err.Error(), "AAAAC3") {
				t.Errorf("the message quotes a key: %v", err)
			}
		})
	}
}

func pemText(kind string, content []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

func TestKeysOfAllKinds(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalPKCS8PrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	client := newClient(t)
	for name, c := range map[string]Credentials{
		"ed25519":                 {PrivateKey: client.pem},
		"ed25519 encrypted":       {PrivateKey: encrypted(t, client, "secret"), Passphrase: "secret"},
		"passphrase not needed":   {PrivateKey: client.pem, Passphrase: "secret"},
		"RSA PKCS#1":              {PrivateKey: pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		"ECDSA PKCS#8":            {PrivateKey: pemText("PRIVATE KEY", ecDER)},
		"without final line feed": {PrivateKey: strings.TrimSpace(client.pem)},
		"with Windows line ends":  {PrivateKey: strings.ReplaceAll(client.pem, "\n", "\r\n")},
	} {
		t.Run(name, func(t *testing.T) {
			signers, err := parseCredentials("", c)
			if err != nil {
				t.Fatal(err)
			}
			s := newTestServer(t, signers[0].PublicKey(), nil)
			config := configFor(s, client)
			config.Credentials = c
			if out, err := openPool(t, config).Host(Target{machineName}).Run(t.Context(),
				Command{Script: "echo in"}); err != nil || out != "in\n" {
				t.Fatal(out, err)
			}
		})
	}
}

func TestUserCertificate(t *testing.T) {
	client, authority := newClient(t), newSigner(t)
	s := newTestServer(t, nil, func(c *ssh.ServerConfig) {
		checker := ssh.CertChecker{IsUserAuthority: func(key ssh.PublicKey) bool {
			return string(key.Marshal()) == string(authority.PublicKey().Marshal())
		}}
		c.PublicKeyCallback = checker.Authenticate
	})
	config := configFor(s, client)
	_, err := openPool(t, config).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrAuth) || errors.Is(err, ErrUnreachable) {
		t.Fatalf("without certificate: %v, want ErrAuth", err)
	}
	config.Certificate = certificateLine(t, client.signer, authority, nil)
	if _, err := openPool(t, config).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"}); err != nil {
		t.Fatal(err)
	}
}

func TestAgent(t *testing.T) {
	client := newClient(t)
	keyring := agent.NewKeyring()
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn) }()
		}
	}()
	s := newTestServer(t, client.signer.PublicKey(), nil)
	config := configFor(s, client)
	config.PrivateKey, config.Agent = "", socket
	h := openPool(t, config).Host(Target{machineName})

	_, err = h.Run(t.Context(), Command{Script: "true"})
	var setting *ConfigError
	if !errors.As(err, &setting) || setting.Field != "private_key" {
		t.Fatalf("empty agent: %v, want a ConfigError", err)
	}
	if err := keyring.Add(agent.AddedKey{PrivateKey: client.raw}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(t.Context(), Command{Script: "true"}); err != nil {
		t.Fatal(err)
	}
}

func TestBastion(t *testing.T) {
	client, jump := newClient(t), newClient(t)
	inner := newTestServer(t, client.signer.PublicKey(), nil)
	bastion := newTestServer(t, jump.signer.PublicKey(), nil)
	config := configFor(inner, client)
	config.Bastion = &Bastion{
		Address:     "127.0.0.1",
		HostKey:     keyLine(bastion.key.PublicKey()),
		Credentials: Credentials{PrivateKey: jump.pem, Port: bastion.port()},
	}
	h := openPool(t, config).Host(Target{machineName})
	for range 2 {
		if _, err := h.Run(t.Context(), Command{Script: "true"}); err != nil {
			t.Fatal(err)
		}
		bastion.cut() // also ends the machine's connection; both are opened again
	}
	if bastion.connectionCount() != 2 || inner.connectionCount() != 2 {
		t.Errorf("%d connections to the bastion, %d to the machine, want 2 and 2", bastion.connectionCount(),
			inner.connectionCount())
	}
	if len(bastion.commandLines()) != 0 {
		t.Errorf("commands on the bastion: %q", bastion.commandLines())
	}

	wrong := config
	wrong.Bastion = &Bastion{
		Address: "127.0.0.1", HostKey: keyLine(newSigner(t).PublicKey()),
		Credentials: config.Bastion.Credentials,
	}
	_, err := openPool(t, wrong).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrHostKey) {
		t.Errorf("bastion with another key: %v, want ErrHostKey", err)
	}

	unreachable := config
	unreachable.Overrides = map[string]Override{machineName: {
		Address: "127.0.0.1", Port: 1,
		HostKey: keyLine(inner.key.PublicKey()),
	}}
	_, err = openPool(t, unreachable).Host(Target{machineName}).Run(t.Context(), Command{Script: "true"})
	if !errors.Is(err, ErrUnreachable) {
		t.Errorf("machine behind the bastion gone: %v, want ErrUnreachable", err)
	}
	mustContain(t, err, "from bastion 127.0.0.1")
}

func TestBastionTakesOverCredentials(t *testing.T) {
	client := newClient(t)
	config := Config{
		Credentials: Credentials{User: "admin", Port: 2222, PrivateKey: encrypted(t, client, "p"), Passphrase: "p"},
		Bastion:     &Bastion{Address: "b", Credentials: Credentials{User: "jump"}},
	}
	s, err := resolve(config)
	if err != nil {
		t.Fatal(err)
	}
	if b := s.bastion; b.user != "jump" || b.port != 2222 || len(b.signers) != 1 {
		t.Errorf("bastion is entered as %s at port %d with %d keys", b.user, b.port, len(b.signers))
	}
}
