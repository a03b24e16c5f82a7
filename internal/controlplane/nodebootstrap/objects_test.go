package nodebootstrap_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func settings(t *testing.T) nodebootstrap.Settings {
	t.Helper()
	bundle, err := pki.Generate(pki.Options{ClusterName: "lab"})
	if err != nil {
		t.Fatal(err)
	}
	return nodebootstrap.Settings{
		Bundle: bundle, Host: "10.0.0.100", Port: 6443, Version: "1.34.4", ClusterDomain: "cluster.local",
		ServiceCIDRs: []string{"10.96.0.0/12"}, PodCIDRs: []string{"10.244.0.0/16"},
	}
}

func objects(t *testing.T, s nodebootstrap.Settings) []nodebootstrap.Object {
	t.Helper()
	all, err := nodebootstrap.Objects(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func find(t *testing.T, all []nodebootstrap.Object, label string) nodebootstrap.Object {
	t.Helper()
	at := slices.IndexFunc(all, func(o nodebootstrap.Object) bool { return o.Label() == label })
	if at < 0 {
		t.Fatalf("there is no %s", label)
	}
	return all[at]
}

// TestObjectsAreKubeadms: the names are those of kubeadm init without its add-ons, and a worker finds cluster-info
// only when everything else is there.
func TestObjectsAreKubeadms(t *testing.T) {
	var labels []string
	for _, o := range objects(t, settings(t)) {
		labels = append(labels, o.Label())
	}
	want := []string{
		"ClusterRole kubeadm:get-nodes", "ClusterRoleBinding kubeadm:get-nodes",
		"ClusterRoleBinding kubeadm:kubelet-bootstrap", "ClusterRoleBinding kubeadm:node-autoapprove-bootstrap",
		"ClusterRoleBinding kubeadm:node-autoapprove-certificate-rotation",
		"Role kube-system/kubeadm:nodes-kubeadm-config", "RoleBinding kube-system/kubeadm:nodes-kubeadm-config",
		"Role kube-system/kubeadm:kubelet-config", "RoleBinding kube-system/kubeadm:kubelet-config",
		"Role kube-public/kubeadm:bootstrap-signer-clusterinfo",
		"RoleBinding kube-public/kubeadm:bootstrap-signer-clusterinfo",
		"ConfigMap kube-system/kubeadm-config", "ConfigMap kube-system/kubelet-config", "ConfigMap kube-public/cluster-info",
	}
	if !slices.Equal(labels, want) {
		t.Errorf("objects are\n%s\nwant\n%s", strings.Join(labels, "\n"), strings.Join(want, "\n"))
	}
}

func TestDiscoveryByFile(t *testing.T) {
	s := settings(t)
	if left := nodebootstrap.Unwanted(s); len(left) != 0 {
		t.Errorf("unwanted: %v", left)
	}
	all := len(objects(t, s))
	s.DiscoveryByFile = true
	if got, left := len(objects(t, s)), nodebootstrap.Unwanted(s); got != all-2 || len(left) != 2 {
		t.Errorf("%d objects instead of %d, %d unwanted", got, all, len(left))
	}
}

func dataOf(t *testing.T, o nodebootstrap.Object, key string) map[string]any {
	t.Helper()
	data, _ := o.Fields["data"].(map[string]any)
	text, _ := data[key].(string)
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil || len(fields) == 0 {
		t.Fatalf("%s has no %s: %v", o.Label(), key, err)
	}
	return fields
}

func TestKubeletConfigIsMerged(t *testing.T) {
	s := settings(t)
	s.KubeletConfig = "cgroupDriver: cgroupfs\nauthentication:\n  webhook:\n    cacheTTL: 1m\nserverTLSBootstrap: true\n"
	fields := dataOf(t, find(t, objects(t, s), "ConfigMap kube-system/kubelet-config"), "kubelet")
	authentication, _ := fields["authentication"].(map[string]any)
	webhook, _ := authentication["webhook"].(map[string]any)
	if fields["cgroupDriver"] != "cgroupfs" || fields["serverTLSBootstrap"] != true ||
		webhook["cacheTTL"] != "1m" || webhook["enabled"] != true || authentication["anonymous"] == nil {
		t.Errorf("merged: %v", fields)
	}
	if dns, _ := fields["clusterDNS"].([]any); len(dns) != 1 || dns[0] != "10.96.0.10" {
		t.Errorf("clusterDNS is %v", fields["clusterDNS"])
	}
	s.ClusterDNS = []string{"10.96.0.53"}
	fields = dataOf(t, find(t, objects(t, s), "ConfigMap kube-system/kubelet-config"), "kubelet")
	if dns, _ := fields["clusterDNS"].([]any); len(dns) != 1 || dns[0] != "10.96.0.53" {
		t.Errorf("clusterDNS is %v", fields["clusterDNS"])
	}
}

func TestValidateKubeletConfig(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"failSwapOn: false":     "",
		"- a":                   "not a mapping",
		"kind: Pod":             "kind Pod",
		"apiVersion: v1":        "apiVersion v1",
		"rotateCertificates: 0": "rotateCertificates",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nrotateCertificates: true": "",
	} {
		err := nodebootstrap.ValidateKubeletConfig(text)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDNSAddress(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.96.0.0/12": "10.96.0.10", "fd00:96::/112": "fd00:96::a", "10.0.0.0/29": "", "none": "",
	} {
		got, err := nodebootstrap.DNSAddress([]string{cidr})
		if got != want || (err == nil) != (want != "") {
			t.Errorf("DNSAddress(%s) = %q, %v; want %q", cidr, got, err, want)
		}
	}
	if _, err := nodebootstrap.DNSAddress(nil); err == nil {
		t.Error("no range has an address")
	}
}

// TestDuringARotation: cluster-info has both CAs, and so do the pins; afterwards only the new one.
func TestDuringARotation(t *testing.T) {
	s := settings(t)
	before, err := nodebootstrap.Pins(s.Bundle)
	if err != nil || len(before) != 1 || !strings.HasPrefix(before[0], "sha256:") || len(before[0]) != 71 {
		t.Fatalf("pins %v, %v", before, err)
	}
	text := s.DiscoveryFile()
	for stage, want := range []int{2, 2, 1} {
		s.Bundle, err = s.Bundle.Rotate(map[pki.Part]int{pki.KubernetesPart: stage + 1}, pki.Next{}, pki.Options{})
		if err != nil {
			t.Fatal(err)
		}
		pins, err := nodebootstrap.Pins(s.Bundle)
		if err != nil || len(pins) != want {
			t.Errorf("stage %d: pins %v, %v; want %d", stage+1, pins, err, want)
		}
		if s.DiscoveryFile() == text {
			t.Errorf("stage %d: cluster-info is unchanged", stage+1)
		}
		if kept := slices.Contains(pins, before[0]); kept != (want == 2) {
			t.Errorf("stage %d: the old CA is pinned: %v", stage+1, kept)
		}
	}
}

// TestDiscoveryFileOf: kubeadm validates the whole file, takes credentials from the user of the current context, and
// has the server and the CAs of DiscoveryFile.
func TestDiscoveryFileOf(t *testing.T) {
	s := settings(t)
	with, err := clientcmd.Load([]byte(s.DiscoveryFileOf("abcdef.0123456789abcdef")))
	if err != nil {
		t.Fatal(err)
	}
	without, err := clientcmd.Load([]byte(s.DiscoveryFile()))
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []*api.Config{with, without} {
		if err := clientcmd.Validate(*config); err != nil {
			t.Error(err)
		}
	}
	current := with.Contexts[with.CurrentContext]
	if current == nil || with.AuthInfos[current.AuthInfo] == nil ||
		with.AuthInfos[current.AuthInfo].Token != "abcdef.0123456789abcdef" {
		t.Fatalf("no token in the current context: %+v", with)
	}
	got, want := with.Clusters[current.Cluster], without.Clusters[""]
	if got == nil || want == nil || got.Server != want.Server ||
		!bytes.Equal(got.CertificateAuthorityData, want.CertificateAuthorityData) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestDifferences: what the API server adds and another layout are no differences; what is changed is named.
func TestDifferences(t *testing.T) {
	config := find(t, objects(t, settings(t)), "ConfigMap kube-system/kubeadm-config")
	fields := dataOf(t, config, "ClusterConfiguration")
	changed := func(change func(fields map[string]any)) map[string]any {
		copied := maps.Clone(fields)
		change(copied)
		text, err := yaml.Marshal(copied)
		if err != nil {
			t.Fatal(err)
		}
		return map[string]any{"data": map[string]any{"ClusterConfiguration": "\n# kept\n" + string(text), "more": "x"}}
	}
	const label = "ConfigMap kube-system/kubeadm-config: ClusterConfiguration: "
	for name, test := range map[string]struct {
		existing map[string]any
		want     []string
	}{
		"none":   {nil, []string{"ConfigMap kube-system/kubeadm-config is missing"}},
		"layout": {changed(func(map[string]any) {}), nil},
		"version": {
			changed(func(f map[string]any) { f["kubernetesVersion"] = "v1.33.1" }),
			[]string{label + "kubernetesVersion is v1.33.1 instead of v1.34.4"},
		},
		"missing field": {
			changed(func(f map[string]any) { f["networking"] = map[string]any{"dnsDomain": "cluster.local"} }),
			[]string{label + "networking.podSubnet is missing", label + "networking.serviceSubnet is missing"},
		},
		"more":   {changed(func(f map[string]any) { f["etcd"] = "x" }), []string{label + "etcd is set, but is not wanted"}},
		"no key": {map[string]any{"data": map[string]any{}}, []string{label + "is missing"}},
		"not YAML": {
			map[string]any{"data": map[string]any{"ClusterConfiguration": "x"}},
			[]string{label + "is not a mapping in YAML"},
		},
	} {
		if got := config.Differences(test.existing); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	binding := find(t, objects(t, settings(t)), "ClusterRoleBinding kubeadm:get-nodes")
	wider := maps.Clone(binding.Manifest())
	if got := binding.Differences(wider); len(got) != 0 {
		t.Errorf("the same binding differs: %q", got)
	}
	subjects, _ := wider["subjects"].([]any)
	wider["subjects"] = append(slices.Clone(subjects), map[string]any{"kind": "Group", "name": "system:authenticated"})
	if got := binding.Differences(wider); len(got) != 1 || !strings.Contains(got[0], "subjects is") {
		t.Errorf("a wider binding differs by %q", got)
	}
}

// TestLongValues: a certificate is not shown.
func TestLongValues(t *testing.T) {
	before, after := settings(t), settings(t)
	old := find(t, objects(t, before), "ConfigMap kube-public/cluster-info")
	got := find(t, objects(t, after), "ConfigMap kube-public/cluster-info").Differences(old.Manifest())
	if !slices.Equal(got, []string{"ConfigMap kube-public/cluster-info: kubeconfig: clusters differs"}) {
		t.Errorf("differences %q", got)
	}
}

func TestOwners(t *testing.T) {
	const own = nodebootstrap.FieldManager
	entry := func(manager string, fields map[string]any) any {
		return map[string]any{"manager": manager, "fieldsV1": fields}
	}
	kubeconfig := map[string]any{"f:data": map[string]any{".": map[string]any{}, "f:kubeconfig": map[string]any{}}}
	signature := map[string]any{"f:data": map[string]any{"f:jws-kubeconfig-abcdef": map[string]any{}}}
	for name, test := range map[string]struct {
		entries []any
		owned   bool
		others  []string
	}{
		"owned":       {[]any{entry(own, kubeconfig)}, true, nil},
		"kubeadm's":   {[]any{entry("kubeadm", kubeconfig)}, false, []string{"kubeadm"}},
		"signed":      {[]any{entry(own, kubeconfig), entry("kube-controller-manager", signature)}, true, nil},
		"taken over":  {[]any{entry(own, kubeconfig), entry("kubeadm", kubeconfig)}, true, []string{"kubeadm"}},
		"no managers": {nil, false, []string{"an unknown manager"}},
		"labelled": {
			[]any{entry("kubectl", map[string]any{"f:metadata": map[string]any{}, "f:data": signature["f:data"]})},
			false,
			[]string{"kubectl"},
		},
	} {
		owned, others := nodebootstrap.Owners(map[string]any{"metadata": map[string]any{"managedFields": test.entries}})
		if owned != test.owned || !slices.Equal(others, test.others) {
			t.Errorf("%s: %v, %v; want %v, %v", name, owned, others, test.owned, test.others)
		}
	}
}
