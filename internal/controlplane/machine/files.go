package machine

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// FileProblem describes how a file differs from the wanted one, or "".
func FileProblem(files map[string]host.FileState, want host.File) string {
	state, ok := files[want.Path]
	if !ok {
		return "is missing"
	}
	if state.SHA256 != Digest(want.Content) {
		return "has different content"
	}
	return accessProblem(state, want.Mode == component.PublicMode, want.Owner)
}

// accessProblem checks the mode and the owner of a file.
func accessProblem(state host.FileState, public bool, owner string) string {
	mode := component.SecretMode
	if public {
		mode = component.PublicMode
	}
	var problems []string
	if state.Mode.Perm() != mode {
		problems = append(problems, fmt.Sprintf("has mode %04o, wanted %04o", state.Mode.Perm(), mode))
	}
	if state.Owner != owner || state.Group != owner {
		problems = append(problems, fmt.Sprintf("belongs to %s:%s, wanted %s:%s", state.Owner, state.Group, owner, owner))
	}
	return strings.Join(problems, " and ")
}

// CertificateProblems returns why a certificate and its key must be replaced, or get their modes. A key that other
// users can read, or that does not match the certificate, is as invalid as an expired
// certificate.
func CertificateProblems(s component.Replica, c component.Certificate, f Observed, now time.Time) []string {
	certificate, ok := f.Facts.Files[c.Path]
	key, keyThere := f.Facts.Files[component.KeyPath(c.Path)]
	switch {
	case !ok:
		return []string{c.Path + " is missing"}
	case !keyThere:
		return []string{component.KeyPath(c.Path) + " is missing"}
	}
	problems := s.Bundle.Check(c.Leaf, certificate.Content, now)
	problems = append(problems, s.Bundle.Renewal(c.Leaf, certificate.Content, s.EarlyRenewal, now)...)
	problems = append(problems, f.issuedFileProblems(c.Path, certificate, true, "root")...)
	return append(problems, f.issuedFileProblems(component.KeyPath(c.Path), key, false, c.Owner)...)
}

// KubeconfigProblems returns why a kubeconfig must be replaced.
func KubeconfigProblems(s component.Replica, k component.Kubeconfig, f Observed, now time.Time) []string {
	state, ok := f.Facts.Files[k.Path]
	if !ok {
		return []string{k.Path + " is missing"}
	}
	info, err := pki.ParseKubeconfig(f.Kubeconfigs[k.Path])
	if err != nil {
		return []string{fmt.Sprintf("%s cannot be used: %v", k.Path, err)}
	}
	var problems []string
	if info.Server != k.Server {
		problems = append(problems, fmt.Sprintf("%s: server is %s, wanted %s", k.Path, info.Server, k.Server))
	}
	if info.Cluster != s.Bundle.ClusterName {
		problems = append(problems, fmt.Sprintf("%s: the cluster's name is %q, wanted %q",
			k.Path, info.Cluster, s.Bundle.ClusterName))
	}
	if info.User != k.Leaf.CommonName {
		problems = append(problems, fmt.Sprintf("%s: user is %q, wanted %q", k.Path, info.User, k.Leaf.CommonName))
	}
	if !slices.Equal(pki.CertificatesIn(info.CA), pki.CertificatesIn(s.Bundle.Roots(pki.Kubernetes))) {
		problems = append(problems, k.Path+": trusts another authority than this cluster's")
	}
	for _, text := range s.Bundle.Check(k.Leaf, info.ClientCertificate, now) {
		problems = append(problems, k.Path+": "+text)
	}
	for _, text := range s.Bundle.Renewal(k.Leaf, info.ClientCertificate, s.EarlyRenewal, now) {
		problems = append(problems, k.Path+": "+text)
	}
	return append(problems, f.issuedFileProblems(k.Path, state, false, k.Owner)...)
}

// Narrowed returns the issued files that fewer users can read than should, as benchmarks of security ask for, with the
// modes that they should have. Nobody else has read or written them, so they are kept.
func (f Observed) Narrowed(s component.Replica) map[string]fs.FileMode {
	all := map[string]fs.FileMode{}
	add := func(path string, mode fs.FileMode, owner string) {
		state, there := f.Facts.Files[path]
		if there && state.Owner == owner && state.Group == owner && state.Mode.Perm() != mode &&
			state.Mode.Perm()&^mode == 0 {
			all[path] = mode
		}
	}
	for _, c := range component.Certificates(s) {
		add(c.Path, component.PublicMode, "root")
		add(component.KeyPath(c.Path), component.SecretMode, c.Owner)
	}
	for _, k := range component.Kubeconfigs(s) {
		add(k.Path, component.SecretMode, k.Owner)
	}
	return all
}

// Widened returns f as it is once narrowed files have their modes.
func (f Observed) Widened(s component.Replica) Observed {
	files := maps.Clone(f.Facts.Files)
	for path, mode := range f.Narrowed(s) {
		state := files[path]
		state.Mode = mode
		files[path] = state
	}
	f.Facts.Files = files
	return f
}

// WithKeyOf returns f as it would be with a key of c that nobody else can read.
func (f Observed) WithKeyOf(c component.Certificate) Observed {
	state := f.Facts.Files[component.KeyPath(c.Path)]
	state.Mode, state.Owner, state.Group = component.SecretMode, c.Owner, c.Owner
	return f.with(component.KeyPath(c.Path), state)
}

// with returns f with another state of a file.
func (f Observed) with(path string, state host.FileState) Observed {
	files := map[string]host.FileState{}
	maps.Copy(files, f.Facts.Files)
	files[path] = state
	f.Facts.Files = files
	return f
}

// issuedFileProblems compares an issued file with the record of what was issued.
func (f Observed) issuedFileProblems(path string, state host.FileState, public bool, owner string) []string {
	var problems []string
	switch f.Record.Issued[path] {
	case state.SHA256:
	case "":
		if f.Record.ClusterID == "" && f.IsInherited() {
			break // kubeadm has issued it
		}
		problems = append(problems, path+" was not issued by the provider")
	default:
		problems = append(problems, path+" was changed after it was issued")
	}
	if text := accessProblem(state, public, owner); text != "" {
		problems = append(problems, path+" "+text)
	}
	return problems
}

// ConfigDigest returns the digest of every file whose content depends on s alone. It is known
// before the replica exists, and equals Observed.ConfigDigest of a machine that has exactly those
// files. It does not cover certificates and keys.
func ConfigDigest(s component.Replica) string {
	digests := map[string]string{}
	for _, file := range stableFiles(s) {
		digests[file.Path] = Digest(file.Content)
	}
	AddConfigDigests(s, digests)
	return digestOf(digests)
}

// ConfigDigest returns the ConfigDigest of the observed files.
func (f Observed) ConfigDigest(s component.Replica) string {
	digests := map[string]string{}
	for _, file := range stableFiles(s) {
		digests[file.Path] = f.Facts.Files[file.Path].SHA256
	}
	for _, p := range component.PlacedFiles(s) {
		digests[p.Path] = f.Facts.Files[p.Path].SHA256
	}
	return digestOf(digests)
}

func stableFiles(s component.Replica) []host.File {
	var out []host.File
	for _, file := range component.Files(s) {
		if file.Mode == component.PublicMode {
			out = append(out, file)
		}
	}
	for _, c := range component.Of(s) {
		out = append(out, runtime.Of(s).Definition(c))
	}
	return out
}

func digestOf(digests map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		b.WriteString(digests[path] + "  " + path + "\n")
	}
	return Digest([]byte(b.String()))
}
