package staticpod

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubeadmManifest returns what kubeadm 1.36 writes (kubeadm init phase control-plane all, etcd local).
func kubeadmManifest(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kubeadm", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lostOf describes what a pod of the provider has neither itself nor by the patch, given the paths that one mounts.
func lostOf(p Inherited, known ...string) []string {
	words := slices.Clone(p.Other)
	for _, m := range p.Foreign(known...) {
		words = append(words, fmt.Sprintf("the volume %s (%s at %s)", m.Name, m.Path, m.at()))
	}
	return words
}

func TestInheritedOfKubeadm(t *testing.T) {
	for name, known := range map[string][]string{
		"etcd":                    {"/etc/kubernetes/pki/etcd", "/var/lib/etcd"},
		"kube-apiserver":          {"/etc/kubernetes/pki"},
		"kube-controller-manager": {"/etc/kubernetes/pki", "/etc/kubernetes/controller-manager.conf"},
		"kube-scheduler":          {"/etc/kubernetes/scheduler.conf"},
	} {
		text := kubeadmManifest(t, name)
		p, err := ParseInherited(text)
		if err != nil {
			t.Fatal(err)
		}
		if p.Name != name || p.Program != name || !strings.HasPrefix(p.Image, "registry.k8s.io/"+name+":") {
			t.Errorf("%s is read as %+v", name, p)
		}
		if lost := lostOf(p, append(known, Trusted...)...); len(lost) > 0 || Own(text) {
			t.Errorf("%s: lost %q, own %v", name, lost, Own(text))
		}
		if len(lostOf(p)) == 0 {
			t.Errorf("%s: no volume is lost without paths", name)
		}
	}
	p, _ := ParseInherited(kubeadmManifest(t, "kube-apiserver"))
	if p.Flags["event-ttl"] != "2h" || p.Flags["etcd-servers"] != "https://127.0.0.1:2379" || len(p.Mounts) != 5 {
		t.Errorf("flags %v, mounts %v", p.Flags, p.Mounts)
	}
}

// TestInheritedCarriesTheRest: what is in a manifest that a pod of the provider does not have goes into a patch, and
// what a patch may not have is named.
func TestInheritedCarriesTheRest(t *testing.T) {
	inContainer := func(fields string) string {
		return `{"spec":{"containers":[{"name":"kube-apiserver",` + fields + `}]}}`
	}
	for name, c := range map[string]struct{ before, after, patch, other string }{
		"label": {
			"tier: control-plane", "tier: control-plane\n    team: a", `{"metadata":{"labels":{"team":"a"}}}`, "",
		},
		"label of kubeadm": {"tier: control-plane", "tier: a", "", "label tier"},
		"annotation": {
			"  annotations:", "  annotations:\n    team/a: b", `{"metadata":{"annotations":{"team/a":"b"}}}`, "",
		},
		"field of the pod": {
			"  hostNetwork: true", "  hostNetwork: true\n  dnsPolicy: Default", `{"spec":{"dnsPolicy":"Default"}}`, "",
		},
		"field that no pod has": {
			"  hostNetwork: true", "  hostNetwork: true\n  dns: Default", "",
			`the patch is not a part of a pod: error unmarshaling JSON: while decoding JSON: json: unknown field "dns"`,
		},
		"no host network": {"  hostNetwork: true", "  hostNetwork: false", "", "spec.hostNetwork, which is not true"},
		"of the container": {
			"    name: kube-apiserver\n", "    name: kube-apiserver\n    tty: true\n", inContainer(`"tty":true`), "",
		},
		"arguments": {
			"    name: kube-apiserver\n", "    name: kube-apiserver\n    args: [a]\n", "", "args of the container",
		},
		"requests": {"cpu: 250m", "cpu: 500m", inContainer(`"resources":{"requests":{"cpu":"500m"}}`), ""},
		"limits": {
			"    resources:", "    resources:\n      limits: {cpu: 2}", inContainer(`"resources":{"limits":{"cpu":2}}`), "",
		},
		"argument": {
			"    - --event-ttl=2h", "    - --event-ttl", "",
			`the argument "--event-ttl", which is not a flag with a value`,
		},
		"volume": {
			"  volumes:", "  volumes:\n  - name: x\n    emptyDir: {}", `{"spec":{"volumes":[{"emptyDir":{},"name":"x"}]}}`, "",
		},
		"volume of an init container": {
			"  volumes:", "  initContainers: [{name: p, image: a, volumeMounts: [{name: x, mountPath: /x}]}]\n  volumes:\n" +
				"  - name: x\n    hostPath: {path: /srv/x}",
			`{"spec":{"initContainers":[{"image":"a","name":"p","volumeMounts":[{"mountPath":"/x","name":"x"}]}],` +
				`"volumes":[{"hostPath":{"path":"/srv/x"},"name":"x"}]}}`, "",
		},
		"volume of both": {
			"  volumes:", "  initContainers: [{name: p, image: a, volumeMounts: [{name: ca-certs, mountPath: /x}]}]\n  volumes:",
			`{"spec":{"initContainers":[{"image":"a","name":"p","volumeMounts":[{"mountPath":"/x","name":"ca-certs"}]}]}}`,
			`the volume "ca-certs", which an init container mounts too`,
		},
		"part of a volume": {
			"      name: ca-certs\n", "      name: ca-certs\n      subPath: a\n", "", `the volume "ca-certs" with subPath`,
		},
		"another place": {
			"mountPath: /etc/ca-certificates", "mountPath: /etc/certs", "",
			"the volume etc-ca-certificates (/etc/ca-certificates at /etc/certs)",
		},
		"another directory": {
			"      path: /etc/ca-certificates", "      path: /srv/audit", "",
			"the volume etc-ca-certificates (/srv/audit at /etc/ca-certificates)",
		},
		"security context": {
			"      type: RuntimeDefault", "      type: Unconfined",
			`{"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}}`, "",
		},
		"user of the pod": {
			"  securityContext:", "  securityContext:\n    runAsUser: 2000",
			`{"spec":{"securityContext":{"runAsUser":2000,"seccompProfile":{"type":"RuntimeDefault"}}}}`,
			"a user other than root",
		},
		"user of the container": {
			"    imagePullPolicy", "    securityContext: {runAsNonRoot: true}\n    imagePullPolicy",
			inContainer(`"securityContext":{"runAsNonRoot":true}`), "a user other than root",
		},
		"group": {
			"    imagePullPolicy", "    securityContext: {runAsUser: 0, runAsGroup: 2000}\n    imagePullPolicy",
			inContainer(`"securityContext":{"runAsGroup":2000,"runAsUser":0}`), "a group other than root",
		},
		"root without capabilities": {
			"    imagePullPolicy", "    securityContext: {runAsUser: 0, runAsNonRoot: false, " +
				"capabilities: {drop: [ALL]}}\n    imagePullPolicy",
			inContainer(`"securityContext":{"capabilities":{"drop":["ALL"]},"runAsNonRoot":false,"runAsUser":0}`), "",
		},
		"variable": {
			"    imagePullPolicy", "    env: [{name: A, valueFrom: {fieldRef: {fieldPath: a}}}]\n    imagePullPolicy",
			inContainer(`"env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"a"}}}]`), "",
		},
	} {
		text := kubeadmManifest(t, "kube-apiserver")
		changed := strings.Replace(text, c.before, c.after, 1)
		p, err := ParseInherited(changed)
		if err != nil || text == changed {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lost := lostOf(p, append([]string{"/etc/kubernetes/pki"}, Trusted...)...)
		want, err := ParsePatch(c.patch)
		if err != nil || p.Patch != want || strings.Join(lost, "; ") != c.other {
			t.Errorf("%s: patch %s, lost %q, want %s and %q, %v", name, p.Patch, lost, want, c.other, err)
		}
	}
	variable := strings.Replace(kubeadmManifest(t, "etcd"), "    imagePullPolicy",
		"    env: [{name: GOGC, value: \"90\"}]\n    imagePullPolicy", 1)
	if p, err := ParseInherited(variable); err != nil || p.Environment["GOGC"] != "90" || len(p.Other) > 0 {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{
		"", "a: [", "kind: Pod", "kind: Pod\nspec: {containers: [{}]}", strings.Repeat(" ", 1<<20),
	} {
		if p, err := ParseInherited(text); err == nil {
			t.Errorf("%.20q is read as %+v", text, p)
		}
	}
}

// TestOnMachine: a path in a container is one of the machine by the innermost mount.
func TestOnMachine(t *testing.T) {
	p := Inherited{Mounts: []Mount{
		{Path: "/etc/kubernetes/pki"},
		{Path: "/srv/enc", At: "/etc/kubernetes/enc"},
		{Path: "/srv/all", At: "/etc/kubernetes/"},
	}}
	for at, want := range map[string]string{
		"/etc/kubernetes/pki/ca.crt": "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/enc/a/b": "/srv/enc/a/b",
		"/etc/kubernetes/enc": "/srv/enc", "/etc/kubernetes/encryption": "/srv/all/encryption",
		"/etc/kubernetes/enc/../pki/x": "/etc/kubernetes/pki/x", "/etc/x": "", "x": "",
	} {
		if got := p.OnMachine(at); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
}

func TestFlagsDiffer(t *testing.T) {
	same := func(flag, have, want string) bool { return flag == "ca" && have == "/a" && want == "/b" }
	for name, c := range map[string]struct {
		have, want map[string]string
		words      string
	}{
		"equal":       {map[string]string{"a": "1"}, map[string]string{"a": "1"}, ""},
		"standard":    {nil, map[string]string{"usual": "1"}, ""},
		"another one": {nil, map[string]string{"usual": "2"}, `flag --usual is missing, wanted "2"`},
		"configured":  {nil, map[string]string{"a": "1"}, `flag --a is missing, wanted "1"`},
		"removed":     {map[string]string{"usual": "1"}, nil, `flag --usual is "1", wanted not to be set`},
		"changed": {
			map[string]string{"usual": "0"}, map[string]string{"usual": "1"}, `flag --usual is "0", wanted "1"`,
		},
		"the same file": {map[string]string{"ca": "/a"}, map[string]string{"ca": "/b"}, ""},
		"another file":  {map[string]string{"ca": "/c"}, map[string]string{"ca": "/b"}, `flag --ca is "/c", wanted "/b"`},
	} {
		words := FlagsDiffer(c.have, c.want, map[string]string{"usual": "1"}, same)
		if strings.Join(words, "\n") != c.words {
			t.Errorf("%s: %q, want %q", name, words, c.words)
		}
	}
}

// TestPatchWith: a volume that is mounted twice is defined once, and mounted twice.
func TestPatchWith(t *testing.T) {
	p := Inherited{Name: "etcd"}
	patch := p.PatchWith([]Mount{
		{Name: "extra", Path: "/srv/extra"}, {Name: "extra", Path: "/srv/extra", At: "/extra", ReadOnly: true},
	})
	var pod struct {
		Spec struct {
			Containers []struct{ VolumeMounts []struct{ MountPath string } }
			Volumes    []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(patch), &pod); err != nil {
		t.Fatal(err)
	}
	if v := pod.Spec.Volumes; len(v) != 1 || v[0].Name != "extra" {
		t.Errorf("the volumes are %v", v)
	}
	mounts := pod.Spec.Containers[0].VolumeMounts
	if len(mounts) != 2 || mounts[0].MountPath != "/srv/extra" || mounts[1].MountPath != "/extra" {
		t.Errorf("the mounts are %v", mounts)
	}
}

// FuzzParseInherited: nothing in a manifest crashes the parser, and what it reads has a name, an image and a program.
func FuzzParseInherited(f *testing.F) {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		f.Add(kubeadmManifest(f, name))
	}
	f.Add("kind: Pod\nmetadata: {name: 1, labels: [a]}\nspec: {containers: [{command: [1], env: 3, volumeMounts: [a]}]}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseInherited(text)
		if err == nil && (p.Name == "" || p.Image == "" || p.Program == "") {
			t.Errorf("%q is read as %+v", text, p)
		}
		_ = p.PatchWith(p.Foreign("/etc"))
	})
}
