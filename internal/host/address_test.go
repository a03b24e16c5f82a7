package host

import (
	"strings"
	"testing"
)

func TestAddressForm(t *testing.T) {
	for _, text := range []string{"10.0.0.11", "fd00::11", "2001:db8::1:0:0:1"} {
		if err := CheckAddress(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"":                   "is not an IP address",
		"[fd00::11]":         "is not an IP address",
		"fd00::11/64":        "is not an IP address",
		"010.0.0.1":          "is not an IP address",
		"FD00::11":           `use "fd00::11"`,
		"fd00:0::11":         `use "fd00::11"`,
		"fd00:0:0:0:0:0:0:1": `use "fd00::1"`,
		"::ffff:10.0.0.11":   `use "10.0.0.11"`,
		"fd00::11%eth0":      "has a zone",
		"fe80::1%eth0":       "cannot be reached",
		"fe80::1":            "cannot be reached",
		"::":                 "cannot be reached",
		"::1":                "cannot be reached",
		"ff02::1":            "cannot be reached",
		"127.0.0.1":          "cannot be reached",
	} {
		if err := CheckAddress(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %s", text, err, want)
		}
	}
	if err := CheckAddressForm("127.0.0.1"); err != nil {
		t.Error(err) // the machines of tests
	}
}
