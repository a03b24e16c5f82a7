package targets

import (
	"strings"
	"testing"
)

// TestValidate: what an endpoint's address and targets must not be.
func TestValidate(t *testing.T) {
	for _, address := range []string{"10.0.0.100", "fd00::100", "api.example.com", "api"} {
		if err := ValidateAddress(address); err != nil {
			t.Error(err)
		}
	}
	for address, want := range map[string]string{
		"api_example": "neither an IP address nor a DNS name", "": "neither", "0.0.0.0": "other machines can reach",
		"127.0.0.1": "other machines can reach", "224.0.0.1": "other machines can reach",
		"FD00::100": `use "fd00::100"`, "::ffff:10.0.0.100": `use "10.0.0.100"`,
		"fe80::1": "other machines can reach", "fd00::1%eth0": "other machines can reach",
		"$(reboot)": "neither",
	} {
		if err := ValidateAddress(address); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
	if err := Validate("10.0.0.100", map[string]string{"cp1": "10.0.0.11", "cp2": "fd00::12"}); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		targets map[string]string
		want    string
	}{
		"none":           {nil, "at least one target"},
		"a name":         {map[string]string{"cp1": "cp1.test"}, "target cp1: \"cp1.test\" is not an IP address"},
		"another form":   {map[string]string{"cp1": "fd00:0::11"}, `target cp1: "fd00:0::11" is not in canonical form`},
		"the endpoint's": {map[string]string{"cp1": "10.0.0.100"}, "the endpoint's own address"},
		"twice": {
			map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.11"}, "targets cp1 and cp2 have the same address 10.0.0.11",
		},
	} {
		if err := Validate("10.0.0.100", c.targets); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
