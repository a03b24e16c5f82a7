package host

import (
	"fmt"
	"regexp"
)

// artifactRoot is the directory of artifacts on a machine.
const artifactRoot = "/opt/kube"

// Artifact is one program of a product at a version.
type Artifact struct {
	Product string // "etcd", "kubernetes"
	Version string // without "v"
	Name    string // "etcd", "kube-apiserver"
}

// Path returns where the artifact is installed: /opt/kube/PRODUCT/VERSION/NAME. Versions are
// installed side by side; units refer to one of them.
func (a Artifact) Path() string {
	return artifactRoot + "/" + a.Product + "/" + a.Version + "/" + a.Name
}

func (a Artifact) String() string { return a.Name + " " + a.Version }

// artifactNamePattern prevents the parts of an artifact from forming a path of their own.
var artifactNamePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

func (a Artifact) check() error {
	for _, word := range []string{a.Product, a.Version, a.Name} {
		if !artifactNamePattern.MatchString(word) {
			return fmt.Errorf("artifact %q of %q at version %q: %q is not a plain word", a.Name, a.Product, a.Version, word)
		}
	}
	return nil
}
