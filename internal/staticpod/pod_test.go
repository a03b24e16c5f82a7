package staticpod

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

var digest = strings.Repeat("ab", 32)

// example uses everything that a Pod has.
func example() Pod {
	user := int64(1000)
	return Pod{
		Name: "etcd", Image: "registry.k8s.io/etcd:3.6.5-0", Program: "etcd",
		Flags:       map[string]string{"name": "m1", "data-dir": "/var/lib/etcd", "repeated": "b\na", "text": `a "b": c`},
		Environment: map[string]string{"GOGC": "50"},
		Inputs:      map[string]string{"/etc/kubernetes/pki/etcd/ca.crt": digest},
		Mounts: []Mount{
			{Name: "data", Path: "/var/lib/etcd", Type: "Directory"},
			{Name: "guard", Path: "/etc/etcd/allowed", At: "/guard", ReadOnly: true, Type: "Directory"},
		},
		Requests: map[string]string{"cpu": "100m", "memory": "100Mi"}, Limits: map[string]string{"memory": "4Gi"},
		Liveness:    probeOf("/livez", 10, 8),
		Readiness:   probeOf("/readyz", 1, 3),
		Startup:     probeOf("/readyz", 10, 24),
		User:        &user,
		Grace:       60,
		Annotations: map[string]string{"example.com/a": "b"},
	}
}

func probeOf(path string, period, failures int) *Probe {
	return &Probe{
		Host: "127.0.0.1", Path: path, Port: 2381, Scheme: "HTTP", Delay: 10, Period: period, Timeout: 15, Failures: failures,
	}
}

func TestManifest(t *testing.T) {
	got := example().Manifest()
	const golden = "testdata/etcd.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(got) != string(want) {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestParse(t *testing.T) {
	for _, p := range []Pod{example(), {Name: "a", Image: "b", Program: "c"}} {
		got, err := Parse(string(p.Manifest()))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%v\n%+v\n%+v", err, got, p)
		}
	}
	text := string(example().Manifest())
	edit := func(before, after string) string {
		if !strings.Contains(text, before) {
			t.Fatalf("no %q in\n%s", before, text)
		}
		return strings.Replace(text, before, after, 1)
	}
	// Comments, and the order of flags, are no differences.
	for _, same := range []string{
		"# by hand\n" + text,
		edit("    - --data-dir=/var/lib/etcd\n    - --name=m1\n", "    - --name=m1\n    - --data-dir=/var/lib/etcd\n"),
	} {
		if got, err := Parse(same); err != nil || len(Differences(got, example())) > 0 {
			t.Errorf("%v: %q in\n%s", err, Differences(got, example()), same)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"", "it has not the form"},
		{edit("hostNetwork: true", "hostNetwork: false"), "it has not the form"},
		{edit("hostNetwork: true", "hostNetwork: true\n  hostPID: true"), `unknown field "hostPID"`},
		{edit("namespace: kube-system", "namespace: default"), "it has not the form"},
		{edit("    - --name=m1\n", "    - --name=m1\n    - name\n"), `"name" is not a flag with a value`},
		{edit("RuntimeDefault", "Unconfined"), "it has not the form"},
		{edit("component: etcd", "component: other"), "it has not the form"},
		{strings.Repeat(" ", longestManifest+1), "its size is"},
	} {
		if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q of\n%s", err, c.want, c.text)
		}
	}
}

func TestDifferences(t *testing.T) {
	other := example()
	other.Image = "example.com/etcd:1"
	other.Flags = map[string]string{"name": "m2", "data-dir": "/var/lib/etcd", "repeated": "b\na"}
	other.Environment = nil
	other.Mounts = slices.Clone(other.Mounts)
	other.Mounts[1].ReadOnly = false
	other.Liveness, other.User, other.Grace = nil, nil, 0
	want := []string{
		`the image is "example.com/etcd:1", wanted "registry.k8s.io/etcd:3.6.5-0"`,
		`flag --name is "m2", wanted "m1"`,
		`flag --text is missing, wanted "a \"b\": c"`,
		`variable "GOGC" is missing, wanted "50"`,
		`mount "guard" is "/etc/etcd/allowed at /guard, writable, Directory", wanted ` +
			`"/etc/etcd/allowed at /guard, read-only, Directory"`,
		"the liveness probe is another one", "the user is another one", "the termination grace period is 0 s, wanted 60 s",
	}
	if got := Differences(other, example()); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := Differences(example(), example()); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// TestNote: the note of a container tells apart other inputs and another pod.
func TestNote(t *testing.T) {
	p := example()
	note := p.Note()
	if len(note) != 2 || note["/etc/kubernetes/pki/etcd/ca.crt"] != digest || len(note[Self]) != 64 {
		t.Errorf("%q", note)
	}
	other := example()
	other.Inputs = map[string]string{"/etc/kubernetes/pki/etcd/ca.crt": strings.Repeat("cd", 32)}
	if again := other.Note(); again[Self] != note[Self] {
		t.Error("other inputs are another pod")
	}
	other.Image = "other"
	if again := other.Note(); again[Self] == note[Self] {
		t.Error("another image is the same pod")
	}
	text := digest + ":" + Self + " " + digest + ":/a  " + digest + ":b x:/c " + digest + ":/$(d)"
	if got := ReadNote(text); len(got) != 2 || got["/a"] != digest || got[Self] != digest {
		t.Errorf("%q", got)
	}
}

// FuzzParse verifies that what is accepted is rendered as what is accepted as the same pod.
func FuzzParse(f *testing.F) {
	f.Add(string(example().Manifest()))
	f.Add(string(Pod{Name: "a", Image: "b", Program: "c"}.Manifest()))
	f.Add("apiVersion: v1\nkind: Pod\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(string(p.Manifest()))
		if err != nil || len(Differences(again, p)) > 0 {
			t.Errorf("%q is read as %+v, and again as %+v, %v", text, p, again, err)
		}
	})
}
