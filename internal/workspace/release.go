package workspace

import (
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// Release is what a control plane runs, by package build's names.
type Release struct{ Etcd, Kubernetes string }

// Versions are the release's own, without a "v".
func (r Release) Versions() (etcd, kubernetes string, err error) {
	if etcd, err = build.Version(r.Etcd); err != nil {
		return "", "", fmt.Errorf("look up a release: %w", err)
	}
	if kubernetes, err = build.Version(r.Kubernetes); err != nil {
		return "", "", fmt.Errorf("look up a release: %w", err)
	}
	return etcd, kubernetes, nil
}

// Variables give the release to the example control-plane.
func (r Release) Variables() (map[string]any, error) {
	etcd, kubernetes, err := r.Versions()
	return map[string]any{"etcd_version": etcd, "kubernetes_version": kubernetes}, err
}
