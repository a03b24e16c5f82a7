package host

import (
	"errors"
	"os"
	"reflect"
	"testing"
)

func TestSourceValidate(t *testing.T) {
	file := t.TempDir() + "/file"
	must(t, os.WriteFile(file, nil, 0o600))
	with := func(url, checksum string) Source {
		return Source{URLs: map[string]URLTemplate{"etcd": {URL: url, Checksum: checksum}}}
	}
	const good = "https://mirror.example:8443/{version}/{arch}/{name}"
	for name, test := range map[string]struct {
		source Source
		field  string // "": valid
	}{
		"default":             {DefaultSource(), ""},
		"directory":           {Source{Directory: t.TempDir()}, ""},
		"mirror":              {with(good, good+".sha256"), ""},
		"nothing":             {Source{}, "urls"},
		"no such directory":   {Source{Directory: file + "/none"}, "directory"},
		"file":                {Source{Directory: file}, "directory"},
		"http":                {with("http://mirror/{name}", good), "urls.etcd.url"},
		"http checksum":       {with(good, "http://mirror/{name}"), "urls.etcd.checksum"},
		"no checksum":         {with(good, ""), "urls.etcd.checksum"},
		"unknown placeholder": {with("https://mirror/{os}", good), "urls.etcd.url"},
		"unbalanced":          {with("https://mirror/{name", good), "urls.etcd.url"},
		"white space":         {with("https://mirror/a b", good), "urls.etcd.url"},
		"credentials":         {with("https://user:password@mirror/x", good), "urls.etcd.url"},
		"no host":             {with("https:///x", good), "urls.etcd.url"},
	} {
		err := test.source.Validate()
		var setting *ConfigError
		switch {
		case test.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.field != "" && (!errors.As(err, &setting) || setting.Field != test.field):
			t.Errorf("%s: %v, want a ConfigError of %s", name, err, test.field)
		}
	}
}

func TestDownloads(t *testing.T) {
	etcd, etcdctl := Artifact{"etcd", "3.6.16", "etcd"}, Artifact{"etcd", "3.6.16", "etcdctl"}
	apiserver := Artifact{"kubernetes", "1.36.3", "kube-apiserver"}
	got, err := DefaultSource().downloads([]Artifact{etcd, apiserver, etcdctl}, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	const (
		release = "https://github.com/etcd-io/etcd/releases/download/v3.6.16/"
		binary  = "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-apiserver"
	)
	want := []download{
		{
			url: release + "etcd-v3.6.16-linux-arm64.tar.gz", checksum: release + "SHA256SUMS", archive: true,
			artifacts: []Artifact{etcd, etcdctl},
		},
		{url: binary, checksum: binary + ".sha256", artifacts: []Artifact{apiserver}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := DefaultSource().downloads([]Artifact{{"cilium", "1.0.0", "cilium"}}, "amd64"); !errors.Is(err,
		ErrNoArtifact) {
		t.Errorf("unknown product: %v, want ErrNoArtifact", err)
	}
}

func TestPublishedDigest(t *testing.T) {
	for text, want := range map[string]string{
		"abc":                     "abc",
		"abc\n":                   "abc",
		"abc  etcd\n":             "abc",
		"abc *etcd\n":             "abc",
		"000  other\nabc  etcd\n": "abc",
		"000  other\n":            "",
		"":                        "",
	} {
		if got := publishedDigest(text, "etcd"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
