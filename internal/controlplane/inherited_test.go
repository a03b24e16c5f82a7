package controlplane

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const kubeadmInherited = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 10.0.0.11}
nodeRegistration: {name: cp1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%s
certificatesDir: %s
controlPlaneEndpoint: 10.0.0.100:6443
networking: {podSubnet: 10.244.0.0/16}
`

// kubeadmMachine returns the files of a machine with certificates and kubeconfigs that kubeadm has made, by path.
func kubeadmMachine(t *testing.T) map[string]string {
	t.Helper()
	version, err := build.Version("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	root, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	kubeadm := filepath.Join(root, "components", "kubernetes-v"+version, "kubeadm")
	if _, err := os.Stat(kubeadm); err != nil {
		testrun.Missing(t, "kube-lab build makes kubeadm")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "kubeadm.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, kubeadmInherited, version, dir+"/pki"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, phase := range [][]string{{"certs", "all"}, {"kubeconfig", "all", "--kubeconfig-dir", dir}} {
		args := append(append([]string{"init", "phase"}, phase...), "--config", config)
		if out, err := exec.Command(kubeadm, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	files := map[string]string{}
	for _, pattern := range []string{"pki/*", "pki/etcd/*", "*.conf"} {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range matches {
			if text, err := os.ReadFile(file); err == nil { // no directory
				files[component.KubernetesDir+strings.TrimPrefix(file, dir)] = string(text)
			}
		}
	}
	for _, name := range append(release.Components(), "etcd") {
		text, err := os.ReadFile(filepath.Join("..", "staticpod", "testdata", "kubeadm", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files[machine.ManifestDir+"/"+name+".yaml"] = string(text)
	}
	return files
}

// inheritedFacts returns what a machine with these files reports.
func inheritedFacts(files map[string]string) host.Facts {
	facts := cptest.BareMachine()
	facts.Hostname = "cp1"
	report := "pod\truntime\tctr\npod\tkubelet\tactive\n"
	for _, name := range release.Components() {
		facts.Dirs[machine.ManifestDir] = append(facts.Dirs[machine.ManifestDir], name+".yaml")
		report += "pod\tanswers\t" + name + "\npod\tcontainer\t" + name + "\t" + strings.Repeat("ab", 32) +
			"\tRUNNING\t7\t\nreplica\t" + name + "\tplaced\nreplica\t" + name + "\tinherited\t" +
			base64.StdEncoding.EncodeToString([]byte(files[machine.ManifestDir+"/"+name+".yaml"])) + "\n"
	}
	plain := regexp.MustCompile(machine.PlainLines)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		text, mode := files[file], component.PublicMode
		if strings.HasSuffix(file, ".conf") || strings.HasSuffix(file, ".key") || file == component.SAPub {
			mode = component.SecretMode
		}
		facts.Files[file] = host.FileState{
			Mode: mode, Owner: "root", Group: "root", SHA256: machine.Digest([]byte(text)), Content: text,
		}
		if !strings.HasSuffix(file, ".conf") {
			continue
		}
		report += machine.SectionHeading + file + "\n"
		for line := range strings.Lines(text) {
			if plain.MatchString(strings.TrimRight(line, "\n")) {
				report += line
			}
		}
	}
	facts.Output = report
	return facts
}

// someEndpoint stands in for the provider, which knows endpoints.
var someEndpoint = EndpointReader{
	At: func(text json.RawMessage) (RegisteredAt, error) {
		var at RegisteredAt
		err := json.Unmarshal(text, &at)
		return at, err
	},
	Foreign: func(at HostPort, _, _, _ string, _ int) json.RawMessage {
		text, _ := json.Marshal(RegisteredAt{Address: at.Host})
		return text
	},
}

// inheritedSpec returns the replica that an import of the machine gives, with the imported bundle.
func inheritedSpec(t *testing.T, files map[string]string) Spec {
	t.Helper()
	h := testHost(t, host.Config{}, "10.0.0.11")
	got, err := imported(h, inheritedFacts(files), someEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := bundleFromFiles("", files)
	if err != nil {
		t.Fatal(err)
	}
	if got.ClusterID != bundle.ClusterID || got.ClusterName != bundle.ClusterName {
		t.Errorf("the replica is of cluster %s (%s), the bundle of %s (%s)", got.ClusterID, got.ClusterName,
			bundle.ClusterID, bundle.ClusterName)
	}
	registered, err := someEndpoint.At(got.Registration)
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Host: h, Replica: component.Replica{
		Name: got.Name, Address: "10.0.0.11", Bundle: bundle, Version: got.Version, Port: got.Port,
		EtcdURLs: got.EtcdURLs, ServiceCIDRs: got.ServiceCIDRs, PodCIDRs: got.PodCIDRs, ClusterDomain: got.ClusterDomain,
		ExtraSANs: got.ExtraSANs, NoAdminConf: got.NoAdminConf, ExtraArgs: got.ExtraArgs, Audit: got.Audit,
		EndpointHost: registered.Address, Registration: got.Registration, Runtime: got.Runtime,
		ImageRepository: got.ImageRepository, Environment: got.Environment, Patches: got.Patches,
		ExtraVolumes: got.ExtraVolumes,
	}}
}

// written returns the facts after everything of d is written. Nothing is restarted.
func written(facts host.Facts, d changes) host.Facts {
	facts.Files = maps.Clone(facts.Files)
	for _, file := range d.files {
		facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: file.Owner, Group: file.Group,
			SHA256: machine.Digest(file.Content), Content: string(file.Content),
		}
	}
	for _, name := range release.Components() {
		facts.Output = strings.Replace(facts.Output, "replica\t"+name+"\tplaced\n", "replica\t"+name+
			"\tdefined\nreplica\t"+name+"\tplaced\n", 1)
	}
	return facts
}

// TestInheritedReplica: a replica of kubeadm is imported, taken over without a restart, a new certificate or a changed
// file of kubeadm, and then has no drift.
func TestInheritedReplica(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	s := inheritedSpec(t, files)
	want := map[string]map[string]string{release.APIServer: {"event-ttl": "2h"}}
	if !reflect.DeepEqual(s.ExtraArgs, want) || s.Name != "cp1" || s.Version != "1.36.3" || s.NoAdminConf ||
		s.Runtime != component.StaticPod || s.ImageRepository != "" || len(s.ExtraSANs) > 0 ||
		!slices.Equal(s.EtcdURLs, []string{"https://10.0.0.11:2379"}) || s.EndpointHost != "10.0.0.100" {
		t.Errorf("imported as %+v", s.Replica)
	}
	s.Audit = component.Audit{} // as a configuration has it that says nothing of it
	facts := inheritedFacts(files)
	f := machine.Interpret(facts)
	if !f.TakesOver(s.Replica) || checkChangeable(s, f) != nil || machine.Preflight(s.Replica, f) == nil {
		t.Errorf("taken over: %v, %v; created: %v", f.TakesOver(s.Replica), checkChangeable(s, f),
			machine.Preflight(s.Replica, f))
	}
	for _, line := range drift(s.Replica, f, now) {
		if !strings.HasSuffix(line, " is missing") && !strings.HasSuffix(line, "sa.pub has mode 0600, wanted 0644") {
			t.Errorf("drift: %s", line)
		}
	}
	d, err := decide(s.Replica, f, now)
	if err != nil || len(d.restart) > 0 || len(d.remove) > 0 || changesVersion(s, f) {
		t.Fatalf("restarted %q, removed %q, another version %v, %v", d.restart, d.remove, changesVersion(s, f), err)
	}
	for _, file := range d.files {
		if text, there := files[file.Path]; there && text != string(file.Content) {
			t.Errorf("%s of kubeadm is changed", file.Path)
		}
	}
	f = machine.Interpret(written(facts, d))
	if left := drift(s.Replica, f, now); len(left) > 0 || !f.Record.IsComplete(s.Replica) {
		t.Errorf("drift after the takeover: %q", left)
	}
	if d, err = decide(s.Replica, f, now); err != nil || len(d.restart) > 0 {
		t.Errorf("restarted by a second apply: %q, %v", d.restart, err)
	}
	if err := machine.StaleProcess(f, component.Names()); err != nil {
		t.Error(err)
	}
}

// pkcs1 returns an RSA public key in its older form.
func pkcs1(t *testing.T, text string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	of, ok := key.(*rsa.PublicKey)
	if !ok {
		t.Fatalf("the key is a %T", key)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(of)}))
}

// TestInheritedForms: CAs with a text before them, as openssl writes it, and narrower modes, as benchmarks of security
// ask for, are taken over like those of kubeadm.
func TestInheritedForms(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	const text = "Certificate:\n    Data:\n        Version: 3 (0x2)\n"
	for _, file := range []string{component.CACert, component.FrontProxyCA, component.EtcdCA} {
		files[file] = text + files[file]
	}
	s := inheritedSpec(t, files)
	files[component.SAPub] = "Public-Key: (2048 bit)\n" + pkcs1(t, files[component.SAPub])
	files[component.SAKey] = strings.TrimSpace(files[component.SAKey])
	files[component.CAKey] += "\n"
	facts := inheritedFacts(files)
	for file, mode := range map[string]fs.FileMode{
		component.APIServerCert: 0o600, component.KeyPath(component.APIServerCert): 0o400, component.SchedulerConf: 0o400,
	} {
		state := facts.Files[file]
		state.Mode = mode
		facts.Files[file] = state
	}
	f := machine.Interpret(facts)
	if err := checkChangeable(s, f); err != nil {
		t.Fatal(err)
	}
	d, err := decide(s.Replica, f, now)
	if err != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v", d.restart, err)
	}
	for _, file := range []string{component.APIServerCert, component.SchedulerConf, component.ControllerManagerConf} {
		if d.writes(file) {
			t.Errorf("%s is issued again", file)
		}
	}
	for _, want := range []string{
		"chmod 0644 " + component.APIServerCert + "\n", "chmod 0600 " + component.KeyPath(component.APIServerCert) + "\n",
		"chmod 0600 " + component.SchedulerConf + "\n",
	} {
		if !strings.Contains(string(d.setModes()), want) {
			t.Errorf("no %q in %q", want, d.setModes())
		}
	}
	facts = written(facts, d)
	for file, mode := range d.modes {
		state := facts.Files[file]
		state.Mode = mode
		facts.Files[file] = state
	}
	f = machine.Interpret(facts)
	if left := drift(s.Replica, f, now); len(left) > 0 {
		t.Errorf("drift after the takeover: %q", left)
	}
	if d, err = decide(s.Replica, f, now); err != nil || len(d.restart)+len(d.modes) > 0 {
		t.Errorf("a second apply restarts %q, changes modes %v, %v", d.restart, d.modes, err)
	}
	open := inheritedFacts(files)
	state := open.Files[component.KeyPath(component.APIServerCert)]
	state.Mode = 0o640
	open.Files[component.KeyPath(component.APIServerCert)] = state
	if d, err = decide(s.Replica, machine.Interpret(open), now); err != nil || !d.writes(component.APIServerCert) {
		t.Errorf("a key that a group can read is kept, %v", err)
	}
}

// TestTakeoverCutOff: a takeover that issues certificates and is cut off between any two files leaves nothing that the
// next one takes for a pair of kubeadm.
func TestTakeoverCutOff(t *testing.T) {
	files := kubeadmMachine(t)
	s := inheritedSpec(t, files)
	certificate, key := component.APIServerCert, component.KeyPath(component.APIServerCert)
	now := time.Now()
	for name, c := range map[string]struct {
		at   time.Time
		edit func(files map[string]host.FileState)
	}{
		"due": {now.AddDate(0, 0, 360), func(map[string]host.FileState) {}},
		"an open key": {now, func(files map[string]host.FileState) {
			state := files[key]
			state.Mode = 0o640
			files[key] = state
		}},
		"no key":         {now, func(files map[string]host.FileState) { delete(files, key) }},
		"no certificate": {now, func(files map[string]host.FileState) { delete(files, certificate) }},
	} {
		before := inheritedFacts(files)
		c.edit(before.Files)
		decided := func(at host.Facts) changes {
			t.Helper()
			d, err := decide(s.Replica, machine.Interpret(at), c.at)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		all := len(decided(before).files)
		for i := range all {
			cut := decided(before)
			cut.files, cut.remove = cut.files[:i], nil
			at := before
			at.Files = maps.Clone(before.Files)
			at = written(at, cut)
			at = written(at, decided(at))
			if _, err := tls.X509KeyPair([]byte(at.Files[certificate].Content), []byte(at.Files[key].Content)); err != nil {
				t.Errorf("%s: after %d of %d files, they are no pair: %v", name, i, all, err)
			}
		}
	}
}

// TestInheritedNodeName: the name is the node's, also if that is not the name of the machine.
func TestInheritedNodeName(t *testing.T) {
	b := cptest.Bundle(t)
	credentials := func(node string) string {
		pair, err := b.Issue(pki.User("system:node:"+node, "system:nodes"), cptest.Now, 0)
		if err != nil {
			t.Fatal(err)
		}
		encoded := base64.StdEncoding.EncodeToString
		return "credentials\tover\t" + encoded([]byte(b.Roots(pki.Kubernetes))) + "\t" +
			encoded([]byte(pair.Certificate)) + "\n"
	}
	member := func(name string) string {
		return "kind: Pod\nmetadata: {name: etcd}\nspec:\n  hostNetwork: true\n  containers:\n" +
			"  - {name: etcd, image: 'etcd:3.6.16-0', command: [etcd, --name=" + name + "]}\n"
	}
	for name, c := range map[string]struct{ certificate, hostname, member, output, want string }{
		"a machine's own":           {"cp1", "cp1", "", "", "cp1"},
		"in upper case":             {"cp1", "CP1", "", "", "cp1"},
		"a member's":                {"cp1", "ip-10-0-0-11", member("cp1"), "", "cp1"},
		"an override":               {"a.example.com", "ip-10-0-0-11", "", credentials("a.example.com"), "a.example.com"},
		"an override of two":        {"cp1", "kubernetes", "", credentials("cp1"), "cp1"},
		"not in the certificate":    {"cp1", "ip-10-0-0-11", "", "", ""},
		"a certificate of another":  {"cp1", "cp1", member("cp1"), credentials("node1"), ""},
		"a kubelet without cluster": {"cp1", "cp1", "", "credentials\tover\t\t\n", "cp1"},
	} {
		pair, err := b.Issue(pki.APIServer(pki.APIServerNames{
			NodeName: c.certificate, ClusterDomain: "cluster.local", Advertise: "10.0.0.11",
		}), cptest.Now, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := nodeName(host.Facts{
			Hostname: c.hostname, Output: c.output, Files: map[string]host.FileState{
				component.APIServerCert: {Content: pair.Certificate}, machine.EtcdManifest: {Content: c.member},
			},
		})
		if got != c.want {
			t.Errorf("%s: the node is %q, want %q", name, got, c.want)
		}
	}
	if !strings.Contains(string(machine.ImportQuery().Script), string(kubelet.CredentialsReport())) {
		t.Error("an import does not ask for the kubelet's certificate")
	}
}

// TestInheritedReplicaAtALease: the takeover issues the kubeconfig of kube-vip, which no component reads.
func TestInheritedReplicaAtALease(t *testing.T) {
	files := kubeadmMachine(t)
	s := inheritedSpec(t, files)
	s.EndpointLease, s.LeaseHolders, s.AllAddresses = "plndr-cp-lock", "kube-vip-10.0.0.100", true
	f := machine.Interpret(inheritedFacts(files))
	if err := checkChangeable(s, f); err != nil {
		t.Fatal(err)
	}
	d, err := decide(s.Replica, f, time.Now())
	if err != nil || len(d.restart) > 0 || !d.writes(component.LeaseConf) {
		t.Errorf("restarted %q, kubeconfig written: %v, %v", d.restart, d.writes(component.LeaseConf), err)
	}
}

// TestInheritedReplicaRestarts: what changes restarts what it concerns, also after an apply that was cut off between
// the files and the restart.
func TestInheritedReplicaRestarts(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	s := inheritedSpec(t, files)
	facts := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(facts), now)
	if err != nil {
		t.Fatal(err)
	}
	facts = written(facts, d)
	all := strings.Join(release.Components(), " ")
	for name, c := range map[string]struct {
		edit func(*Spec)
		want string
	}{
		"a flag": {func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"event-ttl": "1h"}}
		}, release.APIServer},
		"an audit log":      {func(s *Spec) { s.Audit = component.Audit{MaxAgeDays: 3} }, release.APIServer},
		"a version":         {func(s *Spec) { s.Version = "1.36.4" }, all},
		"the etcd CA":       {func(s *Spec) { s.Bundle = cptest.At(t, s.Bundle, pki.EtcdPart, 1) }, all},
		"the Kubernetes CA": {func(s *Spec) { s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1) }, all},
		"early renewal": {
			func(s *Spec) { s.EarlyRenewal = 8759*time.Hour + 59*time.Minute }, "kube-controller-manager kube-scheduler",
		},
		"a patch": {func(s *Spec) {
			s.Patches = map[string]string{release.Scheduler: "metadata: {labels: {team: a}}"}
		}, release.Scheduler},
		"another image":      {func(s *Spec) { s.ImageRepository = "registry.example.com/k8s" }, all},
		"an additional name": {func(s *Spec) { s.ExtraSANs = []string{"api.example.com"} }, ""},
	} {
		changed := s
		c.edit(&changed)
		later := now.Add(2 * time.Minute)
		d, err := decide(changed.Replica, machine.Interpret(facts), later)
		if err != nil || strings.Join(d.restart, " ") != c.want {
			t.Errorf("%s restarts %q, %v; want %q", name, d.restart, err, c.want)
			continue
		}
		again, err := decide(changed.Replica, machine.Interpret(written(facts, d)), later)
		if err != nil || strings.Join(again.restart, " ") != c.want {
			t.Errorf("%s, cut off, restarts %q, %v; want %q", name, again.restart, err, c.want)
		}
	}
}

// TestInheritedPatches: what patches of kubeadm have added is carried, and the definition of the first restart has it.
func TestInheritedPatches(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	api := machine.ManifestDir + "/kube-apiserver.yaml"
	files[api] = strings.NewReplacer(
		"  annotations:", "  annotations:\n    team/owner: platform", "cpu: 250m", "cpu: 500m",
		"  hostNetwork: true", "  hostNetwork: true\n  dnsPolicy: ClusterFirstWithHostNet",
	).Replace(files[api])
	s := inheritedSpec(t, files)
	want := map[string]string{release.APIServer: `metadata:
  annotations:
    team/owner: platform
spec:
  containers:
  - name: kube-apiserver
    resources:
      requests:
        cpu: 500m
  dnsPolicy: ClusterFirstWithHostNet
`}
	if !maps.Equal(s.Patches, want) {
		t.Errorf("imported with %q", s.Patches)
	}
	facts := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(facts), now)
	if err != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v", d.restart, err)
	}
	definition := written(facts, d).Files[pod.Path(release.APIServer)].Content
	for _, text := range []string{"    team/owner: platform\n", "cpu: 500m\n", "  dnsPolicy: ClusterFirstWithHostNet\n"} {
		if !strings.Contains(definition, text) {
			t.Errorf("the definition has no %q:\n%s", text, definition)
		}
	}
	if parsed, err := pod.Parse(definition); err != nil || parsed.Patch != want[release.APIServer] {
		t.Errorf("the definition is read with the patch %q, %v", parsed.Patch, err)
	}
	s.Patches = nil
	if d, err = decide(s.Replica, machine.Interpret(facts), now); err != nil ||
		!slices.Equal(d.restart, []string{release.APIServer}) {
		t.Errorf("without the patch: restarted %q, %v", d.restart, err)
	}
}

// TestInheritedVolumes: volumes that kubeadm was told to add are carried, with the flags that name their files.
func TestInheritedVolumes(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	api := machine.ManifestDir + "/kube-apiserver.yaml"
	files[api] = strings.NewReplacer(
		"    volumeMounts:", "    volumeMounts:\n    - {name: tracing, mountPath: /etc/tracing, readOnly: true}",
		"  volumes:", "  volumes:\n  - {name: tracing, hostPath: {path: /srv/tracing, type: Directory}}",
		"    - --event-ttl=2h", "    - --tracing-config-file=/etc/tracing/config.yaml",
	).Replace(files[api])
	h := testHost(t, host.Config{}, "10.0.0.11")
	got, err := imported(h, inheritedFacts(files), someEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]component.Volume{release.APIServer: {"tracing": {
		HostPath: "/srv/tracing", MountPath: "/etc/tracing", ReadOnly: true, PathType: "Directory",
	}}}
	if !reflect.DeepEqual(got.ExtraVolumes, want) {
		t.Errorf("imported with %+v", got.ExtraVolumes)
	}
	s := inheritedSpec(t, files)
	s.ExtraVolumes = want
	facts := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(facts), now)
	if err != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v", d.restart, err)
	}
	s.ExtraVolumes = nil
	if d, err = decide(s.Replica, machine.Interpret(facts), now); err != nil ||
		!slices.Equal(d.restart, []string{release.APIServer}) {
		t.Errorf("without the volume: restarted %q, %v", d.restart, err)
	}
}

// TestInheritedAuditLog: an API server of kubeadm that writes an audit log as the documentation of Kubernetes says is
// taken over without a restart. Units have another directory, so the move to them is refused.
func TestInheritedAuditLog(t *testing.T) {
	files := kubeadmMachine(t)
	at := machine.ManifestDir + "/kube-apiserver.yaml"
	for before, after := range map[string]string{
		"    - --event-ttl=2h\n": "    - --event-ttl=2h\n    - --audit-policy-file=/etc/kubernetes/audit/policy.yaml\n" +
			"    - --audit-log-path=/var/log/kubernetes/audit/audit.log\n    - --audit-log-maxage=7\n",
		"    volumeMounts:\n": "    volumeMounts:\n" +
			"    - {name: audit, mountPath: /etc/kubernetes/audit/policy.yaml, readOnly: true}\n" +
			"    - {name: audit-log, mountPath: /var/log/kubernetes/audit/, readOnly: false}\n",
		"  volumes:\n": "  volumes:\n" +
			"  - {name: audit, hostPath: {path: /etc/kubernetes/audit/policy.yaml, type: File}}\n" +
			"  - {name: audit-log, hostPath: {path: /var/log/kubernetes/audit/, type: DirectoryOrCreate}}\n",
	} {
		if strings.Count(files[at], before) != 1 {
			t.Fatalf("%q is not in the manifest once:\n%s", before, files[at])
		}
		files[at] = strings.Replace(files[at], before, after, 1)
	}
	s := inheritedSpec(t, files)
	log := s.ExtraArgs[release.APIServer][component.AuditLogFlag]
	if log != "/var/log/kubernetes/audit/audit.log" || !s.Audit.Off {
		t.Errorf("the audit log is %q, audit %+v", log, s.Audit)
	}
	if got := s.ExtraVolumes[release.APIServer]["audit-log"].MountPath; got != "/var/log/kubernetes/audit" {
		t.Errorf("it is mounted at %q", got)
	}
	d, err := decide(s.Replica, machine.Interpret(inheritedFacts(files)), time.Now())
	if err != nil || len(d.restart) > 0 {
		t.Errorf("a takeover restarts %v, %v", d.restart, err)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s.Runtime = ""
	s.ExtraVolumes, s.ImageRepository = nil, ""
	if err := s.Validate(); !strings.Contains(cptest.Text(err), "unit may write below "+component.AuditLogDir) {
		t.Errorf("as units: %v", err)
	}
}

// TestInheritedExternalCA: a control plane whose CA key is elsewhere is imported, and taken over without a restart.
func TestInheritedExternalCA(t *testing.T) {
	files := kubeadmMachine(t)
	delete(files, component.CAKey)
	at := machine.ManifestDir + "/kube-controller-manager.yaml"
	files[at] = strings.NewReplacer(
		"-signing-cert-file=/etc/kubernetes/pki/ca.crt", "-signing-cert-file=",
		"-signing-key-file=/etc/kubernetes/pki/ca.key", "-signing-key-file=",
	).Replace(files[at])
	s := inheritedSpec(t, files)
	f := machine.Interpret(inheritedFacts(files))
	d, err := decide(s.Replica, f, time.Now())
	if refused := checkChangeable(s, f); err != nil || refused != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v, %v", d.restart, err, refused)
	}
}

// TestInheritedGates: feature gates that kubeadm was given one by one are one argument.
func TestInheritedGates(t *testing.T) {
	files := kubeadmMachine(t)
	at := machine.ManifestDir + "/kube-apiserver.yaml"
	files[at] = strings.Replace(files[at], "    - --event-ttl=2h\n", "    - --feature-gates=WatchListClient=true\n"+
		"    - --feature-gates=WatchList=false\n", 1)
	s := inheritedSpec(t, files)
	want := map[string]string{release.FeatureGates: "WatchListClient=true,WatchList=false"}
	if got := s.ExtraArgs[release.APIServer]; !maps.Equal(got, want) {
		t.Errorf("imported with %q", got)
	}
	d, err := decide(s.Replica, machine.Interpret(inheritedFacts(files)), time.Now())
	if err != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v", d.restart, err)
	}
}

// TestInheritedAuthoritiesOfTheMachine: the directories to which /etc/ssl/certs links on machines of the RHEL family,
// and which kubeadm mounts there, stay mounted.
func TestInheritedAuthoritiesOfTheMachine(t *testing.T) {
	files := kubeadmMachine(t)
	mount, volume := "    volumeMounts:", "  volumes:"
	want := map[string]component.Volume{}
	for name, at := range map[string]string{
		"etc-pki-ca-trust": "/etc/pki/ca-trust", "etc-pki-tls-certs": "/etc/pki/tls/certs",
	} {
		mount += fmt.Sprintf("\n    - {name: %s, mountPath: %s, readOnly: true}", name, at)
		volume += fmt.Sprintf("\n  - {name: %s, hostPath: {path: %s, type: DirectoryOrCreate}}", name, at)
		want[name] = component.Volume{HostPath: at, MountPath: at, ReadOnly: true, PathType: "DirectoryOrCreate"}
	}
	all := map[string]map[string]component.Volume{release.APIServer: want, release.ControllerManager: want}
	for name := range all {
		at := machine.ManifestDir + "/" + name + ".yaml"
		files[at] = strings.NewReplacer("    volumeMounts:", mount, "  volumes:", volume).Replace(files[at])
	}
	s := inheritedSpec(t, files)
	if !reflect.DeepEqual(s.ExtraVolumes, all) {
		t.Errorf("imported with %+v", s.ExtraVolumes)
	}
	facts := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(facts), time.Now())
	if err != nil || len(d.restart) > 0 {
		t.Errorf("restarted %q, %v", d.restart, err)
	}
	for name := range all {
		definition := written(facts, d).Files[pod.Path(name)].Content
		for _, v := range want {
			if !strings.Contains(definition, "path: "+v.HostPath+"\n") {
				t.Errorf("the definition of %s does not mount %s", name, v.HostPath)
			}
		}
	}
}

// TestInheritedReplicaRefused: what cannot be taken over is named.
func TestInheritedReplicaRefused(t *testing.T) {
	files := kubeadmMachine(t)
	s := inheritedSpec(t, files)
	with := func(path, text string) map[string]string {
		changed := maps.Clone(files)
		changed[path] = text
		return changed
	}
	other := s
	bundle := *s.Bundle
	bundle.CA.Certificate = bundle.EtcdCA.Certificate
	other.Bundle = &bundle
	for name, c := range map[string]struct {
		s     Spec
		files map[string]string
		want  string
	}{
		"policy":     {s, with(component.AuditPolicyPath, "rules: []"), component.AuditPolicyPath},
		"other keys": {s, with(component.SAPub, "x"), component.SAPub + " is there with other content"},
		"two public keys": {
			s, with(component.SAPub, files[component.SAPub]+files[component.SAPub]),
			component.SAPub + " is there with other content",
		},
		"another private key": {s, with(component.SAKey, files[component.CAKey]), component.SAKey},
		"other CA":            {other, files, "is not exactly the authority of the bundle"},
		"kubeconfig":          {s, with(component.SchedulerConf, files[component.AdminConf]), component.SchedulerConf},
	} {
		err := checkChangeable(c.s, machine.Interpret(inheritedFacts(c.files)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		var refusal *problem.Problem
		if !errors.As(err, &refusal) || !strings.Contains(refusal.Next, "What is refused") {
			t.Errorf("%s: what to do is %q", name, refusal.Next)
		}
	}
	const reissue, renew = "kubeadm init phase kubeconfig scheduler", "early_renewal"
	due := s
	due.EarlyRenewal = 8760*time.Hour + time.Minute // kubeadm backdates by five
	server := strings.Replace(files[component.SchedulerConf], "https://10.0.0.11:6443", "https://10.0.0.100:6443", 1)
	for name, c := range map[string]struct {
		s           Spec
		scheduler   string
		want, never string
	}{
		"a server of old kubeadm":   {s, server, reissue, renew},
		"due as well":               {due, server, reissue, renew},
		"no kubeconfig":             {s, "x", reissue, renew},
		"a certificate that is due": {due, files[component.SchedulerConf], renew, reissue},
	} {
		f := machine.Interpret(inheritedFacts(with(component.SchedulerConf, c.scheduler)))
		text := cptest.Text(checkChangeable(c.s, f))
		_, text, _ = strings.Cut(text, component.SchedulerConf) // that of the controller-manager is due as well
		if !strings.Contains(text, c.want) || strings.Contains(text, c.never) {
			t.Errorf("%s: %q, want %q and not %q", name, text, c.want, c.never)
		}
	}
	for name, edit := range map[string]func(*host.FileState){
		"an open kubeconfig":      func(state *host.FileState) { state.Mode = 0o640 },
		"a kubeconfig of a user":  func(state *host.FileState) { state.Owner = "joe" },
		"a kubeconfig of a group": func(state *host.FileState) { state.Group, state.Mode = "staff", 0o640 },
	} {
		facts := inheritedFacts(files)
		state := facts.Files[component.SchedulerConf]
		edit(&state)
		facts.Files[component.SchedulerConf] = state
		text := cptest.Text(checkChangeable(s, machine.Interpret(facts)))
		if !strings.Contains(text, "chown root:root and chmod 0600") || strings.Contains(text, reissue) {
			t.Errorf("%s: %q", name, text)
		}
	}
	api := machine.ManifestDir + "/kube-apiserver.yaml"
	for name, c := range map[string]struct{ before, after, want string }{
		"label":         {"tier: control-plane", "tier: other", "label tier"},
		"audit log":     {"--event-ttl=2h", "--audit-log-path=/srv/audit.log", "where its container cannot write"},
		"a lost policy": {"--event-ttl=2h", "--tracing-config-file=/srv/x", "names /srv/x, which its container does not see"},
		"managed flag":  {"--allow-privileged=true", "--anonymous-auth=false", "flag --anonymous-auth"},
		"registrations": {
			"--event-ttl=2h", "--endpoint-reconciler-type=none", `flag --endpoint-reconciler-type is "none", wanted not to be`,
		},
		"a deep prefix": {"--event-ttl=2h", "--etcd-prefix=/a/b/c/d", "at most 3 segments"},
		"image":         {"kube-apiserver:v1.36.3", "kube-apiserver:latest", "does not name a version"},
		"another one":   {"kube-apiserver:v1.36.3", "kube-apiserver:v1.36.2", "another version or image repository"},
		"address":       {"--advertise-address=10.0.0.11", "--advertise-address=10.0.0.12", "is reached at"},
	} {
		text := strings.Replace(files[api], c.before, c.after, 1)
		_, err := imported(s.Host, inheritedFacts(with(api, text)), someEndpoint)
		if err == nil || !strings.Contains(errors.Unwrap(err).Error()+err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestInheritedRollback: a first restart that fails goes back to the manifests of kubeadm, and the next apply of the
// former configuration restarts nothing.
func TestInheritedRollback(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	s := inheritedSpec(t, files)
	facts := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(facts), now)
	if err != nil {
		t.Fatal(err)
	}
	facts = written(facts, d)
	before := machine.Interpret(facts)
	record := machine.ReadRollbackRecord(string(before.RollbackRecord(s.Bundle.Generations()).File().Content))
	if record == nil || !runsItsRecord(before) {
		t.Fatalf("it cannot be rolled back: %v, %v", record, machine.StaleProcess(before, component.Names()))
	}
	changed := s
	changed.ExtraArgs = map[string]map[string]string{release.APIServer: {"event-ttl": "never"}}
	if d, err = decide(changed.Replica, before, now); err != nil {
		t.Fatal(err)
	}
	failing := written(facts, d)
	api := machine.ManifestDir + "/kube-apiserver.yaml"
	inherited := "replica\tkube-apiserver\tinherited\t" + base64.StdEncoding.EncodeToString([]byte(files[api])) + "\n"
	failing.Output = strings.Replace(failing.Output, inherited, "", 1) // the provider's manifest is placed
	back := s
	back.Previous = &component.Previous{Definitions: record.Definitions, Settings: record.Settings}
	if d, err = decide(back.Replica, machine.Interpret(failing), now); err != nil ||
		!slices.Equal(d.restart, []string{release.APIServer}) {
		t.Fatalf("the rollback restarts %q, %v", d.restart, err)
	}
	restored := written(failing, d)
	if got := restored.Files[pod.Path(release.APIServer)].Content; got != files[api] {
		t.Errorf("the API server goes back to\n%s", got)
	}
	restored.Output = facts.Output
	if d, err = decide(s.Replica, machine.Interpret(restored), now); err != nil || len(d.restart) > 0 {
		t.Errorf("after the rollback, %q restart, %v", d.restart, err)
	}
}

// TestInheritedRollbackOfTakeover: a takeover that also restarts something can go back to the manifests of kubeadm, and
// is refused otherwise.
func TestInheritedRollbackOfTakeover(t *testing.T) {
	files := kubeadmMachine(t)
	s := inheritedSpec(t, files)
	s.Host = unreachable(t).Host
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {"event-ttl": "never"}}
	f := machine.Interpret(inheritedFacts(files))
	back := running(s, f)
	if back == nil {
		t.Fatal("it cannot be rolled back")
	}
	if back.Port != 6443 || !slices.Equal(back.Etcd, []string{"https://10.0.0.11:2379"}) || back.Version != "1.36.3" {
		t.Errorf("it goes back to %+v", back)
	}
	for _, name := range release.Components() {
		if back.Definitions[name] != files[machine.ManifestDir+"/"+name+".yaml"] {
			t.Errorf("%s goes back to\n%s", name, back.Definitions[name])
		}
	}
	f.Rollback = back
	if rollbackTarget(t.Context(), s, f) != back {
		t.Error("a takeover that was cut off has no way back")
	}
	f.Rollback = nil
	d, err := decide(s.Replica, f, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	err = checkTakeover(t.Context(), s, f, d)
	if text := cptest.Text(err); !problem.Untouched(err) ||
		!strings.Contains(text, "Cause: kube-apiserver would be restarted") {
		t.Errorf("a replica that is not ready: %v", err)
	}
	if err := checkTakeover(t.Context(), s, f, changes{}); err != nil {
		t.Errorf("without a restart: %v", err)
	}
	d.rollback = back
	if err := checkTakeover(t.Context(), s, f, d); err != nil {
		t.Errorf("with a way back: %v", err)
	}
	delete(files, machine.ManifestDir+"/kube-scheduler.yaml")
	if back := running(s, machine.Interpret(inheritedFacts(files))); back != nil {
		t.Errorf("without a manifest it goes back to %+v", back)
	}
	s.Version = "1.36.4"
	if err := checkChangeable(s, f); !strings.Contains(cptest.Text(err), "to be taken over with this version first") {
		t.Errorf("with another version: %v", err)
	}
	s.Runtime = ""
	if err := checkChangeable(s, f); !strings.Contains(cptest.Text(err), `set runtime = "static_pod" and apply`) {
		t.Errorf("as units: %v", err)
	}
}

// asUnits returns the facts after the replica has run as units: the manifests of kubeadm are kept.
func asUnits(t *testing.T, s Spec, facts host.Facts, files map[string]string) host.Facts {
	t.Helper()
	s.Runtime = ""
	d, err := decide(s.Replica, machine.Interpret(host.Facts{Files: facts.Files}), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	facts = written(facts, d)
	facts.Output = ""
	for _, name := range release.Components() {
		delete(facts.Files, pod.Path(name))
		facts.Output += "replica\t" + name + "\tkept\t" +
			base64.StdEncoding.EncodeToString([]byte(files[machine.ManifestDir+"/"+name+".yaml"])) + "\n"
	}
	return facts
}

// TestReplicaReturns: a replica that has run as units gets the manifests of kubeadm back, as far as they say what the
// configuration does.
func TestReplicaReturns(t *testing.T) {
	files, now := kubeadmMachine(t), time.Now()
	s := inheritedSpec(t, files)
	adopted := inheritedFacts(files)
	d, err := decide(s.Replica, machine.Interpret(adopted), now)
	if err != nil {
		t.Fatal(err)
	}
	adopted = written(adopted, d)
	units := asUnits(t, s, adopted, files)
	f := machine.Interpret(units)
	if f.Record.Runtime != "" || len(f.Record.Inherited) == 0 {
		t.Fatalf("the record of the units: %+v", f.Record)
	}
	all := release.Components()
	for name, c := range map[string]struct {
		edit func(*Spec)
		want []string
	}{
		"the same configuration": {func(*Spec) {}, all},
		"a flag of one": {func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"event-ttl": "1h"}}
		}, []string{release.ControllerManager, release.Scheduler}},
		"another version":    {func(s *Spec) { s.Version = "1.36.4" }, nil},
		"another CA":         {func(s *Spec) { s.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1) }, nil},
		"they stay as units": {func(s *Spec) { s.Runtime = "" }, nil},
	} {
		changed := s
		c.edit(&changed)
		d, err := decide(changed.Replica, f, now)
		if err != nil || !slices.Equal(d.returns, c.want) {
			t.Errorf("%s: %q return, %v; want %q", name, d.returns, err, c.want)
		}
	}

	d, err = decide(s.Replica, f, now)
	if err != nil || !slices.Equal(d.restart, all) {
		t.Fatalf("%q start, %v", d.restart, err)
	}
	if script := string(d.start(runtime.Of(s.Replica), release.APIServer)); !strings.HasSuffix(script,
		"replica_return kube-apiserver\n") {
		t.Errorf("the API server is started by\n%s", script)
	}
	// Cut off before anything has started, the next apply does the same.
	begun := written(units, d)
	again, err := decide(s.Replica, machine.Interpret(begun), now)
	if err != nil || !slices.Equal(again.returns, all) {
		t.Errorf("cut off: %q return, %v", again.returns, err)
	}
	// Started, nothing differs, and what changes restarts what it concerns.
	begun.Output = adopted.Output
	f = machine.Interpret(begun)
	if left := drift(s.Replica, f, now); len(left) > 0 {
		t.Errorf("drift after the return: %q", left)
	}
	if again, err = decide(s.Replica, f, now); err != nil || len(again.restart)+len(again.returns) > 0 {
		t.Errorf("a second apply restarts %q, %v", again.restart, err)
	}
	rotated := s
	rotated.Bundle = cptest.At(t, s.Bundle, pki.KubernetesPart, 1)
	if again, err = decide(rotated.Replica, f, now); err != nil || !slices.Equal(again.restart, all) ||
		len(again.returns) > 0 {
		t.Errorf("a rotation restarts %q, returns %q, %v", again.restart, again.returns, err)
	}
}
