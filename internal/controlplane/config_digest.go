package controlplane

import (
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ConfigDigest returns the digest of every file whose content depends on s alone. It is known
// before the replica exists, and equals Status.ConfigDigest of a machine that has exactly those
// files. It does not cover certificates and keys.
func ConfigDigest(s component.Replica) string {
	digests := map[string]string{}
	for _, file := range stableFiles(s) {
		digests[file.Path] = digest(file.Content)
	}
	return digestOf(digests)
}

// configDigest returns the ConfigDigest of the observed files.
func (f observed) configDigest(s component.Replica) string {
	digests := map[string]string{}
	for _, file := range stableFiles(s) {
		digests[file.Path] = f.facts.Files[file.Path].SHA256
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
		out = append(out, unit.File(c))
	}
	return out
}

func digestOf(digests map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(digests)) {
		b.WriteString(digests[path] + "  " + path + "\n")
	}
	return digest([]byte(b.String()))
}
