package kubelet

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
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

// own is the API server of the kubelet's machine.
const own = "https://10.0.0.11:7443"

// using is what a machine reports of the API server that its kubelet uses.
func using(server string) string { return "credentials-server\t" + encode(server) + "\n" }

// TestServerOfTheKubelet: a kubelet that uses the API server of its machine follows a change of the port.
func TestServerOfTheKubelet(t *testing.T) {
	b := stages(t)[0]
	mine := reported(t, b.Roots(pki.Kubernetes), b, "system:node:cp1", "system:nodes")
	other := stages(t)[0]
	for name, c := range map[string]struct {
		output, own string
		moves       bool
	}{
		"as it should be":           {mine + using(own), own, false},
		"the former port":           {mine + using("https://10.0.0.11:6443"), own, true},
		"no port":                   {mine + using("https://10.0.0.11"), own, true},
		"by IPv6":                   {mine + using("https://[fd00::11]:6443"), "https://[fd00::11]:7443", true},
		"by IPv6, as it should be":  {mine + using("https://[fd00:0::11]:7443"), "https://[fd00::11]:7443", false},
		"the endpoint":              {mine + using("https://10.0.0.100:6443"), own, false},
		"a balancer on the machine": {mine + using("https://127.0.0.1:8443"), own, false},
		"a name":                    {mine + using("https://api.example.com:6443"), own, false},
		"without TLS":               {mine + using("http://10.0.0.11:6443"), own, false},
		"what is no address":        {mine + using("$(reboot)"), own, false},
		"no answer":                 {mine, own, false},
		"one of another cluster": {
			reported(t, other.Roots(pki.Kubernetes), other, "system:node:cp1", "system:nodes") +
				using("https://10.0.0.11:6443"), own, false,
		},
		"the server alone": {using("https://10.0.0.11:6443"), own, false},
	} {
		kubelet := ReadCredentials(c.output)
		text := kubelet.ServerProblem(b, c.own)
		if (text != "") != c.moves || c.moves && !strings.HasSuffix(text, ", wanted "+c.own) {
			t.Errorf("%s: %q", name, text)
		}
		if kubelet == nil {
			continue
		}
		change, err := kubelet.Change(b, c.own, time.Now())
		if want := map[bool]string{true: c.own}[c.moves]; err != nil || change.Vars["server"] != want {
			t.Errorf("%s: gets %q, %v", name, change.Vars["server"], err)
		}
	}
}

// TestKubeconfigOfTheKubelet runs the scripts of machines on a kubeconfig in kubeadm's form.
func TestKubeconfigOfTheKubelet(t *testing.T) {
	at := stages(t)
	pair, err := at[0].Issue(pki.User("system:node:cp1", "system:nodes"), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, current := filepath.Join(dir, "kubelet.conf"), filepath.Join(dir, "pki/kubelet-client-current.pem")
	text := "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: " +
		encode(at[0].Roots(pki.Kubernetes)) + "\n    server: https://10.0.0.11:6443\n  name: default-cluster\n" +
		"users:\n- name: default-auth\n  user:\n" +
		"    client-certificate: " + current + "\n    client-key: " + current + "\n"
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, text)
	write(filepath.Join(dir, "pki/first.pem"), pair.Certificate+pair.PrivateKey)
	if err := os.Symlink("first.pem", current); err != nil {
		t.Fatal(err)
	}
	run := func(script host.Script) string {
		t.Helper()
		local := strings.NewReplacer("/etc/kubernetes", dir, "/var/lib/kubelet", dir).Replace(string(script))
		out, err := exec.Command("sh", "-euc", "systemctl() { :; }\n"+local).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	for _, server := range []string{"https://10.0.0.11:6443", own, own} {
		c := ReadCredentials(run(CredentialsReport()))
		if c == nil || c.Server != server {
			t.Fatalf("%+v, want %s", c, server)
		}
		change, err := c.Change(at[0], own, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		run(host.Assignments(change.Vars) + change.Script)
		text = strings.Replace(text, "https://10.0.0.11:6443", own, 1)
		if now, err := os.ReadFile(config); err != nil || string(now) != text {
			t.Errorf("%s, %v, want\n%s", now, err, text)
		}
	}
	write(config, text+"- cluster:\n    server: https://10.0.0.12:6443\n")
	if c := ReadCredentials(run(CredentialsReport())); c == nil || c.Server != "" {
		t.Errorf("of two servers: %+v", c)
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
	change, err := c.Change(at[2], own, now)
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
	change, err = next.Change(at[3], own, now)
	if err != nil || len(change.Files) != 0 || change.Vars["certificate"] != "" {
		t.Errorf("only the trust changes: %+v, %v", change, err)
	}
	trusted, err := base64.StdEncoding.DecodeString(change.Vars["authorities"])
	if err != nil || len(pki.CertificatesIn(string(trusted))) != 2 {
		t.Errorf("the last stage does not drop the previous CA: %d", len(pki.CertificatesIn(string(trusted))))
	}
	if _, err := c.Change(at[2], own, now.Add(-time.Hour)); err == nil {
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
