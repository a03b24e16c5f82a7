package release

import (
	"strings"
	"testing"
)

func TestWhatReleasesKnow(t *testing.T) {
	gates := func(value string) map[string]string { return map[string]string{FeatureGates: value} }
	flag := func(name string) map[string]string { return map[string]string{name: "1"} }
	for _, c := range []struct {
		component, version string
		args               map[string]string
		want               string // part of the error; "" means none
	}{
		// Flags.
		{APIServer, "1.34.4", flag("event-ttl"), ""},
		{APIServer, "1.34.4", flag("apiserver-count"), ""}, // deprecated, but still accepted
		{APIServer, "1.32.13", flag("cloud-provider"), ""},
		{
			APIServer, "1.33.13", flag("cloud-provider"),
			`flag "cloud-provider": Kubernetes 1.33 removed it from kube-apiserver; drop it: cloud providers are external`,
		},
		{APIServer, "1.36.99", flag("cloud-config"), "Kubernetes 1.33 removed it"},
		{ControllerManager, "1.36.3", flag("cloud-provider"), ""},
		{ControllerManager, "1.36.3", flag("concurrent-service-syncs"), ""},
		{
			ControllerManager, "1.37.2", flag("concurrent-service-syncs"),
			"Kubernetes 1.37 removed it from kube-controller-manager; drop it: it has had no effect",
		},
		{
			APIServer, "1.33.13", flag("coordinated-leadership-retry-period"),
			`kube-apiserver 1.33.13 does not know it, 1.34 added it; leave it out until version is 1.34`,
		},
		{APIServer, "1.34.4", flag("coordinated-leadership-retry-period"), ""},
		{Scheduler, "1.35.4", flag("tls-curve-preferences"), "1.36 added it"},
		{Scheduler, "1.34.4", flag("event-ttl"), "it is one of kube-apiserver"},
		{APIServer, "1.34.4", flag("event-tll"), `did you mean "event-ttl"?`},
		{APIServer, "1.34.99", flag("event-tll"), `did you mean "event-ttl"?`},
		{Scheduler, "1.34.4", flag("event-tll"), "nor does any other release"},   // not a name of this component
		{APIServer, "1.34.4", flag("cloud-confi"), "nor does any other release"}, // not a name of this minor
		{Scheduler, "1.34.4", flag("cloud-config"), "it is one of kube-controller-manager"},
		{APIServer, "1.34.4", flag("no-such-flag"), "nor does any other release of 1.32 to 1.37; drop it"},
		{APIServer, "1.34.99", flag("no-such-flag"), ""}, // a release that the table was not generated from
		{APIServer, "1.34.0-rc.1", flag("no-such-flag"), "does not know it"},
		{APIServer, "", flag("no-such-flag"), ""},
		{APIServer, "1.31.4", flag("no-such-flag"), ""}, // rejected where the version is set
		{
			APIServer, "1.35.4",
			map[string]string{"cloud-config": "x", "event-tll": "1h"},
			"removed it from kube-apiserver; drop it: cloud providers are external since 1.31, and read their own " +
				"configuration\nflag \"event-tll\"",
		},
		{Scheduler, "1.34.4", map[string]string{hiddenMetricsFlag: "1.33"}, ""},
		{Scheduler, "1.35.4", map[string]string{hiddenMetricsFlag: "1.33"}, `write "1.34", or drop it`},
		// Feature gates.
		{APIServer, "1.34.4", gates("WatchList=false,kube:NodeLogQuery=true"), ""},
		{APIServer, "1.34.4", gates("AllAlpha=true,AllBeta=false"), ""},
		{APIServer, "1.34.4", gates(""), ""},
		{APIServer, "1.34.4", gates("other:NoSuchGate=true"), ""},
		{Scheduler, "1.34.4", gates("APIServerTracing=true"), ""}, // locked, but to this value
		{Scheduler, "1.33.13", gates("APIServerTracing=false"), ""},
		{
			Scheduler, "1.34.4", gates("APIServerTracing=false"),
			`feature gate "APIServerTracing": it is always on since 1.34 and cannot be changed; drop it from feature-gates`,
		},
		{Scheduler, "1.34.4", map[string]string{FeatureGates: "APIServerTracing=false", "emulated-version": "1.33"}, ""},
		{APIServer, "1.36.3", gates("GitRepoVolumeDriver=true"), "always off since 1.36"},
		{ControllerManager, "1.36.3", gates("ControllerManagerReleaseLeaderElectionLockOnExit=true"), ""},
		{
			Scheduler, "1.36.3", gates("ControllerManagerReleaseLeaderElectionLockOnExit=true"),
			"kube-scheduler 1.36.3 does not know it, it is one of kube-apiserver",
		},
		{APIServer, "1.36.3", gates("DRAExtendedResource=false"), ""},
		{APIServer, "1.37.2", gates("DRAExtendedResource=false"), "always on since 1.37"},
		{APIServer, "1.32.13", gates("AppArmor=true"), ""},
		{
			APIServer, "1.33.13", gates("AppArmor=true"),
			`feature gate "AppArmor": Kubernetes 1.33 removed it, what it switched is always on ` +
				`since 1.32 or before; drop it from feature-gates`,
		},
		{
			APIServer, "1.36.99", gates("StructuredAuthorizationConfiguration=true"),
			"Kubernetes 1.36 removed it, what it switched is always on",
		},
		{APIServer, "1.35.4", gates("AllowServiceLBStatusOnNonLB=false"), "always off since 1.32"},
		{APIServer, "1.36.3", gates("InTreePluginPortworxUnregister=true"), "cannot be switched any more"},
		{APIServer, "1.36.99", gates("InTreePluginPortworxUnregister=true"), ""}, // may have returned
		{ControllerManager, "1.33.13", gates("EnvFiles=true"), "1.34 added it; leave it out until version is 1.34"},
		{ControllerManager, "1.33.99", gates("EnvFiles=true"), ""},
		{ControllerManager, "1.34.4", gates("WatchLits=true"), `did you mean "WatchList"?`},
		{ControllerManager, "1.34.4", gates("NoSuchGate=true"), "does not know it"},
		{ControllerManager, "1.34.99", gates("NoSuchGate=true"), ""},
		{ControllerManager, "", gates("NoSuchGate=true"), ""},
		{APIServer, "1.33.13", gates("AppArmor=true,APIListChunking=true"), "\nfeature gate \"APIListChunking\""},
	} {
		err := ValidateFlags(c.component, c.version, c.args)
		if got := message(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("%s %s, %v: %q, want %q", c.component, c.version, c.args, got, c.want)
		}
	}
}

func TestEveryRemovedFlagHasItsRemedy(t *testing.T) {
	want := map[string]bool{}
	for component, letter := range letters {
		for _, n := range flagHistory {
			if what, _ := n.history.at(NewestMinor); what == gone && strings.Contains(n.components, letter) {
				want[component+" "+n.name] = true
			}
		}
	}
	for _, r := range removedFlags {
		if key := r.component + " " + r.name; !want[key] {
			t.Errorf("%s: it was not removed", key)
		} else {
			delete(want, key)
		}
	}
	for key := range want {
		t.Errorf("%s: what to write instead is not said", key)
	}
}

func TestEveryMinorWasRead(t *testing.T) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		if got, err := Minor(readFrom[minor]); err != nil || got != minor {
			t.Errorf("1.%d was read from %q", minor, readFrom[minor])
		}
	}
	if len(readFrom) != NewestMinor-OldestMinor+1 {
		t.Errorf("read were %v", readFrom)
	}
}

// TestWithoutATable: a release that the tables do not know is an error, never an empty target.
func TestWithoutATable(t *testing.T) {
	for _, version := range []string{"x", "1.31.4", "1.38.0"} {
		if _, err := targetOf(APIServer, version); err == nil {
			t.Errorf("%s is a target", version)
		}
	}
	if what, _ := (history{OldestMinor - 1: known}).at(OldestMinor); what != unknown {
		t.Error("a minor before the tables counts")
	}
	if got := insteadOf(APIServer, "no-such-flag"); got != "drop it" {
		t.Errorf("instead of a flag without a remedy: %q", got)
	}
}

func TestParseGates(t *testing.T) {
	for value, want := range map[string]int{
		"": 0, "A=true": 1, " A = true , ,kube:B=false": 2, "other:A=true": 0,
		"A": -1, "A=maybe": -1, "=true": -1, "kube:=true": -1, "other:A=maybe": -1,
	} {
		gates, err := ParseGates(value)
		n := len(gates)
		if err != nil {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %v, %v", value, gates, err)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
