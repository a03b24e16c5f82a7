package bench

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestCompareRestores: the goal in seconds is for 1 GB only. tools/plots finds the rows by their names.
func TestCompareRestores(t *testing.T) {
	for size, want := range map[Size][]string{
		10 * megabyte: {
			"by hand, restore of one member, then learners, database of 10 MB, against all members from copies: 0.80, , true",
			"terraform apply, restore of a snapshot, database of 10 MB, against a script: 1.25, ≤ 1.3 ×, true",
			"terraform apply, recovery from one survivor of three, database of 10 MB, against a script: 1.50, ≤ 1.3 ×, false",
		},
		gigabyte: {
			"by hand, restore of one member, then learners, database of 1 GB, against all members from copies: 0.80, , true",
			"terraform apply, restore of a snapshot, database of 1 GB, against a script: 1.25, ≤ 1.3 ×, true",
			"three members serve again: terraform apply, restore of a snapshot, database of 1 GB: 0.00, ≤ 60 s, true",
			"terraform apply, recovery from one survivor of three, database of 1 GB, against a script: 1.50, ≤ 1.3 ×, false",
			"three members serve again: terraform apply, recovery from one survivor of three, database of 1 GB: " +
				"0.00, ≤ 60 s, false",
		},
	} {
		d := database{size: size}
		var got []string
		for _, r := range compareRestores(d, times{
			"terraform: " + d.named(restored): {50, 51, 40},
			"by hand: " + d.named(byLearners): {40, 39, 41}, "by hand: " + d.named(byCopies): {50, 50, 90},
			"terraform: " + d.named(recovered): {61, 60.9, 62}, "by hand: " + d.named(recovered): {40.7, 40.6, 41},
		}) {
			got = append(got, describe(r))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", size, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func describe(r Result) string {
	return fmt.Sprintf("%s: %.2f, %s, %v", r.Name, r.Ratio, r.Goal, r.Met)
}

// TestPipe: what fails in either program is an error, and nothing hangs.
func TestPipe(t *testing.T) {
	sh := func(script string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", script) }
	var out strings.Builder
	reads := sh("cat")
	reads.Stdout = &out
	if err := pipe(sh("echo copied"), reads); err != nil || out.String() != "copied\n" {
		t.Errorf("%v, %q", err, out.String())
	}
	for name, programs := range map[string][2]string{
		"the first fails":          {"echo part; exit 3", "cat >/dev/null"},
		"the second fails":         {"echo all", "cat >/dev/null; exit 3"},
		"the second reads nothing": {"yes", "exit 3"},
	} {
		if err := pipe(sh(programs[0]), sh(programs[1])); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestFasterScript: the reference of a restore is the faster way by hand, whichever that is.
func TestFasterScript(t *testing.T) {
	d := database{size: gigabyte}
	for name, c := range map[string]struct{ learners, copies, want float64 }{
		"learners": {20, 30, 20}, "copies": {30, 20, 20},
	} {
		results := compareRestores(d, times{
			"terraform: " + d.named(restored): {26}, "terraform: " + d.named(recovered): {26},
			"by hand: " + d.named(recovered): {26}, "by hand: " + d.named(byLearners): {c.learners},
			"by hand: " + d.named(byCopies): {c.copies},
		})
		if got := results[1]; got.Reference != c.want || !got.Met {
			t.Errorf("%s: %+v, want the reference %v", name, got, c.want)
		}
	}
}

// TestVolumeSize: the provider wants 1 GiB of free space before it creates a member, beside what a file system takes.
func TestVolumeSize(t *testing.T) {
	if got := volumeSize(10 * megabyte); got < 18*(1<<30)/10 {
		t.Errorf("the volume for 10 MB has %d bytes", got)
	}
}
