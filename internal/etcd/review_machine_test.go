package etcd

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestLongestGap: a timer that pauses counts with its longest pause, and one whose runs are not in
// order is not known.
func TestLongestGap(t *testing.T) {
	at := func(hours ...int) (runs []time.Time) {
		for _, h := range hours {
			runs = append(runs, time.Date(2026, 11, 22, h, 0, 0, 0, time.UTC))
		}
		return runs
	}
	for want, runs := range map[time.Duration][]time.Time{
		time.Hour: at(1, 2, 3), 5 * time.Hour: at(1, 2, 7, 8),
	} {
		if got := longestGap(runs); got != want {
			t.Errorf("of %v: %s, want %s", runs, got, want)
		}
	}
	for name, runs := range map[string][]time.Time{
		"none": nil, "one": at(1), "the same": at(1, 1), "backwards": at(3, 2), "unread": {{}, at(1)[0]},
	} {
		if got := longestGap(runs); got != 0 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestCompactionIn(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	page := func(revision, last, start string) string {
		return "# HELP x\n" + compactedRevision + " " + revision + "\n" + compactionTime + " " + last + "\n" +
			processStart + " " + start + "\n"
	}
	got := compactionIn(page("5e+03", "1.79999994e+09", "1.7999e+09"), now)
	if got.Err != nil || got.Revision != 5000 || now.Sub(got.Last) != time.Minute || got.Uptime != 100000*time.Second {
		t.Errorf("%+v", got)
	}
	got = compactionIn(page("-1", "0", "1.9e+09"), now)
	if got.Err != nil || got.Revision != 0 || !got.Last.IsZero() || got.Uptime != 0 {
		t.Errorf("of a member that never compacted: %+v", got)
	}
	for name, metrics := range map[string]string{
		"NaN": page("NaN", "0", "1"), "negative": page("1", "-1", "1"), "below": page("-2", "1", "1"),
		"infinite": page("1", "+Inf", "1"),
		"huge":     page("1", "1", "1e300"), "no number": page("many", "1", "1"), "empty": "",
		"no revision": strings.Replace(page("1", "1", "1"), compactedRevision, "other", 1),
		"no time":     strings.Replace(page("1", "1", "1"), compactionTime, "other", 1),
		"no start":    strings.Replace(page("1", "1", "1"), processStart, "other", 1),
	} {
		if got := compactionIn(metrics, now); got.Err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestObservedScrapers(t *testing.T) {
	process := func(flag string) string {
		return "process\tetcd.service\tinfinity\tinfinity\t" +
			base64.StdEncoding.EncodeToString([]byte("/opt/etcd\x00"+flag+"\x00")) + "\t\n"
	}
	listener := process("--listen-metrics-urls=http://127.0.0.1:2381")
	near := "client\t2381\t0 0 127.0.0.1:2381 127.0.0.1:4000 lastrcv:5\nend\t2381\t0 0 127.0.0.1:4000 127.0.0.1:2381 "
	far := "client\t2381\t0 0 10.0.0.11:2381 10.0.0.9:4000 lastrcv:5\n"
	for name, c := range map[string]struct {
		output string
		want   int
		err    error
	}{
		"from afar":     {listener + far, 1, nil},
		"an agent":      {listener + near + `users:(("agent",pid=1,fd=2))` + "\n", 1, nil},
		"by SSH":        {listener + near + `users:(("sshd",pid=1,fd=2))` + "\n", 0, nil},
		"a probe":       {listener + near + `users:(("curl",pid=1,fd=2))` + "\n", 0, nil},
		"a kubelet":     {listener + near + `users:(("kubelet",pid=1,fd=2))` + "\n", 0, nil},
		"nobody":        {listener, 0, nil},
		"without ss":    {listener + "clients\tnone\n", 0, host.ErrNoClients},
		"no listener":   {process("--name=a") + far, 0, errNoMetricsListener},
		"no such shape": {listener + "client\t2381\tlastrcv:5\n", 0, nil},
	} {
		got, err := observedScrapers(c.output)
		if len(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestObservedTLS(t *testing.T) {
	const address = "10.0.0.11"
	now := time.Now()
	b := etcdtest.Bundle(t)
	server := issued(t, b, pki.EtcdServer("cp1", address))
	peer := issued(t, b, pki.EtcdPeer("cp1", address))
	ca, foreign := b.Known(pki.Etcd), b.Known(pki.Kubernetes)
	lines := func(certificate, trusted, peerCertificate, peerTrusted string) string {
		var out strings.Builder
		for _, f := range [][2]string{
			{"cert-file", certificate},
			{"trusted-ca-file", trusted},
			{"peer-cert-file", peerCertificate},
			{"peer-trusted-ca-file", peerTrusted},
		} {
			out.WriteString("certificates\t" + f[0] + "\t" + base64.StdEncoding.EncodeToString([]byte(f[1])) + "\n")
		}
		return out.String()
	}
	good := observedTLS(lines(server, ca, peer, ca), address, b, now)
	if good.Err != nil || good.Clients.Key == "" || good.Clients.Key == good.Peers.Key ||
		good.Clients.Refused+good.Peers.Refused != "" || len(good.Clients.Foreign) > 0 {
		t.Errorf("%+v", good)
	}
	if got := observedTLS(lines(server, ca, server, ca), address, b, now); got.Clients.Key != got.Peers.Key {
		t.Errorf("one certificate for both: %+v", got)
	}
	if got := observedTLS(lines(server, ca+foreign, peer, ca), address, b, now); len(got.Clients.Foreign) != 1 ||
		got.Clients.Foreign[0] != "kubernetes" || len(got.Peers.Foreign) > 0 {
		t.Errorf("trusts users of the API: %+v", got)
	}
	for name, c := range map[string]struct {
		got  ObservedTLS
		says string
	}{
		"expired":         {observedTLS(lines(server, ca, peer, ca), address, b, now.AddDate(2, 0, 0)), "expired"},
		"another address": {observedTLS(lines(server, ca, peer, ca), "10.0.0.12", b, now), "not for 10.0.0.12"},
		"another CA":      {observedTLS(lines(server, foreign, peer, ca), address, b, now), "does not verify"},
	} {
		if !strings.Contains(c.got.Clients.Refused, c.says) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
	for name, output := range map[string]string{
		"nothing": "", "no certificate": lines("", ca, peer, ca), "garbage": lines("-----BEGIN CERTIFICATE-----\nAAAA\n"+
			"-----END CERTIFICATE-----\n", ca, peer, ca), "no trust": lines(server, ca, peer, ""),
		"too many":  lines(server, strings.Repeat(ca, mostCertificates+1), peer, ca),
		"no base64": "certificates\tcert-file\t!\n",
	} {
		if got := observedTLS(output, address, b, now); got.Err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func issued(t *testing.T, b *pki.Bundle, leaf pki.Leaf) string {
	t.Helper()
	pair, err := b.Issue(leaf, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate
}
