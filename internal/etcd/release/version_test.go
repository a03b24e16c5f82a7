package release

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string][2]int{
		"3.6.16": {6, 16}, "3.0.0": {0, 0}, "3.999.999": {999, 999},
		"": {-1}, "v3.6.16": {-1}, "3.6": {-1}, "2.6.16": {-1}, "4.6.16": {-1}, "3.6.016": {-1},
		"3.1000.0": {-1}, "3.6.1000": {-1}, "3.6.16-rc.1": {-1}, "3.6.16+vendor": {-1},
	} {
		minor, patch, err := Parse(text)
		if err != nil {
			minor, patch = -1, 0
		}
		if minor != want[0] || patch != want[1] {
			t.Errorf("%q: %d.%d, %v", text, minor, patch, err)
		}
	}
}

func TestValidateVersion(t *testing.T) {
	for version, allowed := range map[string]bool{
		"3.4.40": false, "3.5.0": true, "3.6.16": true, "3.7.99": true, "3.8.0": false, "3.6": false,
	} {
		if err := ValidateVersion(version); (err == nil) != allowed {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestValidateUpgrade: at most one minor version forward, none back, and 3.6 and 3.7 only from
// the patch that repairs what they would misread.
func TestValidateUpgrade(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"3.6.16", "3.6.16", ""},
		{"3.6.15", "3.6.16", ""},
		{"3.6.16", "3.6.15", ""},
		{"3.5.26", "3.6.16", ""},
		{"3.5.25", "3.6.16", "3.5.26 or later"},
		{"3.5.25", "3.5.35", ""},
		{"3.6.5", "3.6.6", ""},
		{"3.6.11", "3.7.0", ""},
		{"3.6.10", "3.7.0", "3.6.11 or later"},
		{"3.6.10", "3.6.11", ""},
		{"3.4.1", "3.5.35", ""},
		{"3.7.1", "3.7.2", ""},
		{"3.7.1", "3.8.0", ""},
		{"3.5.35", "3.7.0", "to 3.6 first"},
		{"3.6.16", "3.5.35", "older"},
		{"3.7.0", "3.6.16", "older"},
		{"3.6", "3.6.16", "malformed"},
		{"3.6.16", "3.7", "malformed"},
	} {
		err := ValidateUpgrade(c.from, c.to)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestLeavesV2(t *testing.T) {
	for step, want := range map[[2]string]bool{
		{"3.5.35", "3.6.16"}: true, {"3.4.1", "3.7.0"}: true,
		{"3.5.25", "3.5.35"}: false, {"3.6.15", "3.6.16"}: false, {"3.6.16", "3.5.35"}: false, {"3.6.16", "3.7.0"}: false,
		{"", "3.6.16"}: false, {"3.5.35", ""}: false,
	} {
		if got := LeavesV2(step[0], step[1]); got != want {
			t.Errorf("%s: %v", step, got)
		}
	}
}

func TestAgreedMinor(t *testing.T) {
	for version, want := range map[string]int{
		"3.5": 5, "3.6": 6, "": -1, "3": -1, "3.0": -1, "3.6.0": -1, "not decided": -1,
	} {
		minor, known := AgreedMinor(version)
		if !known {
			minor = -1
		}
		if minor != want {
			t.Errorf("%q: %d", version, minor)
		}
	}
}

func TestNotNewer(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"3.5.35", "3.6.16"}: true, {"3.6.17", "3.6.16"}: true, {"3.6.16", "3.5.35"}: false,
		{"", "3.6.16"}: false, {"3.5.35", ""}: false,
	} {
		if got := NotNewer(pair[0], pair[1]); got != want {
			t.Errorf("%s: %v", pair, got)
		}
	}
}

func TestQuota(t *testing.T) {
	for value, want := range map[string]int64{
		"": DefaultQuota, "0": DefaultQuota, "8GiB": DefaultQuota, "-1": -1, "1": 1, " 8589934592 ": 8589934592,
	} {
		if got := Quota(value); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

// TestWithoutATable: arguments of a release that is not known are refused, not accepted unseen.
func TestWithoutATable(t *testing.T) {
	for _, version := range []string{"", "3.6", "3.8.0"} {
		if len(ValidateKnown(version, nil)) == 0 {
			t.Errorf("the arguments of %q are accepted", version)
		}
	}
}

func TestGatesOf(t *testing.T) {
	for value, want := range map[string]string{
		"":                                   "InitialCorruptCheck=true",
		"LeaseCheckpoint=true":               "InitialCorruptCheck=true LeaseCheckpoint=true",
		"A=true, InitialCorruptCheck=false ": "A=true InitialCorruptCheck=false",
	} {
		if got := strings.Join(GatesOf(map[string]string{GatesFlag: value}), " "); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestValidateDowngrade(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"3.6.16", "3.5.35", ""},
		{"3.6.0", "3.5.32", ""},
		{"3.7.3", "3.6.12", ""},
		{"3.6.16", "3.5.31", "3.5.32 or later"},
		{"3.7.3", "3.6.11", "3.6.12 or later"},
		{"3.7.3", "3.5.35", "to 3.6 first"},
		{"3.5.35", "3.4.40", "not a version to which this provider downgrades"},
		{"3.6.16", "3.6.15", "is no downgrade"},
		{"3.5.35", "3.6.16", "is no downgrade"},
		{"3.6", "3.5.35", "malformed"},
		{"3.6.16", "3.5", "malformed"},
	} {
		if err := ValidateDowngrade(c.from, c.to); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestValidateChange(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"3.6.16", "3.5.35", ""},
		{"3.5.35", "3.6.16", ""},
		{"3.6.16", "3.6.15", ""},
		{"3.6.16", "3.5.20", "3.5.32 or later"},
		{"3.5.20", "3.6.16", "3.5.26 or later"},
	} {
		if err := ValidateChange(c.from, c.to); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestOlder(t *testing.T) {
	for _, c := range []struct {
		version, than   string
		minor, precedes bool
	}{
		{"3.5.35", "3.6.16", true, true},
		{"3.6.16", "3.5.35", false, false},
		{"3.6.15", "3.6.16", false, true},
		{"3.6.16", "3.6.16", false, false},
		{"3.6.17", "3.6.16", false, false},
		{"", "3.6.16", false, false},
		{"3.6.16", "", false, false},
	} {
		if IsOlder(c.version, c.than) != c.minor || Precedes(c.version, c.than) != c.precedes {
			t.Errorf("%q and %q: %v, %v", c.version, c.than, IsOlder(c.version, c.than), Precedes(c.version, c.than))
		}
	}
}
