package nodebootstrap_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
)

// What kubeadm has written for a control plane with external etcd, in both versions of its API, and for kubelets.
const (
	clusterV1beta4 = `# of kubeadm
apiServer:
  certSANs: [api.example.com]
  extraArgs:
  - name: event-ttl
    value: 2h
apiVersion: kubeadm.k8s.io/v1beta4
caCertificateValidityPeriod: 87600h0m0s
certificatesDir: /srv/pki
clusterName: kubernetes
controlPlaneEndpoint: 10.0.0.100:6443
encryptionAlgorithm: RSA-2048
etcd:
  external:
    caFile: /etc/kubernetes/pki/etcd/ca.crt
    endpoints: ["https://10.0.0.21:2379"]
imageRepository: registry.example.com
kind: ClusterConfiguration
kubernetesVersion: v1.33.1
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16
  serviceSubnet: 10.96.0.0/12
`
	clusterV1beta3 = `apiVersion: kubeadm.k8s.io/v1beta3
kind: ClusterConfiguration
apiServer:
  extraArgs: {event-ttl: 2h}
  timeoutForControlPlane: 4m0s
etcd: {local: {dataDir: /srv/etcd}}
kubernetesVersion: v1.30.1
networking: {serviceSubnet: 10.96.0.0/12}
`
	kubelets = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
clusterDNS: [169.254.20.10]
clusterDomain: cluster.local
failSwapOn: false
imageMaximumGCAge: 0s
maxPods: 250
rotateCertificates: true
syncFrequency: 0s
`
)

const (
	clusterLabel = "ConfigMap kube-system/kubeadm-config"
	kubeletLabel = "ConfigMap kube-system/kubelet-config"
)

// heldBy returns a ConfigMap of the API with a text.
func heldBy(key string, text any) map[string]any {
	return map[string]any{"metadata": map[string]any{"resourceVersion": "7"}, "data": map[string]any{key: text}}
}

func adopting(t *testing.T) nodebootstrap.Settings {
	t.Helper()
	s := settings(t)
	s.Adopt = true
	return s
}

func fieldsIn(t *testing.T, text string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// TestAdoptedKeeps: what the provider sets is set, in the version of the text, and everything else stays. Only what is
// set is a difference, and after the apply there is none.
func TestAdoptedKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		label, key, text string
		change           func(s *nodebootstrap.Settings)
		set              map[string]any // top-level fields that change
		differences      []string
	}{
		"v1beta4": {
			label: clusterLabel, key: "ClusterConfiguration", text: clusterV1beta4,
			set: map[string]any{"kubernetesVersion": "v1.34.4", "clusterName": "lab"},
			differences: []string{
				"clusterName is kubernetes instead of lab", "kubernetesVersion is v1.33.1 instead of v1.34.4",
			},
		},
		"v1beta3": {
			label: clusterLabel, key: "ClusterConfiguration", text: clusterV1beta3,
			set: map[string]any{
				"kubernetesVersion": "v1.34.4", "clusterName": "lab", "controlPlaneEndpoint": "10.0.0.100:6443",
				"networking": map[string]any{
					"serviceSubnet": "10.96.0.0/12", "podSubnet": "10.244.0.0/16", "dnsDomain": "cluster.local",
				},
			},
			differences: []string{
				"clusterName is missing", "controlPlaneEndpoint is missing", "kubernetesVersion is v1.30.1 instead of v1.34.4",
				"networking.dnsDomain is missing", "networking.podSubnet is missing",
			},
		},
		"no range of Pods": {
			label: clusterLabel, key: "ClusterConfiguration", text: clusterV1beta4,
			change: func(s *nodebootstrap.Settings) { s.PodCIDRs, s.Version = nil, "1.33.1" },
			set:    map[string]any{"clusterName": "lab"}, differences: []string{"clusterName is kubernetes instead of lab"},
		},
		"kubelets": {label: kubeletLabel, key: "kubelet", text: kubelets},
		"kubelets with arguments": {
			label: kubeletLabel, key: "kubelet", text: kubelets,
			change: func(s *nodebootstrap.Settings) {
				s.ClusterDNS, s.KubeletConfig = []string{"10.96.0.53"}, "maxPods: 110\n"
			},
			set:         map[string]any{"clusterDNS": []any{"10.96.0.53"}, "maxPods": 110.0},
			differences: []string{`clusterDNS is ["169.254.20.10"] instead of ["10.96.0.53"]`, "maxPods is 250 instead of 110"},
		},
		"kubelets that do not rotate": {
			label: kubeletLabel, key: "kubelet", text: strings.Replace(kubelets, "rotateCertificates: true\n", "", 1),
			set: map[string]any{"rotateCertificates": true}, differences: []string{"rotateCertificates is missing"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := adopting(t)
			if test.change != nil {
				test.change(&s)
			}
			current := heldBy(test.key, test.text)
			kept, err := s.Adopted(find(t, objects(t, s), test.label), current)
			if err != nil {
				t.Fatal(err)
			}
			want := fieldsIn(t, test.text)
			maps.Copy(want, test.set)
			if got := dataOf(t, kept, test.key); !reflect.DeepEqual(got, want) {
				t.Errorf("fields\n%v\nwant\n%v", got, want)
			}
			for i, difference := range test.differences {
				test.differences[i] = test.label + ": " + test.key + ": " + difference
			}
			if got := kept.Differences(current); !slices.Equal(got, test.differences) {
				t.Errorf("differences %q, want %q", got, test.differences)
			}
			metadata, _ := kept.Manifest()["metadata"].(map[string]any)
			if metadata["resourceVersion"] != "7" {
				t.Errorf("what is applied does not name the version that it was merged with: %v", metadata)
			}
			again, err := s.Adopted(kept, kept.Manifest())
			if err != nil || len(again.Differences(kept.Manifest())) > 0 || !reflect.DeepEqual(again, kept) {
				t.Errorf("after the apply: %q, %v", again.Differences(kept.Manifest()), err)
			}
		})
	}
}

// TestAdoptedAsItIs: a text that says all that is wanted is not written anew, and large numbers stay.
func TestAdoptedAsItIs(t *testing.T) {
	s := adopting(t)
	s.Version = "1.33.1"
	text := strings.Replace(clusterV1beta4, "clusterName: kubernetes", "clusterName: lab", 1)
	kept, err := s.Adopted(find(t, objects(t, s), clusterLabel), heldBy("ClusterConfiguration", text))
	if err != nil || !reflect.DeepEqual(kept.Fields["data"], map[string]any{"ClusterConfiguration": text}) {
		t.Errorf("the text is written anew: %v, %v", kept.Fields, err)
	}
	const large = "registryBurst: 9007199254740993\n"
	s.KubeletConfig = "maxPods: 110"
	kept, err = s.Adopted(find(t, objects(t, s), kubeletLabel), heldBy("kubelet", kubelets+large))
	data, _ := kept.Fields["data"].(map[string]any)
	if written, _ := data["kubelet"].(string); err != nil || !strings.Contains(written, large) {
		t.Errorf("a number has changed: %s, %v", written, err)
	}
}

// TestAdoptedRefused: a text that cannot be kept is an error that names the object, and shows nothing as it is.
func TestAdoptedRefused(t *testing.T) {
	s := adopting(t)
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":         {"\tx: [", "not a mapping in YAML"},
		"a list":          {"- a", "not a mapping in YAML"},
		"a text":          {"x", "not a mapping in YAML"},
		"a field twice":   {clusterV1beta4 + "etcd: {}\n", "not a mapping in YAML"},
		"two documents":   {clusterV1beta4 + "---\nkind: InitConfiguration\n", "more than one document"},
		"after the end":   {clusterV1beta4 + "...\nkind: InitConfiguration\n", "more than one document"},
		"unknown version": {strings.Replace(clusterV1beta4, "v1beta4", "v1beta9", 1), "v1beta9"},
		"another kind":    {strings.Replace(clusterV1beta4, "kind: Cluster", "kind: Init", 1), "InitConfiguration"},
		"no kind":         {"etcd: {}\n", "it is not a ClusterConfiguration"},
		"hostile": {
			"kind: \"\\e[2J\\nCause: none\"\napiVersion: " + strings.Repeat("x", 5000) + "\n",
			"it is not a ClusterConfiguration",
		},
		"aliases": {
			"a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n" +
				"c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n" +
				"e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n" +
				"g: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n",
			"not a mapping in YAML",
		},
	} {
		o := find(t, objects(t, s), clusterLabel)
		_, err := s.Adopted(o, heldBy("ClusterConfiguration", test.text))
		if err == nil || !strings.HasPrefix(err.Error(), clusterLabel+": ClusterConfiguration cannot be kept: ") ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
			continue
		}
		if strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 1000 {
			t.Errorf("%s: shown as it is: %q", name, err)
		}
	}
}

// TestAdoptedFormerVersion: a text that kubeadm of the wanted version does not read any more is refused.
func TestAdoptedFormerVersion(t *testing.T) {
	for version, want := range map[string]bool{"1.36.9": true, "1.37.0": false, "1.40.1": false} {
		s := adopting(t)
		o := find(t, objects(t, s), clusterLabel)
		s.Version = version
		for text, kept := range map[string]bool{clusterV1beta3: want, clusterV1beta4: true} {
			if _, err := s.Adopted(o, heldBy("ClusterConfiguration", text)); (err == nil) != kept {
				t.Errorf("%s: %v for\n%s", version, err, text)
			}
		}
	}
}

// TestAdoptedNothingToKeep: without adopt, and without a text, the provider's own objects are wanted. So are all other
// objects.
func TestAdoptedNothingToKeep(t *testing.T) {
	without, with := settings(t), adopting(t)
	for _, o := range objects(t, without) {
		got, err := without.Adopted(o, heldBy("ClusterConfiguration", clusterV1beta4))
		if err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("without adopt: %s is wanted as %v, %v", o.Label(), got, err)
		}
		for name, current := range map[string]map[string]any{
			"no object": nil, "no data": {"data": nil}, "no text": heldBy("ClusterConfiguration", " \n"),
			"another key": heldBy("mine", clusterV1beta4), "no string": heldBy("ClusterConfiguration", 1),
		} {
			got, err := with.Adopted(o, current)
			if err != nil || !reflect.DeepEqual(got, o) {
				t.Errorf("%s: %s is wanted as %v, %v", name, o.Label(), got, err)
			}
		}
	}
	info := find(t, objects(t, with), "ConfigMap kube-public/cluster-info")
	if got, err := with.Adopted(info, heldBy("kubeconfig", "x")); err != nil || !reflect.DeepEqual(got, info) {
		t.Errorf("cluster-info is wanted as %v, %v", got, err)
	}
}
