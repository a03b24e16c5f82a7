package kubelet

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// stages returns bundles at the stages of a rotation of the Kubernetes CA, from 0 to 3.
func stages(t testing.TB) []*pki.Bundle {
	t.Helper()
	b, err := pki.Generate(pki.Options{ClusterName: "test", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	all := []*pki.Bundle{b}
	for n := 1; n <= 3; n++ {
		if b, err = b.Rotate(map[pki.Part]int{pki.KubernetesPart: n}, pki.Next{}, pki.Options{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// reported returns what a machine reports whose kubelet trusts these authorities, and has a certificate of a bundle.
func reported(t testing.TB, authorities string, by *pki.Bundle, user string, groups ...string) string {
	t.Helper()
	pair, err := by.Issue(pki.User(user, groups...), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString
	return "credentials\tover\t" + encoded([]byte(authorities)) + "\t" + encoded([]byte(pair.Certificate)) + "\n"
}

// TestCredentials: in each stage, the kubelet needs what the next one requires.
func TestCredentials(t *testing.T) {
	at := stages(t)
	other := stages(t)[0]
	roots := func(n int) string { return at[n].Roots(pki.Kubernetes) }
	const trust, certificate = "does not trust", "its certificate is not of"
	for name, c := range map[string]struct {
		authorities string
		by          *pki.Bundle
		stage       int
		want        []string
	}{
		"no rotation":                   {roots(0), at[0], 0, nil},
		"the first stage":               {roots(0), at[0], 1, []string{trust}},
		"after the first stage":         {roots(1), at[0], 1, nil},
		"the second stage":              {roots(1), at[1], 2, []string{certificate}},
		"after the second stage":        {roots(2), at[2], 2, nil},
		"the third stage":               {roots(2), at[2], 3, []string{trust}},
		"after the third stage":         {roots(3), at[3], 3, nil},
		"nothing before the last stage": {roots(0), at[0], 3, []string{trust, certificate}},
		"another CA in addition":        {roots(0) + other.Roots(pki.Kubernetes), at[0], 0, nil},
		"another cluster":               {other.Roots(pki.Kubernetes), other, 1, nil},
		"a certificate of another":      {roots(0), other, 1, nil},
	} {
		got := ReadCredentials(reported(t, c.authorities, c.by, "system:node:cp1", "system:nodes")).Problems(at[c.stage])
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	begun := strings.Replace(reported(t, roots(0), at[0], "system:node:cp1", "system:nodes"), "over", "begun", 1)
	if got := ReadCredentials(begun).Problems(at[0]); len(got) != 1 || !strings.Contains(got[0], "was cut off") {
		t.Errorf("a change that was cut off: %q", got)
	}
	elsewhere := *at[2]
	elsewhere.CA.PrivateKey = ""
	held := ReadCredentials(reported(t, roots(1), at[1], "system:node:cp1", "system:nodes")).Problems(&elsewhere)
	if len(held) > 0 {
		t.Errorf("the key of the CA is held elsewhere: %q", held)
	}
	var none *Credentials
	if problems := none.Problems(at[1]); len(problems) > 0 {
		t.Errorf("no kubelet: %q", problems)
	}
}

// TestWithdrawnAuthority: a CA whose introduction was taken back is trusted no longer, also if the machine missed that
// and the next one is introduced or has been adopted by now.
func TestWithdrawnAuthority(t *testing.T) {
	at := stages(t)
	rotated := func(b *pki.Bundle, to int) *pki.Bundle {
		b, err := b.Rotate(map[pki.Part]int{pki.KubernetesPart: to}, pki.Next{}, pki.Options{Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	back := rotated(at[1], 0)
	again := rotated(back, 1)
	ended := rotated(rotated(again, 2), 3)
	added := stages(t)[0].Roots(pki.Kubernetes)
	c := ReadCredentials(reported(t, at[1].Roots(pki.Kubernetes)+added, at[0], "system:node:cp1", "system:nodes"))
	for name, b := range map[string]*pki.Bundle{"taken back": back, "begun again": again, "ended": ended} {
		if problems := c.Problems(b); len(problems) == 0 || !strings.Contains(problems[0], "does not trust") {
			t.Errorf("%s: %q", name, problems)
		}
		if got := c.wanted(b); got != b.Anchors(pki.Kubernetes)+added {
			t.Errorf("%s: wanted\n%s", name, got)
		}
	}
	clean := ReadCredentials(reported(t, back.Roots(pki.Kubernetes), at[0], "system:node:cp1", "system:nodes"))
	if problems := clean.Problems(back); len(problems) > 0 {
		t.Errorf("after the change: %q", problems)
	}
	other := ReadCredentials(reported(t, back.Withdrawn(pki.Kubernetes), at[2], "system:node:cp1", "system:nodes"))
	if problems := other.Problems(back); len(problems) > 0 {
		t.Errorf("a kubelet that knows nothing but what was withdrawn is one of the cluster: %q", problems)
	}
}

func TestReadCredentials(t *testing.T) {
	b := stages(t)[0]
	roots := b.Roots(pki.Kubernetes)
	whole := reported(t, roots, b, "system:node:cp1", "system:nodes")
	for name, output := range map[string]string{
		"nothing":              "",
		"no certificate":       "credentials\tover\t\t\n",
		"no base64":            "credentials\tover\t$\t$\n",
		"no trust":             "credentials\tover\t\t" + strings.Split(whole, "\t")[3],
		"trust alone":          strings.Join(strings.Split(whole, "\t")[:3], "\t") + "\t\n",
		"another user":         reported(t, roots, b, "admin", "system:nodes"),
		"a group in addition":  reported(t, roots, b, "system:node:cp1", "system:nodes", "system:masters"),
		"no name of a node":    reported(t, roots, b, "system:node:$(reboot)", "system:nodes"),
		"a line with one more": strings.TrimSpace(whole) + "\tx\n",
	} {
		if c := ReadCredentials(output); c != nil {
			t.Errorf("%s is read as node %s", name, c.Node)
		}
	}
}

// TestCredentialsChange: the key is in one file, and what others have added stays.
func TestCredentialsChange(t *testing.T) {
	at := stages(t)
	added := stages(t)[0].Roots(pki.Kubernetes)
	c := ReadCredentials(reported(t, at[1].Roots(pki.Kubernetes)+added, at[1], "system:node:cp1", "system:nodes"))
	now := time.Now()
	change, err := c.Change(at[2], now)
	if err != nil || len(change.Files) != 1 {
		t.Fatalf("%+v, %v", change, err)
	}
	file := change.Files[0]
	wanted := "/var/lib/kubelet/pki/kubelet-client-" + now.UTC().Format("2006-01-02-15-04-05") + ".pem"
	if file.Path != wanted || file.Mode != 0o600 ||
		!strings.Contains(string(file.Content), "PRIVATE KEY") || change.Vars["certificate"] != file.Path {
		t.Errorf("%s %s, %q", file.Path, file.Mode, change.Vars["certificate"])
	}
	const end = "-----END CERTIFICATE-----\n"
	certificates := file.Content[:bytes.LastIndex(file.Content, []byte(end))+len(end)] // as the script prints them
	next := ReadCredentials("credentials\tover\t" + change.Vars["authorities"] + "\t" +
		base64.StdEncoding.EncodeToString(certificates) + "\n")
	if problems := next.Problems(at[2]); len(problems) > 0 || len(next.Authorities) != 3 {
		t.Errorf("after the change: %q, %d authorities", problems, len(next.Authorities))
	}
	change, err = next.Change(at[3], now)
	if err != nil || len(change.Files) != 0 || change.Vars["certificate"] != "" {
		t.Errorf("only the trust changes: %+v, %v", change, err)
	}
	trusted, err := base64.StdEncoding.DecodeString(change.Vars["authorities"])
	if err != nil || len(pki.CertificatesIn(string(trusted))) != 2 {
		t.Errorf("the last stage does not drop the previous CA: %d", len(pki.CertificatesIn(string(trusted))))
	}
	if _, err := c.Change(at[2], now.Add(-time.Hour)); err == nil {
		t.Error("a certificate from before its CA was issued")
	}
}

func FuzzReadCredentials(f *testing.F) {
	b := stages(f)[0]
	f.Add(reported(f, b.Roots(pki.Kubernetes), b, "system:node:cp1", "system:nodes"))
	f.Fuzz(func(t *testing.T, output string) {
		if c := ReadCredentials(output); c != nil && (!nodeForm.MatchString(c.Node) || len(c.Client) == 0) {
			t.Errorf("%q is read as %+v", output, c)
		}
	})
}
