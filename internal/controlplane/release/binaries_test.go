package release

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// addedLater are the feature gates that a later patch release of the same minor version has, from which the table was
// read.
var addedLater = map[string][]string{"1.32.2": {"OrderedNamespaceDeletion"}}

// built returns the release of a minor version that tests can build: the one that the table was read from, or an
// earlier patch release.
func built(t *testing.T, minor int) (version string) {
	t.Helper()
	for _, name := range build.Names() {
		if !strings.HasPrefix(name, "kubernetes") {
			continue
		}
		pinned, err := build.Version(name)
		if err != nil {
			t.Fatal(err)
		}
		if pinned == readFrom[minor] || version == "" && strings.HasPrefix(pinned, fmt.Sprintf("1.%d.", minor)) {
			version = pinned
		}
	}
	return version
}

// TestReleasesSayTheSame compares the table with the components themselves, for each minor version of which a release
// was built on this computer.
func TestReleasesSayTheSame(t *testing.T) {
	dir, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	for minor, read := range readFrom {
		version := built(t, minor)
		if slices.Contains(onMachines, minor) && version != read {
			t.Errorf("the table was read from %s, and tests build %q", read, version)
		}
		t.Run(cmp.Or(version, read), func(t *testing.T) {
			t.Parallel()
			if version == "" {
				testrun.Elsewhere(t, "no test can build it: its table was read from the sources of the release")
			}
			programs := filepath.Join(dir, "components", "kubernetes-v"+version)
			for _, component := range Components() {
				program := filepath.Join(programs, component)
				if _, err := os.Stat(program); err != nil {
					testrun.NotBuilt(t, "Kubernetes "+version)
				}
				sameFlags(t, program, component, minor)
				sameGates(t, program, component, version, minor)
			}
		})
	}
}

var (
	helpFlag = regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--([a-zA-Z0-9_-]+)`)
	helpGate = regexp.MustCompile(`(?m)^ *kube:([A-Za-z0-9]+)=true\|false`)
)

// listed returns the first groups of form's matches.
func listed(form *regexp.Regexp, help string) []string {
	var names []string
	for _, match := range form.FindAllStringSubmatch(help, -1) {
		names = append(names, strings.ReplaceAll(match[1], "_", "-"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sameFlags: a component accepts exactly the flags that the table marks as known. The help
// lists them except for deprecated ones.
func sameFlags(t *testing.T, program, component string, minor int) {
	t.Helper()
	shown := listed(helpFlag, run(t, program, "--help"))
	for _, n := range flagHistory {
		if !strings.Contains(n.components, letters[component]) || slices.Contains(shown, n.name) {
			continue
		}
		output := run(t, program, "--"+n.name+"=?", "--version")
		what, _ := n.history.at(minor)
		if taken := !strings.Contains(output, "unknown flag: --"+n.name); taken != (what == known) {
			t.Errorf("%s 1.%d takes --%s: %v", component, minor, n.name, taken)
		}
	}
	for _, name := range shown {
		if what, _ := find(flagHistory, component, name).at(minor); what != known && name != "help" {
			t.Errorf("%s 1.%d: the help shows --%s", component, minor, name)
		}
	}
}

// sameGates: the help lists only free gates. Every free gate can be set, every locked one
// rejects the other value, and the others are not recognized.
func sameGates(t *testing.T, program, component, version string, minor int) {
	t.Helper()
	in := func(n named) state {
		if slices.Contains(addedLater[version], n.name) {
			return unknown
		}
		what, _ := n.history.at(minor)
		return what
	}
	var other []string // the value of each gate that a locked one rejects
	for _, n := range gateHistory {
		switch what := in(n); {
		case !strings.Contains(n.components, letters[component]):
		case what == lockedOn || what == free:
			other = append(other, n.name+"=false")
		case what == lockedOff:
			other = append(other, n.name+"=true")
		case component == Scheduler: // the component that starts fastest; almost all gates are of all three
			output := run(t, program, "--feature-gates="+n.name+"=true", "--version")
			if !strings.Contains(output, "unrecognized feature gate: "+n.name) {
				t.Errorf("%s 1.%d: the feature gate %s is known: %s", component, minor, n.name, output)
			}
		}
	}
	output := run(t, program, "--feature-gates="+strings.Join(other, ","), "--version")
	if strings.Contains(output, "unrecognized feature gate") {
		t.Errorf("%s 1.%d: %s", component, minor, output)
	}
	for _, n := range gateHistory {
		if !strings.Contains(n.components, letters[component]) {
			continue
		}
		what := in(n)
		refused := strings.Contains(output, fmt.Sprintf("cannot set feature gate %s to", n.name))
		if locked := what == lockedOn || what == lockedOff; refused != locked {
			t.Errorf("%s 1.%d: the feature gate %s is locked: %v", component, minor, n.name, refused)
		}
	}
	for _, name := range listed(helpGate, run(t, program, "--help")) {
		if what, _ := find(gateHistory, component, name).at(minor); what != free {
			t.Errorf("%s 1.%d: the help shows the feature gate %s", component, minor, name)
		}
	}
}

// run returns the output of a program, whatever its exit status.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if len(output) == 0 {
		t.Fatalf("%s %v says nothing: %v", program, args, err)
	}
	return string(output)
}
