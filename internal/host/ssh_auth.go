package host

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// parseCredentials returns the signers of c. With a certificate, these are the key with the
// certificate, then the key alone. Errors never quote the key.
func parseCredentials(prefix string, c Credentials) ([]ssh.Signer, error) {
	if c.PrivateKey == "" {
		if c.Certificate != "" {
			return nil, &ConfigError{prefix + "certificate", errors.New("needs the private key it was issued for")}
		}
		return nil, nil
	}
	signer, err := parsePrivateKey(c.PrivateKey, c.Passphrase)
	if err != nil {
		field := prefix + "private_key"
		if errors.Is(err, x509.IncorrectPasswordError) {
			field, err = prefix+"passphrase", errors.New("it does not decrypt the private key")
		}
		return nil, &ConfigError{field, err}
	}
	if c.Certificate == "" {
		return []ssh.Signer{signer}, nil
	}
	certified, err := parseCertificate(c.Certificate, signer, time.Now())
	if err != nil {
		return nil, &ConfigError{prefix + "certificate", err}
	}
	return []ssh.Signer{certified, signer}, nil
}

// parsePrivateKey distinguishes an encrypted key, a wrong passphrase
// (x509.IncorrectPasswordError) and text that is not a private key.
func parsePrivateKey(text, passphrase string) (ssh.Signer, error) {
	if err := checkPrivateKeyText(text); err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey([]byte(text))
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		return signer, nil
	case !errors.As(err, &missing):
		return nil, fmt.Errorf("unreadable private key: %w", err)
	case passphrase == "":
		return nil, errors.New("the key is encrypted and no passphrase is set")
	}
	signer, err = ssh.ParsePrivateKeyWithPassphrase([]byte(text), []byte(passphrase))
	if err != nil && !errors.Is(err, x509.IncorrectPasswordError) {
		return nil, fmt.Errorf("unreadable encrypted private key: %w", err)
	}
	return signer, err
}

func checkPrivateKeyText(text string) error {
	if strings.HasPrefix(text, "PuTTY-User-Key-File") {
		return errors.New("this is a PuTTY key: convert it with puttygen -O private-openssh")
	}
	if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err == nil {
		return errors.New("this is a public key; the private key is the file without .pub")
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return errors.New(`not a private key in PEM format: give the key's content, not its path, as in ` +
			`file("~/.ssh/id_ed25519")`)
	}
	if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		return fmt.Errorf("not a private key: its PEM block is %q", block.Type)
	}
	return nil
}

func parseCertificate(line string, key ssh.Signer, now time.Time) (ssh.Signer, error) {
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		return nil, fmt.Errorf("unreadable SSH certificate: %w", err)
	}
	certificate, ok := public.(*ssh.Certificate)
	switch {
	case !ok:
		return nil, fmt.Errorf("this is a plain %s public key, not a certificate", public.Type())
	case certificate.CertType != ssh.UserCert:
		return nil, errors.New("this is a host certificate, not a user certificate")
	case !bytes.Equal(certificate.Key.Marshal(), key.PublicKey().Marshal()):
		return nil, errors.New("it was issued for another private key")
	case uint64(now.Unix()) >= certificate.ValidBefore: //nolint:gosec // after 1970
		return nil, fmt.Errorf("it expired at %s",
			time.Unix(int64(certificate.ValidBefore), 0).UTC().Format(time.RFC3339)) //nolint:gosec // a past time fits
	}
	return ssh.NewCertSigner(certificate, key)
}

// authentication returns the methods to log in at e: its own keys, then those of the agent. The
// agent is queried again for every connection; done closes the connection to it.
func (s settings) authentication(ctx context.Context, e endpoint) (methods []ssh.AuthMethod, done func(), err error) {
	signers, done := e.signers, func() {}
	if s.agent != "" {
		var fromAgent []ssh.Signer
		if fromAgent, done, err = agentSigners(ctx, s.agent); err != nil {
			return nil, nil, &ConfigError{"agent", err}
		}
		signers = append(signers[:len(signers):len(signers)], fromAgent...)
	}
	if len(signers) == 0 {
		done()
		return nil, nil, &ConfigError{
			"private_key",
			fmt.Errorf("no SSH key for %s: set a private key, or an agent that holds one", e.name),
		}
	}
	return []ssh.AuthMethod{ssh.PublicKeys(signers...)}, done, nil
}

func agentSigners(ctx context.Context, path string) ([]ssh.Signer, func(), error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the ssh-agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	signers, err := agent.NewClient(conn).Signers()
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, nil, fmt.Errorf("ask the ssh-agent for its keys: %w", err)
	}
	return signers, func() { stop(); _ = conn.Close() }, nil
}
