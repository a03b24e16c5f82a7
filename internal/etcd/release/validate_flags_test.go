package release

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

func TestWhatReleasesKnow(t *testing.T) {
	for _, c := range []struct {
		version string
		args    map[string]string
		want    string // part of the error; "" for none
	}{
		{"3.5.35", map[string]string{"experimental-initial-corrupt-check": "true", "enable-v2": "false", "proxy": "off"}, ""},
		{"3.6.16", map[string]string{"experimental-corrupt-check-time": "1h"}, ""}, // deprecated, but still accepted
		{"3.6.16", map[string]string{"experimental-enable-lease-checkpoint": "true"}, ""},
		{"3.6.16", map[string]string{
			"corrupt-check-time": "1h",
			"feature-gates":      "InitialCorruptCheck=true,LeaseCheckpoint=true",
		}, ""},
		{"3.7.3", map[string]string{
			"corrupt-check-time": "1h", "max-snapshots": "3",
			"feature-gates": "AllAlpha=true, PriorityRequest=true",
		}, ""},
		{"3.6.16", map[string]string{"log-level": "not-yet"}, ""},
		{"3.5.99", map[string]string{"experimental-warning-unary-request-duration": "1s"}, "unknown to etcd 3.5"},
		{"3.7.3", map[string]string{
			"experimental-enable-lease-checkpoint": "true", "feature-gates": "LeaseCheckpoint=false",
		}, `use feature-gates = "InitialCorruptCheck=true,LeaseCheckpoint=true"`},
		// Removed.
		{"3.6.16", map[string]string{"enable-v2": "true"}, `extra argument "enable-v2": removed in etcd 3.6: the v2 API`},
		{"3.7.3", map[string]string{"enable-v2": "true"}, "removed in etcd 3.6"},
		{"3.6.16", map[string]string{"proxy-read-timeout": "0"}, "etcd grpc-proxy"},
		{"3.6.16", map[string]string{"v2-deprecation": "not-yet"}, `no longer accepts the value "not-yet"`},
		{"3.5.35", map[string]string{"v2-deprecation": "not-yet"}, ""},
		{"3.6.16", map[string]string{"v2-deprecation": "write-only"}, ""},
		// Renamed.
		{
			"3.7.3",
			map[string]string{"experimental-corrupt-check-time": "1h"},
			`extra argument "experimental-corrupt-check-time": removed in etcd 3.7, renamed in 3.6; ` +
				`use corrupt-check-time = "1h"`,
		},
		{
			"3.7.3",
			map[string]string{"experimental-initial-corrupt-check": "false"},
			`use feature-gates = "InitialCorruptCheck=false"`,
		},
		{
			"3.7.3",
			map[string]string{"experimental-enable-lease-checkpoint": "true"},
			`use feature-gates = "InitialCorruptCheck=true,LeaseCheckpoint=true"`,
		},
		{
			"3.7.3",
			map[string]string{
				"experimental-enable-lease-checkpoint": "true", "experimental-compact-hash-check-enabled": "true",
				"feature-gates": "SetMemberLocalAddr=true",
			},
			`use feature-gates = "InitialCorruptCheck=true,SetMemberLocalAddr=true,CompactHashCheck=true,LeaseCheckpoint=true"` +
				"\n" + `extra argument "experimental-enable-lease-checkpoint"`,
		},
		{"3.6.16", map[string]string{"experimental-warning-unary-request-duration": "1s"}, ""},
		// Both names at once.
		{
			"3.6.16",
			map[string]string{"experimental-corrupt-check-time": "1h", "corrupt-check-time": "1h"},
			`both this flag and its new name are set, and the new name is set; use corrupt-check-time = "1h"`,
		},
		{
			"3.6.16",
			map[string]string{"experimental-watch-progress-notify-interval": "9s"},
			`use watch-progress-notify-interval = "9s"`,
		},
		{"3.6.16", map[string]string{
			"experimental-initial-corrupt-check": "true",
			"feature-gates":                      "InitialCorruptCheck=true",
		}, "does not start if both this flag and its new name are set"},
		// the provider then leaves the new one out
		{"3.6.16", map[string]string{"experimental-initial-corrupt-check": "false"}, ""},
		{
			"3.6.16",
			map[string]string{"experimental-initial-corrupt-check": "true", "feature-gates": "LeaseCheckpoint=true"},
			"",
		},
		{
			"3.6.16",
			map[string]string{"experimental-enable-lease-checkpoint": "true", "feature-gates": "LeaseCheckpoint=true"},
			"its new name are set",
		},
		// as the server does
		{"3.6.16", map[string]string{
			"experimental-enable-lease-checkpoint": "true",
			"feature-gates":                        "LeaseCheckpointPersist=true",
		}, "its new name are set"},
		// Not added yet, or unknown.
		{
			"3.5.35",
			map[string]string{"max-learners": "2"},
			"unknown to etcd 3.5, added in 3.6; remove it until version is 3.6",
		},
		{"3.5.99", map[string]string{"feature-gates": "LeaseCheckpoint=true"}, "added in 3.6"},
		{"3.5.35", map[string]string{"memory-mlock": "true"}, `etcd 3.5 names this flag "experimental-memory-mlock"`},
		{"3.5.35", map[string]string{"experimental-warning-unary-request-duration": "1s"}, "unknown to etcd 3.5"},
		{"3.6.16", map[string]string{"quota-backend-byte": "1"}, `did you mean "quota-backend-bytes"?`},
		{"3.6.99", map[string]string{"quota-backend-byte": "1"}, `did you mean "quota-backend-bytes"?`},
		{"3.6.16", map[string]string{"no-such-flag": "1"}, "unknown to etcd 3.6; remove it"},
		{"3.6.99", map[string]string{"no-such-flag": "1"}, ""}, // a release that was not read
		{"", map[string]string{"no-such-flag": "1"}, ""},
		{"3.9.0", map[string]string{"no-such-flag": "1"}, ""}, // refused where the version is set
		// Feature gates.
		{
			"3.6.16",
			map[string]string{"feature-gates": "PriorityRequest=true"},
			"added in 3.7; remove it until version is 3.7",
		},
		{"3.7.3", map[string]string{"feature-gates": "LeaseCheckpiont=true"}, `did you mean "LeaseCheckpoint"?`},
		{
			"3.7.3",
			map[string]string{"feature-gates": "NoSuchGate=true"},
			`feature gate "NoSuchGate": unknown to etcd 3.7; remove it`,
		},
		{"3.7.99", map[string]string{"feature-gates": "NoSuchGate=true"}, ""},
		{"3.7.3", map[string]string{"feature-gates": "LeaseCheckpoint"}, "use NAME=true or NAME=false"},
		{"3.7.3", map[string]string{"feature-gates": ""}, ""},
	} {
		wantError(t, c.version+" "+strings.Join(slices.Sorted(maps.Keys(c.args)), " "), ValidateExtraArgs(c.version, c.args),
			c.want)
	}
}

func TestOwnedFlagsExist(t *testing.T) {
	for flag := range Owned {
		if !slices.Contains(everyMinor, flag) {
			t.Errorf("etcd has no flag %q", flag)
		}
	}
}

// TestReleasesSayTheSame compares the tables with the server itself, for each release that
// they were read from and that was built on this computer. The help text must contain what
// the tables contain, and where the two differ the flag is tried (3.7 still explains two
// that it does not accept). The flags are parsed before --version takes effect.
func TestReleasesSayTheSame(t *testing.T) {
	dir, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	for minor, version := range ReadFrom {
		t.Run(version, func(t *testing.T) {
			program := filepath.Join(dir, "components", "etcd-v"+version, "etcd")
			if _, err := os.Stat(program); err != nil {
				testrun.NotBuilt(t, "etcd "+version)
			}
			shown := shownIn(run(t, program, "--help"))
			for _, flag := range slices.Concat(knownFlags(minor), removedBefore(minor), shown) {
				want := slices.Contains(knownFlags(minor), flag)
				if want && slices.Contains(shown, flag) {
					continue
				}
				if got := !strings.Contains(run(t, program, "--"+flag+"=?", "--version"),
					"flag provided but not defined: -"+flag); got != want {
					t.Errorf("etcd %s takes --%s: %v", version, flag, got)
				}
			}
			for gate, since := range gatesSince {
				if got := strings.Contains(run(t, program, "--feature-gates="+gate+"=true", "--version"),
					"etcd Version: "); got != (minor >= since) {
					t.Errorf("etcd %s takes the feature gate %s: %v", version, gate, got)
				}
			}
		})
	}
}

// removedBefore returns the flags that a minor version no longer accepts.
func removedBefore(minor int) []string {
	var flags []string
	for _, r := range removals {
		if r.until <= minor {
			flags = append(flags, r.flag)
		}
	}
	return flags
}

// shownIn returns the flags that a help text explains.
func shownIn(help string) []string {
	var flags []string
	for line := range strings.Lines(help) {
		if flag, ok := strings.CutPrefix(line, "  --"); ok {
			flag, _, _ = strings.Cut(strings.TrimSpace(flag), " ")
			flag, _, _ = strings.Cut(flag, "=")
			flags = append(flags, flag)
		}
	}
	return flags
}

// run returns the server's output, even if it rejects its arguments.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	if len(output) == 0 {
		t.Fatalf("%s %v says nothing: %v", program, args, err)
	}
	return string(output)
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}
