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
}

func TestValidateStep(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"1.34.4", "1.34.4", ""},
		{"1.34.4", "1.34.1", ""},
		{"1.33.9", "1.34.0", ""},
		{"1.32.1", "1.34.4", "go to 1.33 first"},
		{"1.34.4", "1.33.9", "never lowered"},
		{"1.34.4", "x", "malformed"},
	} {
		if err := ValidateStep(c.from, c.to); (c.want == "") != (err == nil) || !strings.Contains(message(err), c.want) {
			t.Errorf("%s to %s: %v, want %q", c.from, c.to, err, c.want)
		}
	}
}
