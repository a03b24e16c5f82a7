package machine

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestTakesOverEncryption: a configuration of encryption at the provider's path is taken over if it says what the
// bundle does, however it is written, and then it is nothing new for the API server.
func TestTakesOverEncryption(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "kube-apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := componenttest.Stacked(t)
	s.Runtime = component.StaticPod
	e := cptest.Secretbox("key1", "secrets")
	s.Bundle = cptest.Encrypting(s.Bundle, e)
	provided := ""
	for _, file := range component.Files(s) {
		if file.Path == component.EncryptionConfigPath {
			provided = string(file.Content)
		}
	}
	byHand := "# keep this safe\nkind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n" +
		"  - resources: [ secrets ]\n    providers:\n      - secretbox:\n          keys:\n" +
		"          - {name: key1, secret: '" + e.Key + "'}\n"
	for name, c := range map[string]struct {
		text        string
		asks, taken bool
	}{
		"by hand":          {byHand, true, true},
		"the provider's":   {provided, false, true},
		"another key":      {strings.Replace(byHand, e.Key, cptest.Secretbox("key2").Key, 1), true, false},
		"another name":     {strings.Replace(byHand, "key1", "key2", 1), true, false},
		"identity as well": {byHand + "      - identity: {}\n", true, false},
		"other resources":  {strings.Replace(byHand, "[ secrets ]", "[secrets, configmaps]", 1), true, false},
		"none":             {"a: [", true, false},
	} {
		f := Interpret(host.Facts{
			Output: "replica\tkube-apiserver\tplaced\nreplica\tkube-apiserver\tinherited\t" +
				base64.StdEncoding.EncodeToString(text) + "\n",
			Files: map[string]host.FileState{component.EncryptionConfigPath: {SHA256: Digest([]byte(c.text))}},
		})
		if asks := len(f.encryptionFiles(s)) > 0; !f.TakesOver(s) || asks != c.asks {
			t.Fatalf("%s: taken over %v, compared %v", name, f.TakesOver(s), asks)
		}
		if c.asks {
			f.encryption = map[string]string{component.EncryptionConfigPath: c.text}
		}
		refused := strings.Contains(strings.Join(OwnershipProblems(s, f), "; "), component.EncryptionConfigPath)
		if refused == c.taken {
			t.Errorf("%s: refused %v, want %v", name, refused, !c.taken)
		}
		after := map[string]string{component.EncryptionConfigPath: Digest([]byte(provided))}
		reason := inheritedReason(component.Component{
			Name: release.APIServer, Inputs: []string{component.EncryptionConfigPath},
		}, f.Compared(s), nil, after)
		var record Record
		record.KeepInherited(s, f.Compared(s), after, nil)
		if c.taken && (reason != "" || record.Inherited[component.EncryptionConfigPath] != Digest([]byte(provided))) {
			t.Errorf("%s: it restarts because %q, and the record has %v", name, reason, record.Inherited)
		}
	}
	s.Bundle = cptest.Encrypting(s.Bundle, pki.Encryption{})
	if f := (Observed{}); len(f.encryptionFiles(s)) > 0 {
		t.Error("a replica that does not encrypt asks for the configuration")
	}
}

// TestTakesOverOtherEncryption: what an API server of kubeadm reads at another path must say what the bundle does.
func TestTakesOverOtherEncryption(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", "kube-apiserver.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s := componenttest.Stacked(t)
	s.Runtime = component.StaticPod
	plain := s
	e := cptest.Secretbox("key1", "secrets")
	s.Bundle = cptest.Encrypting(s.Bundle, e)
	config := "resources:\n- resources: [secrets]\n  providers:\n  - secretbox: {keys: [{name: key1, secret: '" + e.Key +
		"'}]}\n"
	for name, c := range map[string]struct {
		s                  component.Replica
		flag, volume, text string
		refused            string
	}{
		"the same key": {s, "/etc/kubernetes/enc/config.yaml", "/srv/enc", config, ""},
		"another key": {
			s, "/etc/kubernetes/enc/config.yaml", "/srv/enc", strings.Replace(config, "key1", "key2", 1),
			"by /srv/enc/config.yaml, which does not say what the bundle does",
		},
		"a bundle without encryption": {
			plain, "/etc/kubernetes/enc/config.yaml", "/srv/enc", config, "which does not say what the bundle does",
		},
		"a file of the image": {
			s, "/etc/enc.yaml", "/srv/enc", config, `by "/etc/enc.yaml", and its manifest mounts no file`,
		},
	} {
		manifest := strings.NewReplacer(
			"--event-ttl=2h", "--encryption-provider-config="+c.flag,
			"    volumeMounts:\n", "    volumeMounts:\n    - {name: enc, mountPath: /etc/kubernetes/enc}\n",
			"  volumes:\n", "  volumes:\n  - {name: enc, hostPath: {path: "+c.volume+"}}\n",
		).Replace(string(text))
		f := Interpret(host.Facts{Output: "replica\tkube-apiserver\tplaced\nreplica\tkube-apiserver\tinherited\t" +
			base64.StdEncoding.EncodeToString([]byte(manifest)) + "\n"})
		f.encryption = map[string]string{}
		for _, file := range f.encryptionFiles(c.s) {
			if file != "/srv/enc/config.yaml" {
				t.Errorf("%s: %s is read", name, file)
			}
			f.encryption[file] = c.text
		}
		if got := f.encryptionProblem(c.s); (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) ||
			strings.Contains(strings.Join(OwnershipProblems(c.s, f), "; "), "encrypts at rest") != (c.refused != "") {
			t.Errorf("%s: %q, want %q", name, got, c.refused)
		}
	}
}

// TestInheritedStartNote: a setting of the API server that has changed since the takeover is nothing that the other
// inherited components have read.
func TestInheritedStartNote(t *testing.T) {
	report := ""
	for _, name := range release.Components() {
		text, err := os.ReadFile(filepath.Join("..", "..", "staticpod", "testdata", "kubeadm", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		report += "pod\tcontainer\t" + name + "\t" + strings.Repeat("ab", 32) + "\tRUNNING\t7\t\nreplica\t" + name +
			"\tplaced\nreplica\t" + name + "\tinherited\t" + base64.StdEncoding.EncodeToString(text) + "\n"
	}
	for _, file := range component.SettingPaths() {
		f := Interpret(host.Facts{
			Output: "pod\truntime\tctr\npod\tkubelet\tactive\n" + report,
			Files:  map[string]host.FileState{file: {SHA256: "now"}, component.CACert: {SHA256: "ca"}},
		})
		f.Record.Inherited = map[string]string{file: "before", component.CACert: "ca"}
		for _, name := range release.Components() {
			err := StaleProcess(f, []string{name})
			if (err != nil) != (name == release.APIServer) {
				t.Errorf("%s of %s: %v", file, name, err)
			}
		}
	}
}

// TestCleanKeepsAccounts: a user that an administrator has created stays when the replica is removed.
func TestCleanKeepsAccounts(t *testing.T) {
	s := componenttest.Stacked(t)
	s.Runtime = component.StaticPod
	_, script, _ := strings.Cut(string(cleanScript(s, nil)), "for user in ")
	script, _, _ = strings.Cut(script, "\ndone\n")
	for comment, want := range map[string]string{
		"terraform-provider-kube": "userdel kube-scheduler\ngroupdel kube-scheduler\n", "": "", "an administrator": "",
	} {
		const accounts = "getent() { case $* in 'passwd kube-scheduler') echo \"$2:x:990:990:$comment:/:/bin/sh\" ;; " +
			"*kube-scheduler) ;; *) return 2 ;; esac; }\nid() { getent passwd \"$2\"; }\n" +
			"userdel() { echo userdel \"$@\"; }\ngroupdel() { echo groupdel \"$@\"; }\n"
		run := exec.Command("sh", "-euc", accounts+"for user in "+script+"\ndone\n")
		run.Env = []string{"comment=" + comment, "PATH=/usr/bin:/bin"}
		if out, err := run.CombinedOutput(); err != nil || string(out) != want {
			t.Errorf("%q: %s, %v; want %s", comment, out, err, want)
		}
	}
}
