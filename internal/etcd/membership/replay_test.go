package membership

import "testing"

// TestHasInitialMembers: the ID of a cluster is that of its first members, as etcd derives it.
func TestHasInitialMembers(t *testing.T) {
	// A cluster of the lab, before and after cp3 was replaced.
	v := View{ClusterID: 0xb997cf2d51da052b, Members: []Member{
		{ID: 0xab696861d785276}, {ID: 0x27158785dedb461}, {ID: 0xd48658287d7d4650},
	}}
	if !v.HasInitialMembers() {
		t.Error("the first members are not recognized")
	}
	v.Members[2].ID = 0x64306ad2e0f7a9f2
	if v.HasInitialMembers() {
		t.Error("a replaced member is not noticed")
	}
	if (View{ClusterID: 1}).HasInitialMembers() {
		t.Error("a cluster without members is not noticed")
	}
}

func TestConfigurationSame(t *testing.T) {
	v := View{Members: []Member{{ID: 3}, {ID: 1}, {ID: 2, Learner: true}}}
	for name, test := range map[string]struct {
		c    Configuration
		want bool
	}{
		"the same":           {Configuration{[]uint64{1, 3}, []uint64{2}}, true},
		"a former member":    {Configuration{[]uint64{1, 4}, []uint64{2}}, false},
		"not promoted there": {Configuration{[]uint64{1}, []uint64{2, 3}}, false},
		"nothing":            {Configuration{}, false},
		"promoted there":     {Configuration{[]uint64{1, 2, 3}, nil}, false},
	} {
		if got := test.c.Same(v); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
