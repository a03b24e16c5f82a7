package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
)

// TestFillMachine: the state has the machine on which the member ran last. Another machine at its address does not
// replace it, and the plan says that the next apply may.
func TestFillMachine(t *testing.T) {
	known, none, pending := types.StringValue("m1"), types.StringNull(), types.StringUnknown()
	for name, c := range map[string]struct {
		before types.String
		status etcd.Status
		want   types.String
		other  bool
	}{
		"its machine":                   {known, etcd.Status{MachineID: "m1", Holds: true}, known, false},
		"its machine, without its data": {known, etcd.Status{MachineID: "m1"}, known, false},
		"another machine":               {known, etcd.Status{MachineID: "m2"}, known, true},
		"another machine, and it runs there": {
			known, etcd.Status{MachineID: "m2", Holds: true}, types.StringValue("m2"), false,
		},
		"a machine that does not say its ID":  {known, etcd.Status{}, known, false},
		"imported":                            {none, etcd.Status{MachineID: "m1"}, known, false},
		"created":                             {pending, etcd.Status{MachineID: "m1", Holds: true}, known, false},
		"not created":                         {pending, etcd.Status{}, none, false},
		"the create ended before it had data": {pending, etcd.Status{MachineID: "m1"}, none, false},
	} {
		m := etcdMemberModel{MachineID: c.before}
		m.fill(c.status)
		if !m.MachineID.Equal(c.want) || m.newMachine != c.other {
			t.Errorf("%s: %s, another one: %t", name, m.MachineID, m.newMachine)
		}
	}
}
