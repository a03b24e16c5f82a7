package controlplane

import (
	"fmt"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// fileProblem says in problems how a file differs from what is wanted, or "".
func fileProblem(files map[string]host.FileState, want host.File) string {
	state, ok := files[want.Path]
	if !ok {
		return "is missing"
	}
	if state.SHA256 != digest(want.Content) {
		return "has different content"
	}
	return accessProblem(state, want.Mode == component.PublicMode, want.Owner)
}

// accessProblem judges who may read a file.
func accessProblem(state host.FileState, public bool, owner string) string {
	mode := component.SecretMode
	if public {
		mode = component.PublicMode
	}
	var faults []string
	if state.Mode.Perm() != mode {
		faults = append(faults, fmt.Sprintf("has mode %04o, wanted %04o", state.Mode.Perm(), mode))
	}
	if state.Owner != owner || state.Group != owner {
		faults = append(faults, fmt.Sprintf("belongs to %s:%s, wanted %s:%s", state.Owner, state.Group, owner, owner))
	}
	return strings.Join(faults, " and ")
}

// certificateProblems says why a certificate and its key cannot stay as found.
// A key that others could read, or that was not issued here for this
// certificate, is as wrong as an expired certificate.
func certificateProblems(s component.Replica, c component.Certificate, f observed, now time.Time) []string {
	certificate, ok := f.facts.Files[c.Path]
	key, keyThere := f.facts.Files[component.KeyPath(c.Path)]
	switch {
	case !ok:
		return []string{c.Path + " is missing"}
	case !keyThere:
		return []string{component.KeyPath(c.Path) + " is missing"}
	}
	faults := s.Bundle.Check(c.Leaf, certificate.Content, now)
	faults = append(faults, s.Bundle.Renewal(c.Leaf, certificate.Content, s.EarlyRenewal, now)...)
	faults = append(faults, f.issuedFileProblems(c.Path, certificate, true, "root")...)
	return append(faults, f.issuedFileProblems(component.KeyPath(c.Path), key, false, c.Owner)...)
}

// kubeconfigProblems says why a kubeconfig cannot stay as found.
func kubeconfigProblems(s component.Replica, k component.Kubeconfig, f observed, now time.Time) []string {
	state, ok := f.facts.Files[k.Path]
	if !ok {
		return []string{k.Path + " is missing"}
	}
	info, err := pki.ParseKubeconfig(f.kubeconfigs[k.Path])
	if err != nil {
		return []string{fmt.Sprintf("%s cannot be used: %v", k.Path, err)}
	}
	var faults []string
	if info.Server != k.Server {
		faults = append(faults, fmt.Sprintf("%s: server is %s, wanted %s", k.Path, info.Server, k.Server))
	}
	if info.User != k.Leaf.CommonName {
		faults = append(faults, fmt.Sprintf("%s: user is %q, wanted %q", k.Path, info.User, k.Leaf.CommonName))
	}
	if strings.TrimSpace(info.CA) != strings.TrimSpace(s.Bundle.Roots(pki.Kubernetes)) {
		faults = append(faults, k.Path+": trusts another authority than this cluster's")
	}
	for _, fault := range s.Bundle.Check(k.Leaf, info.ClientCertificate, now) {
		faults = append(faults, k.Path+": "+fault)
	}
	for _, fault := range s.Bundle.Renewal(k.Leaf, info.ClientCertificate, s.EarlyRenewal, now) {
		faults = append(faults, k.Path+": "+fault)
	}
	return append(faults, f.issuedFileProblems(k.Path, state, false, k.Owner)...)
}

// issuedFileProblems compares an issued file with the record of what was issued.
func (f observed) issuedFileProblems(path string, state host.FileState, public bool, owner string) []string {
	var faults []string
	switch f.record.Issued[path] {
	case state.SHA256:
	case "":
		faults = append(faults, path+" was not issued by the provider")
	default:
		faults = append(faults, path+" was changed after it was issued")
	}
	if fault := accessProblem(state, public, owner); fault != "" {
		faults = append(faults, path+" "+fault)
	}
	return faults
}
