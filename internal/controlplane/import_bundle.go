package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// Files that kubeadm writes in addition to those of a replica.
const (
	frontProxyKey             = component.PKIDir + "/front-proxy-ca.key"
	etcdCAKey                 = component.EtcdDir + "/ca.key"
	apiServerManifest         = machine.ManifestDir + "/" + release.APIServer + ".yaml"
	controllerManagerManifest = machine.ManifestDir + "/" + release.ControllerManager + ".yaml"
)

// ImportBundle reads the parts of its cluster's bundle that a machine has. It changes nothing.
// The machine of a replica has neither the key of the etcd CA nor that of the front-proxy CA; a
// machine of kubeadm has all keys, but for that of an external etcd. etcd is the machine that has it, or nil.
func (r *Replicas) ImportBundle(ctx context.Context, h, etcd *host.Host) (*pki.Bundle, error) {
	secret := []string{
		component.CACert, component.CAKey, component.FrontProxyCA, frontProxyKey, component.EtcdClientCA, component.EtcdCA,
		etcdCAKey, component.SAKey, component.EncryptionConfigPath, component.APIServerCert,
		apiServerManifest, controllerManagerManifest,
	}
	facts, err := h.Observe(ctx, host.Query{Contents: []string{machine.RecordPath}, Script: machine.PrintFiles(secret)})
	if err != nil {
		return nil, fmt.Errorf("look for a PKI on %s: %w", h.Address(), err)
	}
	files := machine.PrintedFiles(facts.Output, secret)
	if err := addEncryption(ctx, files, h); err != nil {
		return nil, err
	}
	if etcd != nil {
		if err := addEtcdKey(ctx, files, etcd); err != nil {
			return nil, err
		}
	}
	b, err := bundleFromFiles(facts.Files[machine.RecordPath].Content, files)
	if err != nil {
		return nil, &problem.Problem{
			Summary: "PKI bundle not imported", Host: h.Address(), Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "give the address of a machine with a replica, or a backup of the bundle (file:PATH).",
		}
	}
	return b, nil
}

// addEncryption adds the configuration of encryption that an API server of kubeadm has, at its path.
func addEncryption(ctx context.Context, files map[string]string, h *host.Host) error {
	file, err := encryptionOf(files)
	if file == "" || err != nil { // bundleFromFiles says so, if that counts
		return nil
	}
	facts, err := h.Observe(ctx, host.Query{Script: machine.PrintFiles([]string{file})})
	if err != nil {
		return fmt.Errorf("look for %s on %s: %w", file, h.Address(), err)
	}
	maps.Copy(files, machine.PrintedFiles(facts.Output, []string{file}))
	return nil
}

// encryptionOf returns the path on the machine of the configuration of encryption that the API server of kubeadm reads,
// or "".
func encryptionOf(files map[string]string) (string, error) {
	apiServer, err := manifestIn(files, apiServerManifest)
	if err != nil {
		return "", err
	}
	return pod.EncryptionFile(apiServer)
}

// manifestIn parses a manifest among the files of a machine. There is none of a component that does not run.
func manifestIn(files map[string]string, at string) (staticpod.Inherited, error) {
	if files[at] == "" {
		return staticpod.Inherited{}, nil
	}
	m, err := pod.ParseInherited(files[at])
	if err != nil {
		return m, fmt.Errorf("read %s: %w", at, err)
	}
	return m, nil
}

// addEtcdKey adds the key of the etcd CA, which another machine has, to the files of a replica's machine.
func addEtcdKey(ctx context.Context, files map[string]string, etcd *host.Host) error {
	paths := []string{component.EtcdCA, etcdCAKey}
	facts, err := etcd.Observe(ctx, host.Query{Script: machine.PrintFiles(paths)})
	if err != nil {
		return fmt.Errorf("look for the etcd CA on %s: %w", etcd.Address(), err)
	}
	others := machine.PrintedFiles(facts.Output, paths)
	if err := sameEtcdCA(files, others); err != nil {
		return &problem.Problem{
			Summary: "PKI bundle not imported", Host: etcd.Address(), Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
			Next: "name the machine on which kubeadm has created the etcd CA; or leave it out, and rotate the etcd CA " +
				"afterwards.",
		}
	}
	files[etcdCAKey] = others[etcdCAKey]
	return nil
}

// sameEtcdCA returns why the etcd CA of another machine is not the one of a replica's machine, with its key; or nil.
func sameEtcdCA(files, others map[string]string) error {
	own := pki.CertificatesIn(cmp.Or(files[component.EtcdClientCA], files[component.EtcdCA]))
	switch {
	case others[etcdCAKey] == "":
		return errors.New(etcdCAKey + " is not there")
	case len(own) == 0 || !slices.Equal(own, pki.CertificatesIn(others[component.EtcdCA])):
		return errors.New(component.EtcdCA + " is not the CA of the control plane's etcd")
	}
	return nil
}

// bundleFromFiles builds a bundle from the files of a machine.
func bundleFromFiles(recordText string, files map[string]string) (*pki.Bundle, error) {
	known, err := machine.ReadRecord(recordText)
	if err != nil {
		return nil, err
	}
	parts := pki.MachineFiles{
		ClusterID: known.ClusterID, ClusterName: known.ClusterName, Generations: known.Generations,
		ServiceAccountKey: files[component.SAKey], Leaf: files[component.APIServerCert],
		Authorities: map[pki.Authority]pki.KeyPair{
			pki.Kubernetes: {Certificate: files[component.CACert], PrivateKey: files[component.CAKey]},
			pki.FrontProxy: {Certificate: files[component.FrontProxyCA], PrivateKey: files[frontProxyKey]},
			pki.Etcd:       {Certificate: files[component.EtcdClientCA], PrivateKey: files[etcdCAKey]},
		},
	}
	if known.ClusterID == "" {
		err = addKubeadmFiles(&parts, files)
	} else if parts.Encryption, err = component.EncryptionFrom(files[component.EncryptionConfigPath]); err != nil {
		err = fmt.Errorf("read %s: %w", component.EncryptionConfigPath, err)
	}
	if err != nil {
		return nil, err
	}
	return pki.FromMachine(parts)
}

// addKubeadmFiles completes the bundle from a machine that was set up by kubeadm.
func addKubeadmFiles(parts *pki.MachineFiles, files map[string]string) error {
	switch {
	case files[component.CACert] == "" || files[component.SAKey] == "":
		return errors.New("neither a replica of this provider nor a control plane of kubeadm's is on the machine")
	case files[component.EtcdCA] == "":
		return fmt.Errorf("%s is not there: the etcd of this control plane is elsewhere", component.EtcdCA)
	}
	parts.Authorities[pki.Etcd] = pki.KeyPair{Certificate: files[component.EtcdCA], PrivateKey: files[etcdCAKey]}
	file, err := encryptionOf(files)
	if err != nil { // else the next restart would take its keys away
		return err
	}
	if file != "" {
		if parts.Encryption, parts.ReadsPlain, err = component.AdoptedEncryption(files[file]); err != nil {
			return fmt.Errorf("the API server encrypts at rest by %s, which cannot be taken over: %w", file, err)
		}
	}
	controllerManager, err := manifestIn(files, controllerManagerManifest)
	parts.ClusterName = cmp.Or(controllerManager.Flags["cluster-name"], "kubernetes") // kubeadm's default
	return err
}

// ImportKubeconfig reads the administrator kubeconfig from a machine of a replica, or of
// kubeadm. It contains a private key.
func (r *Replicas) ImportKubeconfig(ctx context.Context, h *host.Host) (string, error) {
	facts, err := h.Observe(ctx, host.Query{Script: machine.PrintFiles([]string{component.AdminConf})})
	if err != nil {
		return "", fmt.Errorf("look for a kubeconfig on %s: %w", h.Address(), err)
	}
	text, ok := machine.PrintedFiles(facts.Output, []string{component.AdminConf})[component.AdminConf]
	if !ok {
		return "", &problem.Problem{
			Summary: "Kubeconfig not imported", Host: h.Address(), Cause: component.AdminConf + " is not there",
			Unchanged: problem.Nothing,
			Next: "give the address of a machine with a replica that has one (admin_conf), or a kubeconfig of this " +
				"computer (file:PATH); without an import a new one is issued.",
		}
	}
	return text, nil
}

// Installed returns the key pairs of leaves that are on a machine, by the name of the
// leaf, which is also the path that kubeadm uses.
func (r *Replicas) Installed(ctx context.Context, h *host.Host, leaves []pki.Leaf) (map[string]pki.KeyPair, error) {
	var paths []string
	for _, leaf := range leaves {
		certificate := path.Join(component.PKIDir, leaf.Name) + ".crt"
		paths = append(paths, certificate, component.KeyPath(certificate))
	}
	facts, err := h.Observe(ctx, host.Query{Script: machine.PrintFiles(paths)})
	if err != nil {
		return nil, fmt.Errorf("look for certificates on %s: %w", h.Address(), err)
	}
	files, pairs := machine.PrintedFiles(facts.Output, paths), map[string]pki.KeyPair{}
	for i, leaf := range leaves {
		pairs[leaf.Name] = pki.KeyPair{Certificate: files[paths[2*i]], PrivateKey: files[paths[2*i+1]]}
	}
	return pairs, nil
}
