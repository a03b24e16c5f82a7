package services

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// s3Path is where StartS3 puts versitygw, which Debian does not have.
const s3Path = "/usr/local/bin/versitygw"

// S3 is an S3 server on a machine, with one bucket in /srv/objects.
type S3 struct {
	Bucket, AccessKey, SecretKey string

	Endpoint    string // set by StartS3: https://10.0.0.14:7070
	Certificate string // set by StartS3, PEM: signed by itself
}

// Credentials returns the content of a credentials file.
func (s S3) Credentials() string {
	return fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s.AccessKey, s.SecretKey)
}

// StartS3 runs the program versitygw on a machine, as the systemd unit "s3". It returns s with the
// server's endpoint and certificate.
func StartS3(ctx context.Context, m *lab.Machine, program string, s S3) (S3, error) {
	if err := Install(ctx, m, program, s3Path); err != nil {
		return S3{}, err
	}
	certificate, key, err := selfSigned(m.Address.String())
	if err != nil {
		return S3{}, fmt.Errorf("make a certificate for %s: %w", m.Name, err)
	}
	s.Endpoint, s.Certificate = "https://"+net.JoinHostPort(m.Address.String(), "7070"), certificate
	_, err = run(ctx, m, "umask 077; mkdir -p /srv/objects/"+s.Bucket+" /srv/attributes; cat >/srv/cert <<'E'\n"+
		certificate+"E\ncat >/srv/key <<'E'\n"+key+"E\nprintf 'ROOT_ACCESS_KEY=%s\\nROOT_SECRET_KEY=%s\\n' "+s.AccessKey+
		" "+s.SecretKey+" >/srv/env\nsystemd-run --quiet --unit=s3 --property=EnvironmentFile=/srv/env "+s3Path+
		" --port :7070 --cert /srv/cert --key /srv/key --quiet posix --sidecar /srv/attributes /srv/objects")
	return s, err
}

// Install copies a program of this computer onto a machine, where it can be executed.
func Install(ctx context.Context, m *lab.Machine, program, path string) error {
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	upload := m.SSH(ctx, "cat >"+path+" && chmod 755 "+path)
	upload.Stdin = file
	if out, err := upload.CombinedOutput(); err != nil {
		return fmt.Errorf("install %s on %s: %w: %s", path, m.Name, err, out)
	}
	return nil
}

// selfSigned returns a certificate for an address, and its key.
func selfSigned(address string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), nil
}
