package haproxy

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func TestValidateAddress(t *testing.T) {
	for address, cause := range map[string]string{
		"10.0.0.100":         "",
		"fd00::100":          "",
		"api.example.com":    "not an IP address",
		"":                   "not an IP address",
		"0.0.0.0":            "cannot be a virtual IP",
		"127.0.0.1":          "cannot be a virtual IP",
		"::1":                "cannot be a virtual IP",
		"fe80::1":            "cannot be a virtual IP",
		"224.0.0.18":         "cannot be a virtual IP",
		"fd00:0::100":        `use "fd00::100"`,
		"fd00::1%eth0":       "zone",
		"10.0.0.100\nserver": "not an IP address",
	} {
		check(t, address, ValidateAddress(address), cause)
	}
}

func TestValidateHosts(t *testing.T) {
	for name, test := range map[string]struct {
		hosts map[string]string
		cause string
	}{
		"three":        {map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}, ""},
		"none":         {nil, "at least one host"},
		"a name":       {map[string]string{"a": "cp1.example.com"}, "not an IP address"},
		"the VIP":      {map[string]string{"a": "10.0.0.100"}, "the endpoint's own address"},
		"two alike":    {map[string]string{"a": "10.0.0.1", "b": "10.0.0.1"}, "hosts a and b have the same address"},
		"mixed":        {map[string]string{"a": "fd00::1"}, "different IP versions"},
		"another form": {map[string]string{"a": "FD00::1"}, `use "fd00::1"`},
		"a bad name":   {map[string]string{"a b": "10.0.0.1"}, "only letters"},
	} {
		check(t, name, ValidateHosts("10.0.0.100", test.hosts), test.cause)
	}
}

func TestValidateNumbersAndNames(t *testing.T) {
	check(t, "port 6443", endpoint.ValidatePort(6443), "")
	check(t, "port 0", endpoint.ValidatePort(0), "not between")
	check(t, "port 65536", endpoint.ValidatePort(65536), "not between")
	check(t, "id 255", validateVirtualRouterID(255), "")
	check(t, "id 256", validateVirtualRouterID(256), "not between")
	check(t, "eth0.100", ValidateInterface("eth0.100"), "")
	check(t, "a shell word", ValidateInterface("eth0;reboot"), "not the name")
	check(t, "too long", ValidateInterface("abcdefghijklmnop"), "not the name")
}

func TestParseServer(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.11:6443":    "10.0.0.11:6443",
		"[fd00:0::11]:6443": "[fd00::11]:6443",
		"10.0.0.11":         "",
		"10.0.0.11:0":       "",
		"cp1:6443":          "",
	} {
		got, err := parseServer("cp1", address)
		if err == nil && got.Address.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", address, got.Address, err)
		}
	}
	if _, err := parseServer("cp1'; reboot", "10.0.0.11:6443"); err == nil {
		t.Error("a name with a quote was accepted")
	}
}

func check(t *testing.T, what string, err error, cause string) {
	t.Helper()
	switch {
	case cause == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case cause != "" && (err == nil || !strings.Contains(err.Error(), cause)):
		t.Errorf("%s: got %v, wanted %q", what, err, cause)
	}
}
