package pki

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestIssueCatalogue(t *testing.T) {
	b := bundle(t)
	serials := map[string]bool{}
	keys := map[string]bool{}
	for _, l := range append(catalogue(), User("system:kube-scheduler"), User("ann", "ops", "dev")) {
		t.Run(l.Name, func(t *testing.T) {
			pair := issue(t, b, l, now, 0)
			info := mustInspect(t, pair.Certificate)
			if info.CommonName != l.CommonName || !slices.Equal(slices.Sorted(slices.Values(info.Organizations)),
				slices.Sorted(slices.Values(l.Organizations))) {
				t.Errorf("subject is %q of %q", info.CommonName, info.Organizations)
			}
			if info.Usage != l.Usage || info.IsCA {
				t.Errorf("usage is %b, CA %t", info.Usage, info.IsCA)
			}
			names, err := parseHosts(l.Hosts)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(info.DNSNames, names.dns) || !slices.Equal(info.IPAddresses, names.addresses) {
				t.Errorf("names are %q and %q", info.DNSNames, info.IPAddresses)
			}
			if !info.NotBefore.Equal(now.Add(-5*time.Minute)) || !info.NotAfter.Equal(now.Add(365*24*time.Hour)) {
				t.Errorf("valid from %s to %s", info.NotBefore, info.NotAfter)
			}
			if serials[info.Serial] || keys[pair.PrivateKey] || pair.PublicKey != "" {
				t.Error("serial number or key was used before")
			}
			serials[info.Serial], keys[pair.PrivateKey] = true, true
			if key, err := parseKey(pair.PrivateKey); err != nil ||
				!samePublicKey(key.Public(), parse(t, pair.Certificate).PublicKey) {
				t.Errorf("key does not match: %v", err)
			}
		})
	}
}

// parse returns the certificate that Inspect reads.
func parse(t testing.TB, certificate string) *x509.Certificate {
	t.Helper()
	c, err := firstCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestIssuePeriod(t *testing.T) {
	const year = 365 * 24 * time.Hour
	begin, end := now.Add(-5*time.Minute), now.Add(10*year)
	tests := map[string]struct {
		at               time.Time
		validity         time.Duration
		notBefore, after time.Time
	}{
		"default":                 {now.Add(time.Hour), 0, now.Add(55 * time.Minute), now.Add(time.Hour + year)},
		"given":                   {now.Add(time.Hour), time.Hour, now.Add(55 * time.Minute), now.Add(2 * time.Hour)},
		"ends with authority":     {now.Add(9*year + time.Hour), 0, now.Add(9*year + 55*time.Minute), end},
		"longer than authority":   {now.Add(time.Hour), 20 * year, now.Add(55 * time.Minute), end},
		"begins with authority":   {now.Add(-time.Minute), time.Hour, begin, now.Add(59 * time.Minute)},
		"authority's last moment": {end, 0, end.Add(-5 * time.Minute), end},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			info := mustInspect(t, issue(t, bundle(t), FrontProxyClient(), test.at, test.validity).Certificate)
			if !info.NotBefore.Equal(test.notBefore) || !info.NotAfter.Equal(test.after) {
				t.Errorf("valid from %s to %s, want %s to %s", info.NotBefore, info.NotAfter, test.notBefore, test.after)
			}
		})
	}
}

func TestIssueRefuses(t *testing.T) {
	server := func(hosts ...string) Leaf {
		return Leaf{Name: "apiserver", Authority: Kubernetes, CommonName: "x", Usage: Server, Hosts: hosts}
	}
	tests := map[string]struct {
		leaf     Leaf
		at       time.Time
		validity time.Duration
		wantErr  string
	}{
		"expired authority": {
			FrontProxyClient(), now.AddDate(11, 0, 0), 0,
			"issue front-proxy-client certificate: the authority has expired: front-proxy-ca ended on 2036-02-27T12:00:00Z",
		},
		"clock behind":      {FrontProxyClient(), now.Add(-time.Hour), 0, "in the future: check the clock"},
		"negative validity": {FrontProxyClient(), now, -time.Hour, "negative"},
		"unknown authority": {
			Leaf{Name: "x", Authority: "y", CommonName: "x", Usage: Client},
			now, 0,
			`unknown authority "y"`,
		},
		"no common name":      {Leaf{Name: "x", Authority: Etcd, Usage: Client}, now, 0, "common name is empty"},
		"no usage":            {Leaf{Name: "x", Authority: Etcd, CommonName: "x"}, now, 0, "neither client nor server"},
		"server without host": {server(), now, 0, "at least one host"},
		"bad host":            {server("cp1", "10.0.0.300"), now, 0, `issue apiserver certificate: "10.0.0.300" looks like`},
		"empty host":          {EtcdPeer("cp1", ""), now, 0, "issue etcd/peer certificate: host name is empty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			pair, err := b.Issue(test.leaf, test.at, test.validity)
			wantError(t, err, test.wantErr, b.CA.PrivateKey, b.EtcdCA.PrivateKey, b.FrontProxyCA.PrivateKey)
			if pair != (KeyPair{}) {
				t.Error("a refused certificate comes with a key pair")
			}
		})
	}
}

func TestIssueNamesExpiredAuthority(t *testing.T) {
	b := bundle(t)
	if _, err := b.Issue(FrontProxyClient(), now.AddDate(11, 0, 0), 0); !errors.Is(err, errAuthorityExpired) {
		t.Errorf("got %v", err)
	}
}

func TestIssueRefusesBrokenAuthority(t *testing.T) {
	b := bundle(t)
	b.EtcdCA.PrivateKey = b.CA.PrivateKey
	_, err := b.Issue(EtcdHealthcheckClient(), now, 0)
	wantError(t, err, "authority etcd: private key does not match", b.CA.PrivateKey)
}

// TestIssueVerifies uses an authority that may not sign for this address: only the verification
// of the finished certificate can detect it.
func TestIssueVerifies(t *testing.T) {
	b := bundle(t)
	key, err := parseKey(b.EtcdCA.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	constrained := *parse(t, b.EtcdCA.Certificate)
	constrained.PermittedDNSDomainsCritical = true
	constrained.PermittedDNSDomains = []string{"example.com"}
	der, err := x509.CreateCertificate(nil, &constrained, &constrained, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	b.EtcdCA.Certificate = encodePEM("CERTIFICATE", der)
	_, err = b.Issue(EtcdServer("cp1", "10.0.0.11"), now, 0)
	wantError(t, err, "the result would be useless: etcd/server certificate does not verify", b.EtcdCA.PrivateKey)
}

func TestIssueFromImportedRSAAuthority(t *testing.T) {
	b := bundle(t)
	pair, err := newAuthority("company root", Options{Algorithm: RSA2048, Validity: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	b.CA = pair
	leaf := parse(t, issue(t, b, APIServerKubeletClient(), now, 0).Certificate)
	if leaf.SignatureAlgorithm != x509.SHA256WithRSA || leaf.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("a key of %s signed with %s", leaf.PublicKeyAlgorithm, leaf.SignatureAlgorithm)
	}
	if !strings.Contains(leaf.Issuer.String(), "company root") {
		t.Errorf("issuer is %s", leaf.Issuer)
	}
}
