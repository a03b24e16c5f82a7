package machine

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

const goodRecord = `{"cluster_id": "0123456789abcdef0123456789abcdef", "cluster_name": "prod", "name": "cp1",
"runtime": "static_pod", "port": 6443,
"etcd": ["https://10.0.0.1:2379"], "endpoint": {"address": "10.0.0.10"},
"issued": {"/etc/kubernetes/pki/apiserver.crt": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
"generations": {"etcd": 3},
"configured": {"extra_args": {"kube-apiserver": {"v": "2"}}, "extra_sans": ["api.example"],
"pod_cidrs": null, "etcd": null, "early_renewal": 1}}`

func TestReadRecord(t *testing.T) {
	r, err := ReadRecord(goodRecord)
	if err != nil || r.Name != "cp1" || r.Configured.ExtraArgs[release.APIServer]["v"] != "2" {
		t.Fatalf("%+v, %v", r, err)
	}
	for what, change := range map[string][2]string{
		"cluster id":            {"0123456789abcdef0123456789abcdef", "$(id)"},
		"cluster name":          {`"prod"`, `"prod;id"`},
		"name":                  {`"cp1"`, `"cp1'; id; '"`},
		"runtime":               {`"static_pod"`, `"docker\u001b"`},
		"port":                  {"6443", "70000"},
		"etcd URL":              {"https://10.0.0.1:2379", "https://10.0.0.1:2379/x;id"},
		"path":                  {"/etc/kubernetes/pki/apiserver.crt", "/etc/$(id)"},
		"digest":                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaa"},
		"part":                  {`{"etcd": 3}`, `{"x": 3}`},
		"generation":            {`{"etcd": 3}`, `{"etcd": -3}`},
		"component":             {`"kube-apiserver"`, `"kubelet"`},
		"flag":                  {`"v"`, `"v --x"`},
		"value of a flag":       {`"2"`, `"2\u001b[31m"`},
		"name in a certificate": {"api.example", `api\n\u202e`},
		"early renewal":         {`"early_renewal": 1`, `"early_renewal": -1`},
		"endpoint":              {`"10.0.0.10"`, `"` + strings.Repeat("x", longestRaw) + `"`},
		"no JSON":               {"{", "\x1b"},
	} {
		text := strings.Replace(goodRecord, change[0], change[1], 1)
		if r, err := ReadRecord(text); err == nil {
			t.Errorf("%s: read as %+v", what, r)
		} else if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %q", what, err)
		}
	}
}

func FuzzReadRecord(f *testing.F) {
	f.Add(goodRecord)
	f.Add(strings.Replace(goodRecord, "cp1", "$(id)", 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadRecord(text)
		if err == nil && text != "" && (!clusterIDForm.MatchString(r.ClusterID) || r.Name != "" &&
			component.ValidateName(r.Name) != nil || r.Port < 0 || r.Port > 65535) {
			t.Errorf("%q is read as %+v", text, r)
		}
	})
}

func FuzzReadRollbackRecord(f *testing.F) {
	f.Add(`{"version":"1.36.1","port":6443,` +
		`"definitions":{"kube-apiserver":"x","kube-controller-manager":"x","kube-scheduler":"x"},` +
		`"settings":{"/etc/shadow":"x"}}`)
	f.Add(`{"version":"../x","port":6443,` +
		`"definitions":{"kube-apiserver":"x","kube-controller-manager":"x","kube-scheduler":"x"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		b := ReadRollbackRecord(text)
		if b == nil {
			return
		}
		if b.Port < 1 || b.Port > 65535 || b.Version != "" && !release.IsVersion(b.Version) {
			t.Errorf("%q is read as %+v", text, b)
		}
		for file := range b.Settings {
			if !strings.HasPrefix(file, component.KubernetesDir+"/") {
				t.Errorf("%q would be written", file)
			}
		}
	})
}

func TestVersionIn(t *testing.T) {
	for executable, want := range map[string]string{
		"/opt/kube/kubernetes/1.36.3/kube-apiserver":      "1.36.3",
		"/opt/kube/kubernetes/1.36.0-rc.1/kube-apiserver": "1.36.0-rc.1",
		"/opt/kube/kubernetes/$(id)/kube-apiserver":       "",
		"/opt/kube/kubernetes/1.36.3/kube-scheduler":      "",
		"kube-apiserver": "",
		"":               "",
	} {
		if got := versionIn(executable, release.APIServer); got != want {
			t.Errorf("%q: %q, want %q", executable, got, want)
		}
	}
}

func TestPrintedBy(t *testing.T) {
	const output = SectionHeading + "/a\none\n" + SectionHeading + "/etc/shadow\nsecret\n" + SectionHeading + "b\ntwo\n"
	got := Sections(output, []string{"/a", "b"})
	if len(got) != 2 || got["/a"] != "one" || got["b"] != "two\n" {
		t.Errorf("%q", got)
	}
}
