package main

import (
	"os"
	"testing"
)

func TestLeaveUnsaid(t *testing.T) {
	for name, c := range map[string]struct{ set, want string }{
		"no log":             {"", "ERROR"},
		"a log":              {"TF_LOG", ""},
		"the provider's log": {"TF_LOG_PROVIDER", ""},
		"the SDK's":          {"TF_LOG_SDK", "DEBUG"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"TF_LOG", "TF_LOG_PROVIDER", "TF_LOG_SDK"} {
				t.Setenv(variable, "")
			}
			if c.set != "" {
				t.Setenv(c.set, "DEBUG")
			}
			leaveUnsaid()
			if got := os.Getenv("TF_LOG_SDK"); got != c.want {
				t.Errorf("TF_LOG_SDK is %q, want %q", got, c.want)
			}
		})
	}
}
