package controlplane

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestUnits(t *testing.T) {
	s := testSpec(t)
	s.PodCIDRs = []string{"10.244.0.0/16"}
	for _, c := range components(s.Replica) {
		golden(t, unitName(c.name), string(unitDefinition(c).Content))
	}
}

func golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("it is not as in %s; it is\n%s", path, have)
	}
}

func TestUnitsCanBeReadBack(t *testing.T) {
	s := testSpec(t)
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {
		"spaces":  "a b  c",
		"quotes":  `say "it's" \ so`,
		"percent": "100%n",
		"dollar":  "$HOME ${PATH}",
		"empty":   "",
		"equals":  "a=b,c=d",
		"other":   "a;b",
	}}
	for _, c := range components(s.Replica) {
		executable, flags, err := unitParse(string(unitDefinition(c).Content))
		if err != nil {
			t.Fatal(err)
		}
		if executable != c.program || !maps.Equal(flags, unitFlags(c)) {
			t.Errorf("%s: read back %s and %v", c.name, executable, systemd.FlagDifferences(flags, unitFlags(c)))
		}
	}
}
