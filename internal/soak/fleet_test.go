package soak

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// TestControlPlaneMachines: a machine of another kind that an earlier scenario has added is no part of a control plane.
func TestControlPlaneMachines(t *testing.T) {
	var all fleet
	for i, name := range []string{"cp1", "cp2", "cp3", servicesMachine, "cp4", "cp5"} {
		all = append(all, &lab.Machine{Name: name, Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + i)})})
	}
	for n, want := range map[int]map[string]string{
		2: {"cp1": "10.0.0.1", "cp2": "10.0.0.2"},
		4: {"cp1": "10.0.0.1", "cp2": "10.0.0.2", "cp3": "10.0.0.3", "cp4": "10.0.0.5"},
	} {
		if got := all.controlPlane(n); len(got) != n || !reflect.DeepEqual(got.variable(), want) {
			t.Errorf("the first %d are %v, want %v", n, got.variable(), want)
		}
	}
}
