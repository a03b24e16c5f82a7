package pod

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// kubeadmPods are what kubeadm 1.36 writes for 10.0.0.11, with --event-ttl=2h of the API server.
func kubeadmPods(t *testing.T) map[string]string {
	t.Helper()
	pods := map[string]string{}
	for _, name := range release.Components() {
		text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		pods[name] = string(text)
	}
	return pods
}

// adopted is the configuration of the replica of kubeadmPods.
func adopted(t *testing.T) component.Replica {
	s := componenttest.Stacked(t)
	s.Runtime, s.Version, s.Address = component.StaticPod, "1.36.3", "10.0.0.11"
	bundle := *s.Bundle
	bundle.ClusterName = "kubernetes"
	s.EtcdURLs, s.Bundle = []string{"https://10.0.0.11:2379"}, &bundle
	s.ServiceCIDRs, s.PodCIDRs = []string{"10.96.0.0/12"}, []string{"10.244.0.0/16"}
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {"event-ttl": "2h"}}
	s.ClusterDomain, s.Port, s.AllAddresses, s.DetectionTime = "", 0, false, 0
	return s
}

func inheritedWords(t *testing.T, s component.Replica, change func(name, text string) string) string {
	t.Helper()
	var words []string
	for _, c := range component.Of(s) {
		text := change(c.Name, kubeadmPods(t)[c.Name])
		have, err := ParseInherited(text)
		if err != nil {
			t.Fatal(err)
		}
		words = append(words, InheritedDifferences(have, c)...)
	}
	return strings.Join(words, "\n")
}

// TestInheritedDifferences: what is configured is a difference, and what the provider adds by itself is none.
func TestInheritedDifferences(t *testing.T) {
	as := func(_, text string) string { return text }
	replace := func(of, before, after string) func(string, string) string {
		return func(name, text string) string {
			if name != of {
				return text
			}
			return strings.Replace(text, before, after, 1)
		}
	}
	for name, c := range map[string]struct {
		edit   func(*component.Replica)
		change func(name, text string) string
		want   string
	}{
		"as it is": {func(*component.Replica) {}, as, ""},
		"a flag": {
			func(s *component.Replica) { s.ExtraArgs[release.Scheduler] = map[string]string{"v": "1"} }, as,
			`flag --v is missing, wanted "1"`,
		},
		"a lost flag": {
			func(s *component.Replica) { s.ExtraArgs = nil }, as, `flag --event-ttl is "2h", wanted not to be set`,
		},
		"a flag that the provider sets otherwise": {
			func(*component.Replica) {}, replace(release.APIServer, "--secure-port=6443", "--secure-port=7443"),
			`flag --secure-port is "7443", wanted "6443"`,
		},
		"registrations that are turned on": {
			func(*component.Replica) {}, replace(release.APIServer, "    - --secure-port=6443\n",
				"    - --secure-port=6443\n    - --endpoint-reconciler-type=lease\n"), "",
		},
		"registrations that are turned off": {
			func(*component.Replica) {}, replace(release.APIServer, "    - --secure-port=6443\n",
				"    - --secure-port=6443\n    - --endpoint-reconciler-type=none\n"),
			`flag --endpoint-reconciler-type is "none", wanted not to be set`,
		},
		"no pod network": {
			func(s *component.Replica) { s.PodCIDRs = nil }, as,
			"flag --allocate-node-cidrs is \"true\", wanted not to be set\n" +
				"flag --cluster-cidr is \"10.244.0.0/16\", wanted not to be set\n" +
				"flag --service-cluster-ip-range is \"10.96.0.0/12\", wanted not to be set",
		},
		"another etcd": {
			func(s *component.Replica) { s.EtcdURLs = []string{"https://10.0.0.12:2379"} }, as,
			`flag --etcd-servers is "https://127.0.0.1:2379", wanted "https://10.0.0.12:2379"`,
		},
		"a version": {
			func(s *component.Replica) { s.Version = "1.36.4" }, as,
			"the image is \"registry.k8s.io/kube-apiserver:v1.36.3\", wanted \"registry.k8s.io/kube-apiserver:v1.36.4\"\n" +
				"the image is \"registry.k8s.io/kube-controller-manager:v1.36.3\", wanted " +
				"\"registry.k8s.io/kube-controller-manager:v1.36.4\"\n" +
				"the image is \"registry.k8s.io/kube-scheduler:v1.36.3\", wanted \"registry.k8s.io/kube-scheduler:v1.36.4\"",
		},
		"metrics": {
			func(s *component.Replica) { s.MetricsAddress = "0.0.0.0" }, as,
			"flag --bind-address is \"127.0.0.1\", wanted \"0.0.0.0\"\nflag --bind-address is \"127.0.0.1\", wanted \"0.0.0.0\"",
		},
		"verified kubelets": {
			func(s *component.Replica) { s.VerifyKubelets = true }, as,
			`flag --kubelet-certificate-authority is missing, wanted "/etc/kubernetes/pki/ca.crt"`,
		},
		"a plugin": {
			func(*component.Replica) {}, replace(release.APIServer, "=NodeRestriction", "=NodeRestriction,AlwaysPullImages"),
			`flag --enable-admission-plugins is "NodeRestriction,AlwaysPullImages", wanted ` +
				`"NodeRestriction,DenyServiceExternalIPs"`,
		},
		"a plugin that is configured": {
			func(s *component.Replica) {
				s.ExtraArgs[release.APIServer][component.AdmissionFlag] = "NodeRestriction,AlwaysPullImages"
			}, replace(release.APIServer, "=NodeRestriction", "=NodeRestriction,AlwaysPullImages"), "",
		},
		"a plugin that is configured and does not run": {
			func(s *component.Replica) {
				s.ExtraArgs[release.APIServer][component.AdmissionFlag] = "NodeRestriction,AlwaysPullImages"
			}, as, `flag --enable-admission-plugins is "NodeRestriction", wanted ` +
				`"DenyServiceExternalIPs,NodeRestriction,AlwaysPullImages"`,
		},
		"members in another order": {
			func(s *component.Replica) {
				s.EtcdURLs = []string{"https://10.0.0.9:2379", "https://10.0.0.10:2379"}
			},
			replace(release.APIServer, "=https://127.0.0.1:2379", "=https://10.0.0.9:2379,https://10.0.0.10:2379"), "",
		},
		"a policy of audit at the provider's path": {
			func(s *component.Replica) { s.Audit.Policy = "kind: Policy" },
			replace(release.APIServer, "    - --secure-port=6443\n",
				"    - --secure-port=6443\n    - --audit-policy-file="+component.AuditPolicyPath+"\n"), "",
		},
		"a CA whose key is elsewhere": {
			func(s *component.Replica) { s.Bundle.CA.PrivateKey = "" }, func(_, text string) string {
				return strings.NewReplacer(
					"-signing-cert-file=/etc/kubernetes/pki/ca.crt", "-signing-cert-file=",
					"-signing-key-file=/etc/kubernetes/pki/ca.key", "-signing-key-file=",
				).Replace(text)
			}, "",
		},
		"gates that are given one by one": {
			func(s *component.Replica) { s.ExtraArgs[release.APIServer][release.FeatureGates] = "A=true,B=false" },
			replace(release.APIServer, "    - --secure-port=6443\n",
				"    - --secure-port=6443\n    - --feature-gates=A=true\n    - --feature-gates=B=false\n"), "",
		},
		"variables": {
			func(s *component.Replica) {
				s.Environment = map[string]map[string]string{release.Scheduler: {"GOGC": "90"}}
			}, as, "the variables of its environment are other ones",
		},
		"limits": {
			func(s *component.Replica) {
				s.Limits = map[string]component.Limits{release.Scheduler: {MemoryMax: "1G"}}
			}, as, "it has no limits",
		},
	} {
		s := adopted(t)
		c.edit(&s)
		if got := inheritedWords(t, s, c.change); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	audited := adopted(t)
	audited.Audit.MaxAgeDays = 7
	if got := inheritedWords(t, audited, as); !strings.Contains(got, "flag --audit-log-path is missing") {
		t.Errorf("a configured audit log: %q", got)
	}
}

// TestInheritedAdds: a person reads what the next restart brings.
func TestInheritedAdds(t *testing.T) {
	c := component.Of(adopted(t))[0]
	have, err := ParseInherited(kubeadmPods(t)[c.Name])
	if err != nil {
		t.Fatal(err)
	}
	added := strings.Join(Added(have, c), "\n") + "\n"
	for _, line := range []string{
		"kube-apiserver --profiling=false\n", "kube-apiserver --shutdown-delay-duration=5s\n",
		"kube-apiserver --bind-address=10.0.0.11\n", "kube-apiserver --client-ca-file=/etc/kubernetes/pki/client-ca.crt\n",
	} {
		if !strings.Contains(added, line) {
			t.Errorf("%q is not in\n%s", line, added)
		}
	}
	if strings.Contains(added, "event-ttl") {
		t.Errorf("an unchanged flag is in\n%s", added)
	}
}

// TestReturnDifferences: a manifest that names files that were not maintained meanwhile is not used again.
func TestReturnDifferences(t *testing.T) {
	c := component.Component{Name: release.APIServer, Flags: map[string]string{
		"client-ca-file": component.ClientCA, "etcd-cafile": component.EtcdClientCA,
		"encryption-provider-config": component.EncryptionConfigPath, "audit-policy-file": "/etc/own.yaml",
	}}
	have := staticpod.Inherited{Name: release.APIServer, Flags: map[string]string{
		"client-ca-file": "/etc/kubernetes/pki/ca.crt", "etcd-cafile": "/etc/kubernetes/pki/etcd/ca.crt",
		"encryption-provider-config": component.EncryptionConfigPath, "audit-policy-file": "/etc/own.yaml",
	}}
	if words := ReturnDifferences(have, c); len(words) > 0 {
		t.Errorf("files that are maintained: %q", words)
	}
	have.Flags["encryption-provider-config"] = "/etc/kubernetes/enc/config.yaml"
	if words := InheritedDifferences(have, c); len(words) > 0 {
		t.Errorf("while it runs: %q", words)
	}
	words := ReturnDifferences(have, c)
	if len(words) != 1 || !strings.Contains(words[0], `is "/etc/kubernetes/enc/config.yaml"`) {
		t.Errorf("a file that is not maintained: %q", words)
	}
}

// TestInheritedTwice: of a value that is given twice, only the last one counts.
func TestInheritedTwice(t *testing.T) {
	text := kubeadmPods(t)[release.APIServer]
	for name, c := range map[string]struct{ flags, other string }{
		"a number": {"    - --v=1\n    - --v=2\n", "the flag --v, which is given more than once"},
		"claims":   {"    - --oidc-required-claim=a=b\n    - --oidc-required-claim=c=d\n", ""},
		"plugins":  {"    - --enable-admission-plugins=AlwaysPullImages\n", ""},
	} {
		const at = "    - --secure-port=6443\n"
		p, err := ParseInherited(strings.Replace(text, at, at+c.flags, 1))
		if lost := strings.Join(Lost(p), "; "); err != nil || lost != c.other {
			t.Errorf("%s: lost %q, %v, want %q", name, lost, err, c.other)
		}
		if name == "plugins" && p.Flags[component.AdmissionFlag] != "NodeRestriction,AlwaysPullImages" {
			t.Errorf("plugins are %q", p.Flags[component.AdmissionFlag])
		}
	}
}

func TestReadInheritedState(t *testing.T) {
	text := kubeadmPods(t)[release.Scheduler]
	output := "pod\tanswers\tkube-scheduler\npod\tcontainer\tkube-scheduler\t" + strings.Repeat("ab", 32) +
		"\tRUNNING\t42\t\nreplica\tkube-scheduler\tplaced\nreplica\tkube-scheduler\tinherited\t" +
		base64.StdEncoding.EncodeToString([]byte(text)) + "\n"
	s := Read(output, release.Scheduler)
	if s.Inherited == nil || s.Unit.Active != "active" || s.Unit.NeedReload ||
		s.Program != component.Artifact("1.36.3", release.Scheduler).Path() {
		t.Errorf("%+v", s)
	}
	if s = Read(output, release.APIServer); s.Inherited != nil {
		t.Errorf("another component: %+v", s)
	}
	for _, bad := range []string{
		"-", base64.StdEncoding.EncodeToString([]byte("kind: Pod")),
		base64.StdEncoding.EncodeToString([]byte(kubeadmPods(t)[release.APIServer])),
	} {
		if s = Read("replica\tkube-scheduler\tinherited\t"+bad+"\n", release.Scheduler); s.Inherited != nil {
			t.Errorf("%.20q: %+v", bad, s.Inherited)
		}
	}
}
