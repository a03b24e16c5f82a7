package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func paths(files []host.File) []string {
	var out []string
	for _, file := range files {
		out = append(out, file.Path)
	}
	return out
}

// TestNoAdminConf: the file is neither written nor kept, and its certificate is not requested
// from an external signer.
func TestNoAdminConf(t *testing.T) {
	s := testSpec(t)
	f := machine.Interpret(host.Facts{
		Files: map[string]host.FileState{
			component.AdminConf: {SHA256: "x", Mode: component.SecretMode, Owner: "root", Group: "root"},
		},
	})
	with, err := decide(s.Replica, f, cptest.Now)
	if err != nil || !slices.Contains(paths(with.files), component.AdminConf) ||
		slices.Contains(with.remove, component.AdminConf) {
		t.Errorf("by default: %v, removed %q, %v", paths(with.files), with.remove, err)
	}
	s.NoAdminConf = true
	without, err := decide(s.Replica, f, cptest.Now)
	if err != nil || slices.Contains(paths(without.files), component.AdminConf) ||
		!slices.Contains(without.remove, component.AdminConf) {
		t.Errorf("without: %v, removed %q, %v", paths(without.files), without.remove, err)
	}
	if !slices.ContainsFunc(drift(s.Replica, f, cptest.Now), func(word string) bool {
		return strings.Contains(word, component.AdminConf+" exists, but is not wanted")
	}) {
		t.Error("one that is there is no drift")
	}
	if missing := drift(s.Replica, machine.Interpret(host.Facts{}), cptest.Now); slices.ContainsFunc(missing,
		func(word string) bool { return strings.Contains(word, component.AdminConf) }) {
		t.Errorf("one that is not there is drift: %q", missing)
	}
	if !slices.Contains(machine.OwnFiles(s.Replica), component.AdminConf) ||
		!slices.Contains(machine.Query(s.Replica).Files, component.AdminConf) {
		t.Error("one that is left over is not looked for")
	}
	s.Bundle = signedElsewhere(t, s)
	delete(s.Bundle.Signed, component.Admin().Name)
	if err := s.Validate(); err != nil {
		t.Errorf("without a signed certificate for it: %v", err)
	}
	s.NoAdminConf = false
	if err := s.Validate(); err == nil {
		t.Error("with it, no signed certificate is asked for")
	}
}
