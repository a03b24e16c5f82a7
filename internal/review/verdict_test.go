package review

import (
	"strings"
	"testing"
	"time"
)

// TestRecordedPlans judges the other recorded plans, and what is no plan at all.
func TestRecordedPlans(t *testing.T) {
	for _, name := range plans {
		quiet := name == "nothing" || name == "dead"
		if v := judged(t, document(t, name), wide, noon); v.Automatic || (v.Class == ClassNone) != quiet {
			t.Errorf("%s: %+v", name, v)
		}
	}
	less, err := Reduce(readPlan(t, "", renewing(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty": "", "reduced": string(less), "not JSON": "{", "a list": "[]", "no version": "{}",
	} {
		if v := Judge(Read("", []byte(text)), wide, noon); v.Class != ClassOther || v.Automatic || len(v.Reasons) == 0 {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestLyingDrift has drift of which a machine wrote parts. It counts as a repair at most.
func TestLyingDrift(t *testing.T) {
	const renewal = "etcd/server certificate expires on 2027-11-22: it is due for renewal"
	for _, text := range []string{
		`cp3: /etc/keepalived/kube.conf: found "` + renewal + `"`,
		`cp3: /etc/x: found "advert", wanted "cp3: ` + renewal,
		"cp3: etcd.service is inactive\ncp3: " + renewal,
		"cp3: " + renewal + "\n",
		"cp3: " + renewal + " ",
		"cp9: " + renewal,
		"\u202ecp3: " + renewal,
		renewal,
		"",
	} {
		d := renewing(t)
		repaired(t, d, member3, "cp3: "+renewal, text)
		if v := judged(t, d, wide, noon); v.Class != ClassRepair {
			t.Errorf("%q: %+v", text, v)
		}
		planned(member3, "extra_args", map[string]any{"x": text})(t, d)
		if v := judged(t, d, wide, noon); v.Class != ClassOther || v.Automatic {
			t.Errorf("%q beside a changed argument: %+v", text, v)
		}
	}
}

// TestRestartingRenewal: what would restart a server is a repair, which the policy may forbid.
func TestRestartingRenewal(t *testing.T) {
	const due = " certificate expires on 2027-11-22: it is due for renewal"
	for _, text := range []string{
		"cp1 (10.89.0.11): kube-konnectivity-server" + due,
		"cp1 (fd00::11): /etc/kubernetes/kube-konnectivity-server.conf: system:konnectivity-server" + due,
		"cp1 (10.89.0.11): /etc/kubernetes/kube-vip-endpoint.conf: kube-vip:cp1" + due,
	} {
		d := renewing(t)
		repaired(t, d, replica1, "cp1 (10.89.0.11): apiserver"+due, text)
		if v := judged(t, d, Policy{Renewal: wide.Renewal}, noon); v.Class != ClassRepair || v.Automatic {
			t.Errorf("%q: %+v", text, v)
		}
	}
}

// TestKubeconfigTimes judges when a kubeconfig is renewed. It lives for a year.
func TestKubeconfigTimes(t *testing.T) {
	third := (8760*time.Hour + 5*time.Minute) / 3
	for name, test := range map[string]struct {
		left  time.Duration
		early any
		class Class
	}{
		"its time":             {third, nil, ClassRenewal},
		"a minute before":      {third + time.Minute, nil, ClassOther},
		"expired":              {-time.Hour, nil, ClassRenewal},
		"early":                {720 * time.Hour, "720h", ClassRenewal},
		"too early":            {721 * time.Hour, "720h", ClassOther},
		"one second too early": {720*time.Hour + time.Second, "720h", ClassOther},
	} {
		d := document(t, "nothing")
		attributes(changeOf(t, d, kubeconfig)["before"])["early_renewal"] = test.early
		issuing(t, d, noon.Add(test.left))
		if v := judged(t, d, wide, noon); v.Class != test.class {
			t.Errorf("%s: %+v", name, v)
		}
	}
	for name, value := range map[string]any{"early_renewal": "soon", "expires_at": "soon", "validity": "long"} {
		d := document(t, "nothing")
		issuing(t, d, noon)
		change := changeOf(t, d, kubeconfig)
		attributes(change["before"])[name] = value
		if name != "expires_at" {
			attributes(change["after"])[name] = value
		}
		if v := judged(t, d, wide, noon); v.Class != ClassOther || !strings.Contains(v.String(), "lifetime cannot be read") {
			t.Errorf("an unreadable %s: %+v", name, v)
		}
	}
	for _, name := range []string{"server", "groups", "sealed_for", "pki"} {
		d := document(t, "nothing")
		issuing(t, d, noon)
		planned(kubeconfig, name, "other")(t, d)
		if v := judged(t, d, wide, noon); v.Class != ClassOther || !strings.Contains(v.String(), code(name)+" changes") {
			t.Errorf("a changed %s: %+v", name, v)
		}
	}
}
