package release

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateVersion(t *testing.T) {
	for version, want := range map[string]error{
		"1.34.4": nil, "1.32.0": nil, "1.36.11": nil, "1.35.0-rc.1": nil,
		"1.31.9": ErrVersionUnknown, "1.38.0": ErrVersionUnknown,
		"": ErrVersionMalformed, "1.34": ErrVersionMalformed, "v1.34.4": ErrVersionMalformed,
		"1.34.04": ErrVersionMalformed, "2.0.0": ErrVersionMalformed, "1.34.4 ": ErrVersionMalformed,
		"latest": ErrVersionMalformed,
	} {
		if err := ValidateVersion(version); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", version, err, want)
		}
	}
	for version, without := range map[string]bool{"v1.34.4": true, "v1.34": false, "1.34": false} {
		if err := ValidateVersion(version); strings.Contains(message(err), "write it without v") != without {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestValidateStep(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"1.34.4", "1.34.4", ""},
		{"1.34.4", "1.34.1", ""},
		{"1.33.9", "1.34.0", ""},
		{"1.32.1", "1.34.4", "go to 1.33 first"},
		{"1.34.4", "1.33.9", "never lowered"},
		{"1.34.4", "x", "malformed"},
		{"x", "1.34.4", "malformed"},
	} {
		if err := ValidateStep(c.from, c.to); (c.want == "") != (err == nil) || !strings.Contains(message(err), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}

func TestSameMinor(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.34.4", "1.34.9"}: true, {"1.34.4", "1.34.4"}: true, {"1.34.4", "1.35.4"}: false,
		{"", "1.34.4"}: false, {"1.34.4", ""}: false, {"", ""}: false,
		{"", "1.0.1"}: false, {"1.0.1", ""}: false, // a version that cannot be read is not 1.0
	} {
		if got := SameMinor(pair[0], pair[1]); got != want {
			t.Errorf("%q: %v", pair, got)
		}
	}
}

func TestOlder(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.34.4", "1.34.10"}: true, {"1.34.10", "1.34.4"}: false, {"1.34.4", "1.34.4"}: false,
		{"1.35.0-rc.0", "1.35.0"}: true,
		// Not semantic: neither older nor newer.
		{"1.33", "1.34.4"}: false, {"1.34.4", "1.35"}: false, {"1.33", "1.34"}: false,
	} {
		if got := older(pair[0], pair[1]); got != want {
			t.Errorf("%q: %v", pair, got)
		}
	}
}
