package controlplane

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bundleFiles returns the files of a replica that depend on the bundle, as ImportBundle reads
// them.
func bundleFiles(t *testing.T, s Spec) map[string]string {
	t.Helper()
	files := map[string]string{}
	var output strings.Builder
	var paths []string
	for _, file := range component.Files(s.Replica) {
		output.WriteString(machine.SectionHeading + file.Path + "\n" + string(file.Content) + "\n")
		paths = append(paths, file.Path)
	}
	pair, err := s.Bundle.Issue(pki.APIServer(s.CertificateNames()), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	output.WriteString(machine.SectionHeading + component.APIServerCert + "\n" + pair.Certificate)
	for path, text := range machine.PrintedFiles(output.String(), append(paths, component.APIServerCert)) {
		files[path] = text
	}
	return files
}

// TestBundleFromFiles: a replica's machine contains its bundle, except for the keys of two
// authorities.
func TestBundleFromFiles(t *testing.T) {
	for name, options := range map[string]pki.Options{
		"usual":   {},
		"RSA":     {Algorithm: pki.RSA2048},
		"rotated": {Generations: map[pki.Part]int{pki.KubernetesPart: 3, pki.EncryptionPart: 6}},
		"secretbox": {
			Supplied: pki.Next{Encryption: pki.Encryption{Kind: pki.Secretbox, Resources: []string{"configmaps", "secrets"}}},
		},
		"aescbc": {Supplied: pki.Next{Encryption: pki.Encryption{Kind: pki.AESCBC, Resources: []string{"secrets"}}}},
		"kms": {Supplied: pki.Next{Encryption: pki.Encryption{
			Kind: pki.KMS, Resources: []string{"secrets"}, Name: "vault", Endpoint: "unix:///run/kms.sock", Timeout: "3s",
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := testSpec(t)
			options.ClusterName, options.Now = "prod", cptest.Now
			var err error
			if s.Bundle, err = pki.Generate(options); err != nil {
				t.Fatal(err)
			}
			got, err := bundleFromFiles(string(machine.NewRecord(s.Replica, nil).File().Content), bundleFiles(t, s))
			if err != nil {
				t.Fatal(err)
			}
			want := *s.Bundle
			want.EtcdCA.PrivateKey, want.FrontProxyCA.PrivateKey = "", ""
			if !got.Same(&want, pki.Parts()...) || got.Algorithm != want.Algorithm || got.ClusterName != "prod" {
				t.Errorf("read back as %v, which is not the bundle %v", got, &want)
			}
			if got.Validity() != want.Validity() {
				t.Errorf("validity is %s, want %s", got.Validity(), want.Validity())
			}
		})
	}
}

// kubeadmManifest returns a manifest of kubeadm with one text replaced.
func kubeadmManifest(t *testing.T, name, before, after string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "staticpod", "testdata", "kubeadm", name+".yaml"))
	if err != nil || !strings.Contains(string(text), before) {
		t.Fatalf("%s has no %q, %v", name, before, err)
	}
	return strings.Replace(string(text), before, after, 1)
}

// encryptingManifest returns the manifest of an API server with arguments, and with a directory of the machine at
// /etc/kubernetes/enc.
func encryptingManifest(t *testing.T, arguments, hostPath string) string {
	t.Helper()
	return strings.NewReplacer(
		"    volumeMounts:\n", "    volumeMounts:\n    - {name: enc, mountPath: /etc/kubernetes/enc, readOnly: true}\n",
		"  volumes:\n", "  volumes:\n  - {name: enc, hostPath: {path: "+hostPath+", type: Directory}}\n",
	).Replace(kubeadmManifest(t, release.APIServer, "    - --event-ttl=2h\n", "    "+arguments+"\n"))
}

// encryptionBy returns a configuration of encryption with a key, which also reads what is in the clear.
func encryptionBy(key string) string {
	return `resources:
- resources: [secrets]
  providers:
  - secretbox: {keys: [{name: ` + key + `, secret: ` + strings.Repeat("QUFB", 10) + `QUE=}]}
  - identity: {}
`
}

// TestBundleFromFilesOfKubeadm: kubeadm's machines have every key, and no cluster ID.
func TestBundleFromFilesOfKubeadm(t *testing.T) {
	s := testSpec(t)
	b := s.Bundle
	files := map[string]string{
		component.CACert: b.CA.Certificate, component.CAKey: b.CA.PrivateKey, component.EtcdCA: b.EtcdCA.Certificate,
		etcdCAKey:              b.EtcdCA.PrivateKey,
		component.FrontProxyCA: b.FrontProxyCA.Certificate, frontProxyKey: b.FrontProxyCA.PrivateKey,
		component.SAKey: b.ServiceAccount.PrivateKey,
		controllerManagerManifest: kubeadmManifest(t, release.ControllerManager, "--cluster-name=kubernetes",
			"--cluster-name=legacy"),
	}
	first, err := bundleFromFiles("", files)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ at, hostPath string }{
		"as kubeadm writes it": {"/etc/kubernetes/enc/config.yaml", "/etc/kubernetes/enc"},
		"at another path":      {"/srv/enc/config.yaml", "/srv/enc"},
	} {
		encrypted := maps.Clone(files)
		encrypted[apiServerManifest] = encryptingManifest(t,
			"# - --encryption-provider-config=/etc/kubernetes/enc/old.yaml\n"+
				"    - --encryption-provider-config=/etc/kubernetes/enc/config.yaml", c.hostPath)
		for _, file := range []string{"/etc/kubernetes/enc/old.yaml", "/etc/kubernetes/enc/config.yaml"} {
			encrypted[file] = encryptionBy("other")
		}
		encrypted[c.at] = encryptionBy("legacy")
		got, err := bundleFromFiles("", encrypted)
		if err != nil {
			t.Fatal(err)
		}
		if e := got.Encryptions(); len(e) != 2 || e[0].Name != "legacy" || e[1].Kind != pki.Plain ||
			got.Generation(pki.EncryptionPart) != 2 {
			t.Errorf("%s: the bundle of an encrypted control plane reads %d encryptions, the first is %q, at generation %d",
				name, len(e), e[0].Name, got.Generation(pki.EncryptionPart))
		}
	}
	again, err := bundleFromFiles("", files)
	if err != nil || again.ClusterID != first.ClusterID {
		t.Errorf("another machine gives cluster %s, want %s (%v)", again.ClusterID, first.ClusterID, err)
	}
	same := *b
	same.ClusterID, same.ClusterName = first.ClusterID, "legacy"
	if !first.Same(&same, pki.Parts()...) || len(first.Externals()) != 0 {
		t.Errorf("read back as %v, without the keys of %v", first, first.Externals())
	}
}

// TestSameEtcdCA: the key of an external etcd's CA comes from the machine that has this CA, and no other.
func TestSameEtcdCA(t *testing.T) {
	own, another := testSpec(t).Bundle.EtcdCA, testSpec(t).Bundle.CA
	files := map[string]string{component.EtcdCA: own.Certificate}
	for name, c := range map[string]struct {
		files, others map[string]string
		cause         string
	}{
		"its CA": {files, map[string]string{component.EtcdCA: own.Certificate, etcdCAKey: own.PrivateKey}, ""},
		"no key": {files, map[string]string{component.EtcdCA: own.Certificate}, "ca.key is not there"},
		"another CA": {
			files, map[string]string{component.EtcdCA: another.Certificate, etcdCAKey: another.PrivateKey}, "is not the CA",
		},
		"no CA": {map[string]string{}, map[string]string{etcdCAKey: own.PrivateKey}, "is not the CA"},
	} {
		err := sameEtcdCA(c.files, c.others)
		if (err == nil) != (c.cause == "") || err != nil && !strings.Contains(err.Error(), c.cause) {
			t.Errorf("%s: %v, want %q", name, err, c.cause)
		}
	}
}

func TestBundleFromFilesRefuses(t *testing.T) {
	s := testSpec(t)
	half, err := s.Bundle.Rotate(map[pki.Part]int{pki.EtcdPart: 1}, pki.Next{}, pki.Options{Now: cptest.Now})
	if err != nil {
		t.Fatal(err)
	}
	under := s
	under.Bundle = half
	for name, c := range map[string]struct {
		record string
		change func(files map[string]string)
		cause  string
	}{
		"in a rotation": {
			string(machine.NewRecord(under.Replica, nil).File().Content), func(map[string]string) {},
			"rotation of etcd is under way",
		},
		"nothing there": {"", func(files map[string]string) { clear(files) }, "neither a replica of this provider nor"},
		"external etcd": {"", func(map[string]string) {}, "elsewhere"},
		"encrypted": {
			"", func(files map[string]string) {
				files[apiServerManifest] = encryptingManifest(t,
					"- --encryption-provider-config=/etc/kubernetes/enc/x", "/etc/enc")
				files[component.EtcdCA] = s.Bundle.EtcdCA.Certificate
			},
			"encrypts at rest by /etc/enc/x, which cannot be taken over",
		},
		"encrypted by a file of the image": {
			"", func(files map[string]string) {
				files[apiServerManifest] = encryptingManifest(t, "- \"--encryption-provider-config=/etc/x\"", "/etc/enc")
				files[component.EtcdCA] = s.Bundle.EtcdCA.Certificate
			},
			"mounts no file of the machine there",
		},
		"a manifest that cannot be read": {
			"", func(files map[string]string) {
				files[apiServerManifest] = "- --encryption-provider-config=/etc/x\n"
				files[component.EtcdCA] = s.Bundle.EtcdCA.Certificate
			},
			"read " + apiServerManifest,
		},
		"encrypted by a path of shell": {
			"", func(files map[string]string) {
				files[apiServerManifest] = encryptingManifest(t,
					"- --encryption-provider-config=/etc/kubernetes/enc/x;$(reboot)", "/etc/enc")
				files[component.EtcdCA] = s.Bundle.EtcdCA.Certificate
			},
			"mounts no file of the machine there",
		},
		"strange encryption": {
			string(machine.NewRecord(s.Replica, nil).File().Content),
			func(files map[string]string) { files[component.EncryptionConfigPath] = "kind: Secret\n" },
			"not as the provider writes it",
		},
		"another CA's key": {
			string(machine.NewRecord(s.Replica, nil).File().Content),
			func(files map[string]string) { files[component.CAKey] = files[component.SAKey] }, "does not match",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := bundleFiles(t, s)
			c.change(files)
			_, err := bundleFromFiles(c.record, files)
			if err == nil || !strings.Contains(err.Error(), c.cause) {
				t.Errorf("error is %v, want one that says %q", err, c.cause)
			}
			if err != nil && strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Error("the error quotes a key")
			}
		})
	}
}
