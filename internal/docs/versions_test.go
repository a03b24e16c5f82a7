package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// matrixFile is the document with the matrix of versions.
const matrixFile = "templates/guides/upgrading.md"

// supported is a minor version that the provider accepts.
type supported struct {
	product, minor, readFrom string
	onMachines               bool
}

// matrix returns the supported versions of both products.
func matrix() []supported {
	var all []supported
	for _, s := range release.SupportedVersions() {
		all = append(all, supported{"Kubernetes", fmt.Sprintf("1.%d", s.Minor), s.ReadFrom, s.OnMachines})
	}
	for _, s := range etcdrelease.SupportedVersions() {
		all = append(all, supported{"etcd", fmt.Sprintf("3.%d", s.Minor), s.ReadFrom, s.OnMachines})
	}
	return all
}

// pinned returns the version of a set of programs.
func pinned(t *testing.T, set string) string {
	t.Helper()
	version, err := build.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// isDefault reports whether examples and tests use the release unless another one is chosen.
func (s supported) isDefault(t *testing.T) bool {
	return s.readFrom == pinned(t, strings.ToLower(s.product))
}

func (s supported) row(t *testing.T) string {
	state := "accepted only"
	if s.onMachines {
		state = "run on machines"
	}
	if s.isDefault(t) {
		state += "; the default"
	}
	return fmt.Sprintf("| %s %s | %s | %s |\n", s.product, s.minor, s.readFrom, state)
}

// TestMatrix checks that the guide has the matrix of versions as the code has it.
func TestMatrix(t *testing.T) {
	want := "| version | flags and feature gates of | support |\n|---|---|---|\n"
	for _, s := range matrix() {
		want += s.row(t)
	}
	if !strings.Contains(documents(t)[matrixFile], "\n"+want+"\n") {
		t.Errorf("%s does not contain the matrix of versions:\n%s", matrixFile, want)
	}
}

// TestRunOnMachines checks that each release that is run on machines is one that tests can build.
func TestRunOnMachines(t *testing.T) {
	var built []string
	for _, name := range build.Names() {
		if strings.HasPrefix(name, "etcd") || strings.HasPrefix(name, "kubernetes") {
			built = append(built, pinned(t, name))
		}
	}
	for _, s := range matrix() {
		if can := slices.Contains(built, s.readFrom); can != s.onMachines {
			t.Errorf("%s %s is run on machines: %v, and tests can build it: %v", s.product, s.readFrom, s.onMachines, can)
		}
	}
}

// span returns the first and the last of the minor versions: "1.33 to 1.36".
func span(minors []string) string { return minors[0] + " to " + minors[len(minors)-1] }

// TestVersionsInOneSentence checks that the README and the changelog say the same as the matrix.
func TestVersionsInOneSentence(t *testing.T) {
	run := map[string][]string{}
	var accepted []string
	for _, s := range matrix() {
		if s.onMachines {
			run[s.product] = append(run[s.product], s.minor)
		} else {
			accepted = append(accepted, s.product+" "+s.minor)
		}
	}
	want := fmt.Sprintf("Tests run Kubernetes %s and etcd %s on machines; %s are accepted only",
		span(run["Kubernetes"]), span(run["etcd"]), strings.Join(accepted, " and "))
	for _, file := range []string{"README.md", "CHANGELOG.md"} {
		if !strings.Contains(strings.Join(strings.Fields(documents(t)[file]), " "), want) {
			t.Errorf("%s does not say: %s", file, want)
		}
	}
}

// TestVersionsOfExamples checks that what readers copy has the default versions. The minor
// version before is what examples upgrade from.
func TestVersionsOfExamples(t *testing.T) {
	var known []string
	for _, product := range []string{"kubernetes", "etcd"} {
		known = append(known, pinned(t, product), pinned(t, build.MinorBefore(product, 1)))
	}
	quoted, count := regexp.MustCompile(`"((?:1\.3|3\.)[0-9]\.[0-9]+)"`), 0
	for file, text := range copied(t) {
		if file == matrixFile { // it also shows upgrades through older versions
			continue
		}
		for _, match := range quoted.FindAllStringSubmatch(text, -1) {
			count++
			if !slices.Contains(known, match[1]) {
				t.Errorf("%s has the version %s, want one of %q", file, match[1], known)
			}
		}
	}
	if count == 0 {
		t.Error("found no versions: the configurations are not where this test looks")
	}
}
