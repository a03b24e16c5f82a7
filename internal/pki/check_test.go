package pki

import (
	"slices"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	b := bundle(t)
	good := issue(t, b, apiServer(), now, 0).Certificate
	with := func(change func(l *Leaf)) Leaf {
		l := apiServer()
		change(&l)
		return l
	}
	short, err := Generate(Options{ClusterName: "prod", Validity: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		leaf        Leaf
		certificate string
		at          time.Time
		want        []string
	}{
		"good": {apiServer(), good, now, nil},
		"order and duplicate": {
			with(func(l *Leaf) { slices.Reverse(l.Hosts); l.Hosts = append(l.Hosts, "CP1") }), good, now,
			nil,
		},
		"new name": {
			with(func(l *Leaf) { l.Hosts = append(l.Hosts, "10.0.0.13", "z") }), good, now,
			[]string{"apiserver certificate lacks z, 10.0.0.13"},
		},
		"old name": {
			with(func(l *Leaf) { l.Hosts = l.Hosts[:len(l.Hosts)-1] }), good, now,
			[]string{"apiserver certificate also names api.example.com"},
		},
		"other authority": {
			with(func(l *Leaf) { l.Authority = Etcd }), good, now,
			[]string{`apiserver certificate is signed by another authority ("kubernetes") than this cluster's "etcd-ca"`},
		},
		"other cluster": {
			apiServer(), issue(t, *short, apiServer(), now, 0).Certificate, now,
			[]string{`apiserver certificate is signed by another authority ("kubernetes") than this cluster's "kubernetes"`},
		},
		"other subject": {
			with(func(l *Leaf) { l.CommonName, l.Organizations = "x", []string{"g"} }), good, now,
			[]string{
				`apiserver certificate is for "kube-apiserver" instead of "x"`,
				`apiserver certificate has the groups [] instead of ["g"]`,
			},
		},
		"client too": {
			with(func(l *Leaf) { l.Usage = Server | Client }), good, now,
			[]string{"apiserver certificate may not be used by a client"},
		},
		"client instead": {
			with(func(l *Leaf) { l.Usage = Client }), good, now,
			[]string{"apiserver certificate may be used by a server too", "apiserver certificate may not be used by a client"},
		},
		"expired": {apiServer(), good, now.AddDate(0, 0, 368), []string{"apiserver certificate expired 3 days ago"}},
		"just now": {
			apiServer(), good, now.AddDate(0, 0, 365).Add(time.Second),
			[]string{"apiserver certificate expired 0 minutes ago"},
		},
		"too early": {
			apiServer(), good, now.Add(-65 * time.Minute),
			[]string{"apiserver certificate is not valid yet: it begins in 1 hour"},
		},
		"empty": {apiServer(), " \n", now, []string{"apiserver certificate is empty"}},
		"garbage": {
			apiServer(), "garbage", now,
			[]string{"apiserver certificate cannot be read: no PEM certificate in it: it is no PEM text"},
		},
		"broken": {
			apiServer(), encodePEM("CERTIFICATE", []byte("x")), now,
			[]string{"apiserver certificate cannot be read: the PEM certificate cannot be decoded"},
		},
		"a key": {
			apiServer(), b.CA.PrivateKey, now,
			[]string{"apiserver certificate cannot be read: no PEM certificate in it: it holds a private key"},
		},
		"an authority": {
			Leaf{Name: "x", Authority: Kubernetes, CommonName: "kubernetes", Usage: Server, Hosts: []string{"kubernetes"}},
			b.CA.Certificate, now,
			[]string{"x certificate may not be used by a server", "x certificate may sign other certificates"},
		},
		"impossible leaf": {
			with(func(l *Leaf) { l.Hosts = []string{"a b"} }), good, now,
			[]string{`apiserver certificate cannot exist: "a b" is neither a host name nor an IP address`},
		},
		"unknown authority": {
			with(func(l *Leaf) { l.Authority = "x" }), good, now,
			[]string{`apiserver certificate cannot be checked: unknown authority "x"`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := b.Check(test.leaf, test.certificate, test.at); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
	t.Run("expired authority", func(t *testing.T) {
		want := []string{
			`apiserver certificate is signed by authority "kubernetes", which expired 2 hours ago`,
			"apiserver certificate expired 2 hours ago",
		}
		if got := short.Check(apiServer(), issue(t, *short, apiServer(), now, 0).Certificate,
			now.Add(3*time.Hour)); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("unreadable authority", func(t *testing.T) {
		broken := b
		broken.CA = KeyPair{}
		want := []string{"apiserver certificate cannot be checked: authority kubernetes: certificate is missing"}
		if got := broken.Check(apiServer(), good, now); !slices.Equal(got, want) {
			t.Errorf("got %q", got)
		}
	})
}

// TestCheckNeedsNoKey: drift is detected without the keys.
func TestCheckNeedsNoKey(t *testing.T) {
	b := bundle(t)
	certificate := issue(t, b, FrontProxyClient(), now, 0).Certificate
	b.FrontProxyCA.PrivateKey = ""
	if got := b.Check(FrontProxyClient(), certificate, now); got != nil {
		t.Errorf("got %q", got)
	}
}

func TestCheckAcceptsOlderGroups(t *testing.T) {
	tests := map[string]struct {
		leaf Leaf
		fits bool
	}{
		"kubelet client": {APIServerKubeletClient(), false}, // it has no group here
		"admin":          {User("kubernetes-admin", clusterAdmins), true},
		"etcd client":    {APIServerEtcdClient(), true},
		"health check":   {EtcdHealthcheckClient(), true},
		"scheduler":      {User("system:kube-scheduler"), false},
		"front proxy":    {FrontProxyClient(), false},
		"node":           {User("system:node:cp1", "system:nodes"), false},
	}
	b := bundle(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			older := test.leaf
			older.Organizations = []string{"system:masters"}
			got := b.Check(test.leaf, issue(t, b, older, now, 0).Certificate, now)
			if (got == nil) != test.fits {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second:  "0 minutes",
		time.Minute:       "1 minute",
		119 * time.Minute: "1 hour",
		23 * time.Hour:    "23 hours",
		47 * time.Hour:    "1 day",
		900 * time.Hour:   "37 days",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}
