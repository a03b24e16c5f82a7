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

// TestEndsUpgrade: the last member of an older version may leave instead of being upgraded.
func TestEndsUpgrade(t *testing.T) {
	of := func(versions ...string) (v View) {
		for i, version := range versions {
			v.Members = append(v.Members, Member{ID: uint64(i + 1), Version: version})
		}
		return v
	}
	downgrade := of("3.5.21", "3.6.16", "3.6.16")
	downgrade.Downgrade = "3.5"
	for name, c := range map[string]struct {
		v      View
		agreed string
		want   bool
	}{
		"the last one of 3.5":         {of("3.5.21", "3.6.16", "3.6.16"), "3.5", true},
		"one that does not answer":    {of("", "3.6.16", "3.6.16"), "3.5", true},
		"one of 3.6 that did not say": {of("3.6.16", "3.6.16", "3.6.16"), "3.5", true},
		"another one of 3.5 stays":    {of("3.5.21", "3.5.21", "3.6.16"), "3.5", false},
		"another one does not answer": {of("3.5.21", "", "3.6.16"), "3.5", false},
		"all agree":                   {of("3.6.16", "3.6.16", "3.6.16"), "3.6", false},
		"a newer version":             {of("3.6.16", "3.7.3", "3.7.3"), "3.6", false},
		"nobody says the version":     {of("3.5.21", "3.6.16"), "", false},
		"no version is agreed yet":    {of("3.6.16", "3.6.16"), "3.0", false},
		"a downgrade":                 {downgrade, "3.5", false},
		"the only member":             {of("3.5.21"), "3.5", false},
	} {
		if got := c.v.EndsUpgrade(1, "3.6", c.agreed); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
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
