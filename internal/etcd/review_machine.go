package etcd

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed review.sh
var reviewFunctions host.Script

// deviceName matches how the kernel names a disk, such as "sdb", "nvme0n1" or "cciss!c0d0".
var deviceName = regexp.MustCompile(`^[A-Za-z0-9!_.:-]{1,64}$`)

// Limits of what is read of a machine's disks.
const (
	mostDevices = 64
	mostSharing = 20
)

// observedDisks parses the lines of disks_below: the disks of the member's data, and the mount
// points of other file systems that use one of them.
func observedDisks(output string) (devices, sharing []string) {
	var numbers string
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) == 3 && fields[0] == "data" && numbers == "":
			numbers, devices = fields[1], devicesIn(fields[2])
		case len(fields) == 4 && fields[0] == "mount" && fields[1] != numbers && len(sharing) < mostSharing:
			on := func(device string) bool { return slices.Contains(devices, device) }
			if point := problem.Line(fields[2]); slices.ContainsFunc(devicesIn(fields[3]), on) &&
				!slices.Contains(sharing, point) {
				sharing = append(sharing, point)
			}
		}
	}
	return devices, sharing
}

func devicesIn(text string) []string {
	var devices []string
	for _, name := range strings.Fields(text) {
		if deviceName.MatchString(name) && len(devices) < mostDevices {
			devices = append(devices, name)
		}
	}
	return devices
}

var errNoMetricsListener = errors.New("etcd has no listener for metrics alone (listen-metrics-urls)")

// observedScrapers returns who is connected to the listener for metrics. Other ports serve other
// requests too, so who is connected there need not read metrics.
func observedScrapers(output string) ([]host.Client, error) {
	process := host.ReadProcesses(output)["etcd.service"]
	all, known := host.ReadClients(output)
	switch {
	case process.Flags[release.MetricsURLsFlag] == "":
		return nil, errNoMetricsListener
	case !known:
		return nil, host.ErrNoClients
	}
	return slices.DeleteFunc(all, host.Client.IsProbe), nil
}

// ObservedTLS is what the files of a member say about its two servers.
type ObservedTLS struct {
	Err            error
	Clients, Peers ObservedSide
}

// ObservedSide is one server of a member.
type ObservedSide struct {
	Key     string // identifies the public key of its certificate
	Refused string // why others refuse that certificate; "" if they do not
	Foreign []string
}

var errNoProcess = errors.New("etcd is not running, or names no files")

// observedTLS parses the certificates of a member, and verifies them as others do. Foreign are the
// other authorities of the bundle that the trusted file contains.
func observedTLS(output, address string, b *pki.Bundle, now time.Time) ObservedTLS {
	files := map[string]string{}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 || fields[0] != "certificates" {
			continue
		}
		if text, err := base64.StdEncoding.DecodeString(fields[2]); err == nil {
			files[fields[1]] = string(text)
		}
	}
	if len(files) == 0 {
		return ObservedTLS{Err: errNoProcess}
	}
	var t ObservedTLS
	var clientsErr, peersErr error
	t.Clients, clientsErr = observedSide(files["cert-file"], files["trusted-ca-file"], address, pki.Server, b, now)
	t.Peers, peersErr = observedSide(files["peer-cert-file"], files["peer-trusted-ca-file"], address,
		pki.Server|pki.Client, b, now)
	t.Err = errors.Join(clientsErr, peersErr)
	return t
}

func observedSide(
	presented, trusted, address string, usage pki.Usage, b *pki.Bundle, now time.Time,
) (ObservedSide, error) {
	chain, err := parseChain(presented)
	if err != nil {
		return ObservedSide{}, err
	}
	roots, err := parseChain(trusted)
	if err != nil {
		return ObservedSide{}, err
	}
	digest := sha256.Sum256(chain[0].RawSubjectPublicKeyInfo)
	side := ObservedSide{Key: hex.EncodeToString(digest[:])}
	switch {
	case now.After(chain[0].NotAfter):
		side.Refused = "it has expired on " + chain[0].NotAfter.UTC().Format(time.DateOnly)
	case chain[0].VerifyHostname(address) != nil:
		side.Refused = "it is not for " + address
	case !pki.Accepts(trusted, chain, usage, now):
		side.Refused = "it does not verify against the trusted file"
	}
	for _, authority := range []pki.Authority{pki.Kubernetes, pki.FrontProxy} {
		known, err := parseChain(b.Known(authority))
		if err != nil {
			return side, fmt.Errorf("read the CA %s of the bundle: %w", authority, err)
		}
		if slices.ContainsFunc(roots, func(root *x509.Certificate) bool { return sameKey(root, known) }) {
			side.Foreign = append(side.Foreign, string(authority))
		}
	}
	return side, nil
}

func sameKey(c *x509.Certificate, any []*x509.Certificate) bool {
	return slices.ContainsFunc(any, func(other *x509.Certificate) bool {
		return bytes.Equal(c.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo)
	})
}

// mostCertificates limits a file of certificates.
const mostCertificates = 100

func parseChain(text string) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for _, der := range pki.CertificatesIn(text) {
		c, err := x509.ParseCertificate([]byte(der))
		if err != nil {
			return nil, fmt.Errorf("parse a certificate: %w", err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 || len(chain) > mostCertificates {
		return nil, fmt.Errorf("there are %d certificates in a file", len(chain))
	}
	return chain, nil
}
