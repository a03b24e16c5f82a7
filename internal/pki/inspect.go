package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
)

var errNoCertificate = errors.New("no PEM certificate in it")

// Inspect parses the first certificate of a PEM text.
func Inspect(certificate string) (Info, error) {
	c, err := firstCertificate(certificate)
	if err != nil {
		return Info{}, fmt.Errorf("inspect certificate: %w", err)
	}
	return infoOf(c), nil
}

// Fingerprint returns the SHA-256 of the first certificate of a PEM text, in hex.
func Fingerprint(certificate string) (string, error) {
	c, err := firstCertificate(certificate)
	if err != nil {
		return "", fmt.Errorf("fingerprint of certificate: %w", err)
	}
	return fingerprint(c), nil
}

func infoOf(c *x509.Certificate) Info {
	info := Info{
		Subject:       c.Subject.String(),
		CommonName:    c.Subject.CommonName,
		Organizations: c.Subject.Organization,
		Issuer:        c.Issuer.String(),
		DNSNames:      c.DNSNames,
		Algorithm:     algorithmOf(c),
		IsCA:          c.BasicConstraintsValid && c.IsCA,
		Usage:         usageOf(c),
		Usages:        usagesOf(c),
		NotBefore:     c.NotBefore,
		NotAfter:      c.NotAfter,
		Serial:        c.SerialNumber.Text(16),
		SHA256:        fingerprint(c),
	}
	for _, address := range c.IPAddresses {
		info.IPAddresses = append(info.IPAddresses, net.IP.String(address))
	}
	return info
}

func usageOf(c *x509.Certificate) Usage {
	var usage Usage
	if slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		usage |= Client
	}
	if slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
		usage |= Server
	}
	return usage
}

// usageNames are the names of Kubernetes (k8s.io/api/certificates/v1, KeyUsage). Kubernetes has
// two names for email protection and none for Microsoft's code signing.
var usageNames = map[x509.ExtKeyUsage]string{
	x509.ExtKeyUsageAny:                        "any",
	x509.ExtKeyUsageServerAuth:                 "server auth",
	x509.ExtKeyUsageClientAuth:                 "client auth",
	x509.ExtKeyUsageCodeSigning:                "code signing",
	x509.ExtKeyUsageEmailProtection:            "email protection",
	x509.ExtKeyUsageIPSECEndSystem:             "ipsec end system",
	x509.ExtKeyUsageIPSECTunnel:                "ipsec tunnel",
	x509.ExtKeyUsageIPSECUser:                  "ipsec user",
	x509.ExtKeyUsageTimeStamping:               "timestamping",
	x509.ExtKeyUsageOCSPSigning:                "ocsp signing",
	x509.ExtKeyUsageMicrosoftServerGatedCrypto: "microsoft sgc",
	x509.ExtKeyUsageNetscapeServerGatedCrypto:  "netscape sgc",
}

// usagesOf returns the usages of c. A usage without a name is given as its object identifier.
func usagesOf(c *x509.Certificate) []string {
	var names []string
	for _, usage := range c.ExtKeyUsage {
		name, ok := usageNames[usage]
		if !ok {
			name = usage.OID().String()
		}
		names = append(names, name)
	}
	for _, usage := range c.UnknownExtKeyUsage {
		names = append(names, usage.String())
	}
	return names
}

func fingerprint(c *x509.Certificate) string {
	sum := sha256.Sum256(c.Raw)
	return hex.EncodeToString(sum[:])
}

// firstCertificate accepts files as they occur on machines: text or other blocks around the
// certificate are skipped.
func firstCertificate(text string) (*x509.Certificate, error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, fmt.Errorf("%w: %s", errNoCertificate, describePEM(text))
		}
		if block.Type == "CERTIFICATE" {
			return parseCertificate(block)
		}
	}
}

// parseCertificate does not quote crypto/x509, so that no part of a private key labelled
// "CERTIFICATE" gets into an error.
func parseCertificate(block *pem.Block) (*x509.Certificate, error) {
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("the PEM certificate cannot be decoded")
	}
	return c, nil
}
