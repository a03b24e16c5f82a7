package review

import (
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	closed := &Hours{TimeZone: "UTC", From: "02:00", To: "05:00"}
	if err := closed.parse(); err != nil {
		t.Fatal(err)
	}
	limits := func(renewal, repair *Limits) Policy { return Policy{renewal, repair} }
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
