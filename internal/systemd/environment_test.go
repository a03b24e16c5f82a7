package systemd

import (
	"maps"
	"strings"
	"testing"
)

func TestEnvironment(t *testing.T) {
	want := map[string]string{
		"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "10.0.0.0/8,.svc", "GODEBUG": "a=1,b=2", "EMPTY": "",
		"QUOTED": `a "b" \n 'c'; $HOME $$ %n %% ` + "ü", "_1": " spaces ", memoryLimitVariable: "1GiB",
	}
	if err := ValidateEnvironment(want); err != nil {
		t.Fatal(err)
	}
	limits := Limits{MemoryMax: "1G"}
	unit := "[Service]\nEnvironmentFile=-/etc/etcd.env\n" + limits.Lines("etcd.service") + EnvironmentLines(want) +
		"Environment=BY=hand\n"
	if got := EnvironmentIn(unit); !maps.Equal(got, want) {
		t.Errorf("%q\nis read as %q", unit, got)
	}
	if got := EnvironmentIn("[Service]\n" + limits.Lines("etcd.service")); got != nil {
		t.Errorf("without variables: %q", got)
	}
	if LimitsIn(unit) != limits {
		t.Errorf("limits are read as %+v", LimitsIn(unit))
	}
}

func TestEnvironmentRefused(t *testing.T) {
	for want, variables := range map[string]map[string]string{
		`"A B" is no name`:       {"A B": "1"},
		`"" is no name`:          {"": "1"},
		`"1A" is no name`:        {"1A": "1"},
		`"A=B" is no name`:       {"A=B": "1"},
		"the value of A contain": {"A": "1\nExecStartPre=/bin/true"},
		"the value of B contain": {"B": "1\x00"},
	} {
		if err := ValidateEnvironment(variables); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", variables, err)
		}
	}
}

func TestProxyWithoutExceptions(t *testing.T) {
	const proxy = "http://proxy:3128"
	for want, all := range map[string][]map[string]string{
		"": {
			nil,
			{"GODEBUG": "a=1"},
			{"HTTPS_PROXY": ""},
			{"HTTPS_PROXY": proxy, "NO_PROXY": "10.0.0.0/8"},
			{"HTTP_PROXY": proxy, "no_proxy": ".svc"},
			{"NO_PROXY": "*"},
		},
		"HTTPS_PROXY": {{"HTTPS_PROXY": proxy}, {"HTTPS_PROXY": proxy, "NO_PROXY": ""}},
		"https_proxy": {{"https_proxy": proxy}},
		"http_proxy":  {{"http_proxy": proxy}},
		"HTTP_PROXY":  {{"HTTP_PROXY": proxy}},
	} {
		for _, variables := range all {
			if got := ProxyWithoutExceptions(variables); got != want {
				t.Errorf("%v: %q, want %q", variables, got, want)
			}
		}
	}
}
