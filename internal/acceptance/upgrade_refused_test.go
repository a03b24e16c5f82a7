package acceptance

import (
	"context"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// refusal is a plan that must fail, and the expected error: the rule and the next step.
type refusal struct {
	name      string
	args      []string
	fragments []string
}

// impossible returns plans that are refused. Before is two minor versions of Kubernetes before the
// default.
func impossible(t *testing.T, before versions) []refusal {
	t.Helper()
	last, next := defaults(t), minorBefore(t, 1).kubernetes
	older := release(t, build.MinorBefore("kubernetes", 3))
	return []refusal{
		{
			"a minor of Kubernetes is skipped",
			[]string{"-var=kubernetes_version=" + last.kubernetes},
			[]string{"from " + before.kubernetes + " to " + last.kubernetes, "no minor may be skipped", minorOf(next)},
		},
		{
			"Kubernetes goes back",
			[]string{"-var=kubernetes_version=" + older},
			[]string{"from " + before.kubernetes + " to " + older, "a minor is never lowered"},
		},
		{
			"a minor of etcd is skipped",
			[]string{"-var=etcd_version=3.7.0"},
			[]string{"cannot change to etcd 3.7.0", "3.6 first"},
		},
		{
			"one replica alone is two ahead",
			[]string{"-target=" + replicaAddress("cp1"), "-var=kubernetes_version=" + last.kubernetes},
			[]string{"no minor may be skipped", "more than one minor"},
		},
		{
			"a flag of etcd that is gone",
			[]string{"-var=etcd_version=" + last.etcd, `-var=etcd_extra_args={"enable-v2"="true"}`},
			[]string{"enable-v2", "removed in etcd 3.6"},
		},
		{
			"a feature gate of Kubernetes that is gone",
			[]string{
				"-var=kubernetes_version=" + next,
				`-var=apiserver_extra_args={"feature-gates"="AllowServiceLBStatusOnNonLB=false"}`,
			},
			[]string{"AllowServiceLBStatusOnNonLB", "1.35"},
		},
	}
}

// minorOf returns the minor version of a version: "1.35".
func minorOf(version string) string { return version[:strings.LastIndex(version, ".")] }

// TestUpgradeRefused requests upgrades that are not possible. The plan reports why and what to
// do instead, and no machine is affected. A possible upgrade is rejected before anything is
// changed while a machine is dead, and is rolled back if the new version does not start.
func TestUpgradeRefused(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	from := minorBefore(t, 2)
	to := versions{defaults(t).etcd, from.kubernetes}
	s := &upgradeStory{w: newStory(t, names...), names: names, bare: fingerprints(t, names...)}
	s.choose(t, from)
	s.refuses(t, refusal{
		"etcd is too old for Kubernetes",
		[]string{"-var=etcd_version=3.5.20"},
		[]string{"etcd 3.5.20 is too old for Kubernetes " + from.kubernetes, "3.5.24 or later", "upgrade etcd first"},
	})
	apply(t, s.w)
	before := processes(t, names...)
	for _, r := range impossible(t, from) {
		s.refuses(t, r)
	}
	expectRestarted(t, before, nil)
	expectEmptyPlan(t, s.w)
	t.Run("a machine is dead", func(t *testing.T) {
		s.dead(t, "-target=kube_etcd_member.this", "-var=etcd_version="+to.etcd)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("one member does not come up", func(t *testing.T) {
		s.fall(t, "cp1", occupied, from, to)
	})
	if t.Failed() {
		t.FailNow()
	}
	s.refuses(t, refusal{
		"etcd goes back",
		[]string{"-var=etcd_version=" + from.etcd},
		[]string{from.etcd, "cluster version", "restore a snapshot"},
	})
	s.over(t)
}

// refuses expects that the plan fails.
func (s *upgradeStory) refuses(t *testing.T, r refusal) {
	t.Helper()
	t.Run(r.name, func(t *testing.T) {
		_, _, err := s.w.Plan(t.Context(), r.args...)
		if err == nil {
			t.Fatal("the plan was not refused")
		}
		output := unfolded(err.Error())
		t.Log(output)
		expectContains(t, output, append(r.fragments, "Unchanged: nothing was changed.")...)
	})
}

// dead checks that all have to be healthy before the first is changed.
func (s *upgradeStory) dead(t *testing.T, args ...string) {
	dead := shared.lab.Machine("cp3")
	if err := dead.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dead.Boot(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	output := untouched(t, s.w, []string{"cp1", "cp2"}, nil, args...)
	t.Log(output)
	expectContains(t, output, "cp3", "Unchanged: nothing was changed.", "Next step: ")
	if err := dead.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, s.names...)
	expectEmptyPlan(t, s.w)
}
