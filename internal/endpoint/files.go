package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// FileDrift describes how one file on a machine differs from the wanted one, which belongs to root.
// lines describes the difference of a content that was read; nil means that it is only named.
func FileDrift(
	observed map[string]host.FileState, wanted host.File, lines func(path, observed, wanted string) []string,
) []string {
	state, there := observed[wanted.Path]
	if !there {
		return []string{wanted.Path + " is not there"}
	}
	var differences []string
	if state.Mode != wanted.Mode {
		differences = append(differences, fmt.Sprintf("%s: mode is %#o, wanted %#o", wanted.Path, state.Mode, wanted.Mode))
	}
	if state.Owner != "root" || state.Group != "root" {
		differences = append(differences, fmt.Sprintf("%s: owner is %s:%s, wanted root:root", wanted.Path,
			problem.Line(state.Owner), problem.Line(state.Group)))
	}
	switch {
	case sameContent(state, wanted):
		return differences
	case state.Content == "" || lines == nil:
		return append(differences, wanted.Path+": content differs")
	}
	return append(differences, lines(wanted.Path, state.Content, string(wanted.Content))...)
}

func sameContent(state host.FileState, wanted host.File) bool {
	if state.Content != "" {
		return state.Content == string(wanted.Content)
	}
	digest := sha256.Sum256(wanted.Content)
	return state.SHA256 == hex.EncodeToString(digest[:])
}

// UnitDrift describes why a unit does not run, or does not start at boot.
func UnitDrift(name string, state host.UnitState) []string {
	switch {
	case state.Load != "loaded":
		return []string{name + " is not there"}
	case state.Active != "active":
		return []string{name + " is " + state.Active}
	case state.Enabled != "enabled":
		return []string{name + " is not enabled"}
	}
	return nil
}
