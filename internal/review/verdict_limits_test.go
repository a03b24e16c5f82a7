package review

import (
	"strings"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	closed := &Hours{TimeZone: "UTC", From: "02:00", To: "05:00"}
	if err := closed.parse(); err != nil {
		t.Fatal(err)
	}
	limits := func(renewal, repair *Limits) Policy { return Policy{Renewal: renewal, Repair: repair} }
	for name, test := range map[string]struct {
		plan   func(t *testing.T) map[string]any
		policy Policy
		reason string // "" if it is applied
	}{
		"a renewal is not allowed": {renewing, limits(nil, wide.Repair), "the policy does not allow a renewal"},
		"a repair is not allowed":  {repairing, limits(wide.Renewal, nil), "the policy does not allow a repair"},
		"as many machines":         {renewing, limits(&Limits{MaxMachines: 2}, nil), ""},
		"too many machines": {
			renewing,
			limits(&Limits{MaxMachines: 1}, nil),
			"2 machines change, and the policy allows 1",
		},
		"too many to repair": {
			repairing,
			limits(nil, &Limits{MaxMachines: 2, Restarts: &yes}),
			"3 machines change, and the policy allows 2",
		},
		"not at noon": {
			renewing,
			limits(&Limits{MaxMachines: 2, Hours: closed}, nil),
			"only every day from 02:00 to 05:00, UTC",
		},
		"no restarts": {
			repairing,
			limits(nil, &Limits{MaxMachines: 9}),
			code(replica1) + ": its repair may restart what serves",
		},
		"no restarts, a renewal":  {renewing, limits(&Limits{MaxMachines: 9}, &Limits{MaxMachines: 9}), ""},
		"no restarts, it is down": {stoppedOnes, limits(nil, &Limits{MaxMachines: 9}), ""},
		"one to repair on the day of renewals": {
			mixed,
			limits(&Limits{MaxMachines: 2}, &Limits{MaxMachines: 1, Restarts: &yes}),
			"",
		},
		"too many to renew beside a repair": {
			mixed,
			limits(&Limits{MaxMachines: 1}, &Limits{MaxMachines: 9, Restarts: &yes}),
			"2 machines change, and the policy allows 1 for a renewal",
		},
		"too many to repair beside renewals": {
			twoToRepair,
			limits(&Limits{MaxMachines: 9}, &Limits{MaxMachines: 1, Restarts: &yes}),
			"2 machines change, and the policy allows 1 for a repair",
		},
		"a repair beside renewals that are not allowed": {
			mixed,
			limits(nil, wide.Repair),
			"the policy does not allow a renewal",
		},
		"renewals at noon beside a repair that must wait": {
			mixed,
			limits(&Limits{MaxMachines: 9}, &Limits{MaxMachines: 9, Restarts: &yes, Hours: closed}),
			"the policy allows a repair only every day from 02:00",
		},
	} {
		v := judged(t, test.plan(t), test.policy, noon)
		text := strings.Join(v.Reasons, "\n")
		if v.Automatic != (test.reason == "") || !strings.Contains(text, test.reason) || test.reason == "" && text != "" {
			t.Errorf("%s: %+v", name, v)
		}
		if v.Class == ClassOther {
			t.Errorf("%s: a limit changes the class: %+v", name, v)
		}
	}
}

// stoppedOnes is a repair of a member that is stopped, and of a replica that is out of rotation.
func stoppedOnes(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "nothing")
	delete(d, "prior_state") // the data source observed otherwise
	repaired(t, d, member3, "cp3: etcd.service is inactive, wanted active")
	change := changeOf(t, d, replica2)
	attributes(change["before"])["registered"] = false
	repaired(t, d, replica2, "cp2 (10.89.0.12): not registered")
	return d
}

// mixed is a plan that repairs one replica on the day on which certificates of two other machines are renewed.
func mixed(t *testing.T) map[string]any {
	t.Helper()
	d := renewing(t)
	repaired(t, d, replica2, "cp2 (10.89.0.12): kube-scheduler: kube-scheduler.service is inactive")
	return d
}

// twoToRepair is that with another repair, on a machine whose certificates are renewed as well.
func twoToRepair(t *testing.T) map[string]any {
	t.Helper()
	d := mixed(t)
	repaired(t, d, endpointAddress, "cp1 (10.89.0.11): kube-endpoint-haproxy.service is inactive")
	return d
}

// TestMixedText: the comment says what happens on how many machines.
func TestMixedText(t *testing.T) {
	d := mixed(t)
	drilled(t, d, noon.Add(-721*time.Hour), "720h")
	const want = "**May be applied without a person**: only drift is repaired, on 1 machine; certificates are renewed, " +
		"on 2 machines; a restore drill runs."
	if v := judged(t, d, wide, noon); v.String() != want || len(v.Machines) != 3 {
		t.Errorf("%s\n%+v", v, v)
	}
}
