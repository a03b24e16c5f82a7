package pki

import (
	"slices"
	"strings"
	"testing"
)

func TestParseHosts(t *testing.T) {
	hosts := []string{
		"b.example.com", "10.0.0.9", "::1", "A.example.com", "10.0.0.10", "*.example.com",
		"a.example.com", "0:0:0:0:0:0:0:1", "::ffff:10.0.0.9", "1", "node-1.2",
	}
	names, err := parseHosts(hosts)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"*.example.com", "1", "a.example.com", "b.example.com", "node-1.2"}; !slices.Equal(names.dns,
		want) {
		t.Errorf("host names %q, want %q", names.dns, want)
	}
	if want := []string{"10.0.0.9", "10.0.0.10", "::1"}; !slices.Equal(names.addresses, want) {
		t.Errorf("addresses %q, want %q", names.addresses, want)
	}
}

func TestParseHostsRefuses(t *testing.T) {
	tests := map[string]string{
		"":                              "host name is empty",
		"10.0.0.300":                    `"10.0.0.300" looks like an IP address but is none`,
		"010.0.0.1":                     "looks like an IP address",
		"10.0.0.0/24":                   "neither a host name nor an IP address",
		"fe80::1%eth0":                  "neither",
		"[::1]":                         "neither",
		"api.example.com:6443":          "neither",
		"https://api":                   "neither",
		"root@cp1":                      "neither",
		"api.example.com.":              "neither",
		"-cp1":                          "neither",
		"cp_1":                          "neither",
		"a..b":                          "neither",
		"a.*.b":                         "neither",
		"*":                             "neither",
		"bücher.example":                "neither",
		"cp1\n":                         "neither",
		strings.Repeat("a", 64):         "neither",
		strings.Repeat("a.", 127) + "a": "neither",
	}
	for host, wantErr := range tests {
		t.Run(host, func(t *testing.T) {
			_, err := parseHosts([]string{host})
			wantError(t, err, wantErr)
		})
	}
}
