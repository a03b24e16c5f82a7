package endpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestFileDrift(t *testing.T) {
	wanted := host.File{Path: "/etc/x", Mode: 0o644, Content: []byte("a\n")}
	digest := sha256.Sum256(wanted.Content)
	same := host.FileState{Mode: 0o644, Owner: "root", Group: "root", SHA256: hex.EncodeToString(digest[:])}
	altered := func(change func(*host.FileState)) *host.FileState {
		state := same
		change(&state)
		return &state
	}
	lines := func(path, observed, wanted string) []string { return []string{path + " " + observed + wanted} }
	for name, c := range map[string]struct {
		state *host.FileState
		lines func(path, observed, wanted string) []string
		want  []string
	}{
		"absent": {nil, nil, []string{"/etc/x is not there"}},
		"same":   {&same, lines, nil},
		"read":   {altered(func(s *host.FileState) { s.SHA256, s.Content = "", "a\n" }), nil, nil},
		"mode and owner": {altered(func(s *host.FileState) { s.Mode, s.Owner = 0o600, "bird" }), nil, []string{
			"/etc/x: mode is 0600, wanted 0644", "/etc/x: owner is bird:root, wanted root:root",
		}},
		"content":        {altered(func(s *host.FileState) { s.SHA256 = "0" }), lines, []string{"/etc/x: content differs"}},
		"lines":          {altered(func(s *host.FileState) { s.Content = "b\n" }), lines, []string{"/etc/x b\na\n"}},
		"secret content": {altered(func(s *host.FileState) { s.Content = "b\n" }), nil, []string{"/etc/x: content differs"}},
	} {
		observed := map[string]host.FileState{}
		if c.state != nil {
			observed["/etc/x"] = *c.state
		}
		if got := FileDrift(observed, wanted, c.lines); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
