package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// expiringCertificate: an API server's certificate is replaced by one for two days, as a script
// would issue it.
func (s symptoms) expiringCertificate(t *testing.T) {
	onMachine(t, shared.lab.Machine("cp2"), `set -e
cd /etc/kubernetes/pki
openssl x509 -x509toreq -in apiserver.crt -signkey apiserver.key -copy_extensions copyall -out /tmp/request
openssl x509 -req -in /tmp/request -CA ca-signing.crt -CAkey ca.key -days 2 \
  -copy_extensions copyall -out /tmp/issued 2>&1
cat /tmp/issued >apiserver.crt
rm /tmp/request /tmp/issued`)
	soon := time.Now().UTC().AddDate(0, 0, 2).Format("Jan _2 ")
	await(t, "the API server does not present the certificate", func() bool {
		return strings.Contains(s.on(t, "cp1", showCertificate), "notAfter="+soon)
	})
	expectContains(t, s.issues(t), "replica cp2 ("+address("cp2")+"): kube-apiserver: a certificate expires on ")
	s.repaired(t)
	await(t, "the API server presents the old certificate", func() bool {
		return !strings.Contains(s.on(t, "cp1", showCertificate), "notAfter="+soon)
	})
}

// unservedCertificate: an API server's certificate is replaced without its key, so it goes on with the one that it has.
func (s symptoms) unservedCertificate(t *testing.T) {
	before := s.on(t, "cp1", showCertificate)
	onMachine(t, shared.lab.Machine("cp2"), "cd /etc/kubernetes/pki; openssl req -x509 -newkey rsa:2048 -nodes "+
		"-subj /CN=test -keyout /dev/null -days 900 -out /tmp/new 2>/dev/null; cat /tmp/new >apiserver.crt; rm /tmp/new")
	if after := s.on(t, "cp1", showCertificate); after != before {
		t.Errorf("the API server presents %s, and before %s", after, before)
	}
	expectContains(t, plan(t, s.w), "apiserver.crt")
	s.repaired(t)
}

// expiringClient: a user's certificate ends soon, which is none of the control plane's issues.
func (s symptoms) expiringClient(t *testing.T) {
	before := s.expiringRequests(t)
	code, text, err := s.short.call(t.Context(), servers("cp1")[0], http.MethodGet, "/version", nil, nil)
	if err != nil || code != http.StatusOK {
		t.Fatalf("the user gets HTTP %d, %v: %s", code, err, text)
	}
	if after := s.expiringRequests(t); after <= before {
		t.Errorf("the API server counts %d requests whose certificate ends in two days, and %d before", after, before)
	}
	if issues := observed(t, s.w).Issues; len(issues) > 0 {
		t.Errorf("a user's certificate is an issue of the control plane: %q", issues)
	}
}

// expiringRequests returns how many requests an API server has had with certificates that end within one or two days.
func (s symptoms) expiringRequests(t *testing.T) (count int) {
	t.Helper()
	metrics := kubectl(t, s.w, s.admin, "--server="+servers("cp1")[0], "get", "--raw", "/metrics")
	upTo := func(seconds string) (count int) {
		_, rest, ok := strings.Cut(metrics, `apiserver_client_certificate_expiration_seconds_bucket{le="`+seconds+`"} `)
		if _, err := fmt.Sscan(rest, &count); err != nil || !ok {
			t.Fatalf("there is no bucket of %s s: %v", seconds, err)
		}
		return count
	}
	return upTo("172800") - upTo("86400")
}
