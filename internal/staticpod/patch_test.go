package staticpod

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// patchedPod is a pod with everything that patches may touch.
func patchedPod(t testing.TB, patch string) Pod {
	t.Helper()
	parsed, err := ParsePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	root := int64(0)
	return Pod{
		Name: "kube-scheduler", Image: "r.example/kube-scheduler:v1.36.3", Program: "kube-scheduler",
		Flags: map[string]string{"v": "2", "leader-elect": "true"}, Environment: map[string]string{"A": "b"},
		Inputs:   map[string]string{"/etc/kubernetes/scheduler.conf": strings.Repeat("0", 64)},
		Mounts:   []Mount{{Name: "kubeconfig", Path: "/etc/kubernetes/scheduler.conf", ReadOnly: true, Type: "File"}},
		Requests: map[string]string{"cpu": "100m"}, User: &root, Grace: 30,
		Liveness: &Probe{
			Host: "127.0.0.1", Path: "/livez", Port: 10259, Scheme: "HTTPS", Delay: 10, Period: 10, Timeout: 15, Failures: 8,
		},
		Annotations: map[string]string{"terraform-provider-kube/version": "1.36.3"}, Patch: parsed,
	}
}

// TestPatch: a manifest has its patch, and is read back as the pod that it was made from.
func TestPatch(t *testing.T) {
	for name, test := range map[string]struct{ patch, want string }{
		"annotation": {"metadata: {annotations: {team/a: 'x: y'}}", "team/a: 'x: y'"},
		"label":      {"metadata:\n  labels:\n    team: a\n", "\n    team: a\n"},
		"limits": {
			"spec: {containers: [{name: kube-scheduler, resources: {limits: {memory: 1Gi}, requests: {cpu: 200m}}}]}",
			"memory: 1Gi",
		},
		"a request as the limit": {
			"spec: {containers: [{name: kube-scheduler, resources: {limits: {memory: 1Gi}, requests: {memory: 1Gi}}}]}",
			"memory: 1Gi",
		},
		"probe": {
			"spec: {containers: [{name: kube-scheduler, livenessProbe: {failureThreshold: 20}}]}", "failureThreshold: 20",
		},
		"volume": {
			"spec: {containers: [{name: kube-scheduler, volumeMounts: [{name: tmp, mountPath: /tmp}]}], " +
				"volumes: [{name: tmp, emptyDir: {}}]}", "emptyDir: {}",
		},
		"variable": {
			"spec: {containers: [{name: kube-scheduler, env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]}]}",
			"fieldPath: status.podIP",
		},
		"no capabilities": {
			"spec: {containers: [{name: kube-scheduler, securityContext: {allowPrivilegeEscalation: false, " +
				"capabilities: {drop: [ALL]}}}]}", "allowPrivilegeEscalation: false",
		},
		"grace period":  {"spec: {terminationGracePeriodSeconds: 60}", "terminationGracePeriodSeconds: 60"},
		"whole pod":     {"apiVersion: v1\nkind: Pod\nspec: {dnsPolicy: Default}", "dnsPolicy: Default"},
		"another class": {"spec: {priorityClassName: system-cluster-critical, priority: 2000000000}", "priority: 2000000000"},
	} {
		p := patchedPod(t, test.patch)
		if err := p.ValidatePatch(string(p.Patch)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text := string(p.Manifest())
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, p) || !strings.Contains(text, test.want) {
			t.Errorf("%s: %v, read back as\n%+v, want\n%+v, from\n%s", name, err, got, p, text)
		}
		if again, err := ParsePatch(p.Patch.YAML()); err != nil || again != p.Patch {
			t.Errorf("%s: %q is read as %q, %v", name, p.Patch.YAML(), again, err)
		}
		if p.Note()[Self] == patchedPod(t, "").Note()[Self] {
			t.Errorf("%s: a container does not note whether it has the patch", name)
		}
		edited := strings.Replace(text, "--v=2", "--v=5", 1)
		if got, err := Parse(edited); err != nil || got.Flags["v"] != "5" || got.Patch != p.Patch {
			t.Errorf("%s: an edited flag is read as %+v, %v", name, got, err)
		}
	}
}

// TestPatchRefused: a patch does not change what the pod runs, and what lets the provider know of its container.
func TestPatchRefused(t *testing.T) {
	const container = "spec: {containers: [{name: kube-scheduler, "
	for name, patch := range map[string]string{
		"name":            "metadata: {name: other}",
		"namespace":       "metadata: {namespace: default}",
		"network":         "spec: {hostNetwork: false}",
		"image":           container + "image: r.example/other:v1}]}",
		"command":         container + "command: [sh]}]}",
		"arguments":       container + "args: [a]}]}",
		"variable":        container + "env: [{name: A, value: c}]}]}",
		"note":            container + "env: [{name: " + noteVariable + ", value: c}]}]}",
		"mount":           container + "volumeMounts: [{mountPath: /etc/kubernetes/scheduler.conf, name: other}]}]}",
		"volume":          "spec: {volumes: [{name: kubeconfig, hostPath: {path: /etc/shadow}}]}",
		"another program": "spec: {containers: [{name: sidecar, image: a:1}]}",
		"own annotation":  "metadata: {annotations: {terraform-provider-kube/version: '1'}}",
		"label":           "metadata: {labels: {component: other}}",
		"user of the pod": "spec: {securityContext: {runAsUser: 2000}}",
		"group":           "spec: {securityContext: {runAsGroup: 2000}}",
		"user":            container + "securityContext: {runAsUser: 2000}}]}",
		"not root":        container + "securityContext: {runAsNonRoot: true}}]}",
	} {
		if err := patchedPod(t, "").ValidatePatch(patch); !errors.Is(err, errPatched) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, patch := range map[string]string{
		"request above the limit": container + "resources: {limits: {cpu: 50m}}}]}",
		"both of the patch":       container + "resources: {limits: {memory: 1Gi}, requests: {memory: 2Gi}}}]}",
	} {
		if err := patchedPod(t, "").ValidatePatch(patch); !errors.Is(err, errRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, patch := range map[string]string{
		"mount":            container + "volumeMounts: [{mountPath: /tmp, name: tmp}]}]}",
		"mount beforehand": "spec: {initContainers: [{name: a, image: a:1, volumeMounts: [{mountPath: /tmp, name: tmp}]}]}",
	} {
		if err := patchedPod(t, "").ValidatePatch(patch); !errors.Is(err, ErrNoVolume) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"no YAML": "a: [", "no pod": "replicas: 2", "a directive": "spec: {volumes: [{$patch: delete, name: kubeconfig}]}",
		"a text": "hello", "too long": "metadata: {annotations: {a: " + strings.Repeat("x", longestPatch) + "}}",
	} {
		if p, err := ParsePatch(text); err == nil {
			t.Errorf("%s is read as %s", name, p)
		}
	}
	if p, err := ParsePatch(" \n"); err != nil || p != "" || p.YAML() != "" {
		t.Errorf("nothing is read as %q, %v", p, err)
	}
}

// FuzzUnpatched: whatever annotations say, what is read back is a pod, or an error.
func FuzzUnpatched(f *testing.F) {
	f.Add(string(patchedPod(f, "metadata: {labels: {a: b}}").Manifest()))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err == nil && p.ValidatePatch(string(p.Patch)) == nil {
			if again, err := Parse(string(p.Manifest())); err != nil || !reflect.DeepEqual(again.Flags, p.Flags) {
				t.Errorf("%+v is read back as %+v, %v", p, again, err)
			}
		}
	})
}
