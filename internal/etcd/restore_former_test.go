package etcd

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestAbandonedText: machines that a restore gives up and that have a quorum of the former cluster may serve it again.
func TestAbandonedText(t *testing.T) {
	for peers, want := range map[int]bool{3: true, 4: false, 5: false} {
		text := abandonedText([]string{"cp1 (10.0.0.1)", "cp2 (10.0.0.2)"}, peers)
		if !strings.Contains(text, "cp1 (10.0.0.1), cp2 (10.0.0.2). Their members never vote in the restored cluster") ||
			strings.Contains(text, "serve the former cluster") != want {
			t.Errorf("two of %d: %s", peers, text)
		}
	}
}

// TestFormerNext: which of two served clusters is the former one is known only by the record of the restored member.
func TestFormerNext(t *testing.T) {
	restored := ofCluster("cp3", "8")
	restored.Record.Restored = "one"
	restored.Record.Silent = map[string]string{blank("cp1").Address: "cp1", blank("cp2").Address: "cp2"}
	other, gone, changed := restored, restored, restored
	other.Record = &machine.Record{ClusterID: "other", EtcdCluster: "8", Silent: restored.Record.Silent}
	gone.Err = errDied
	changed.Record = &machine.Record{ClusterID: testCluster, EtcdCluster: "9", Silent: restored.Record.Silent}
	former := []machine.Observed{ofCluster("cp1", "7"), ofCluster("cp2", "7")}
	served := map[string]uint64{blank("cp1").Address: 7, blank("cp2").Address: 7, blank("cp3").Address: 8}
	joined := map[string]uint64{blank("cp1").Address: 7, blank("cp3").Address: 8, blank("cp4").Address: 8}
	for name, c := range map[string]struct {
		record machine.Observed
		ids    map[string]uint64
		want   string
	}{
		"both came back": {
			restored, served, "cluster 7 on " + blank("cp1").Address + ", " + blank("cp2").Address +
				" is the former one, which the restore one has given up: stop etcd",
		},
		"another one has joined": {restored, joined, "cluster 7 on " + blank("cp1").Address + " is the former one"},
		"one that was not given up serves another cluster": {
			restored, map[string]uint64{blank("cp1").Address: 7, blank("cp3").Address: 8, blank("cp4").Address: 7}, "",
		},
		"the restored member does not serve": {restored, map[string]uint64{blank("cp1").Address: 7}, ""},
		"its record is another cluster's":    {other, served, ""},
		"its record is an older one":         {changed, served, ""},
		"its machine was not reached":        {gone, served, ""},
		"nothing was restored":               {ofCluster("cp3", "8"), served, ""},
		"they serve one cluster":             {restored, map[string]uint64{blank("cp3").Address: 8}, ""},
	} {
		got := formerNext(testCluster, append(former, c.record), c.ids)
		if !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFormerClusterComesBack: two of three machines are given up in a restore, and come back with a quorum of the
// former cluster. No update is made, and its error names them.
func TestFormerClusterComesBack(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newLostFleet(t)
	f.save("cp3")
	f.empty("cp3")
	f.kill("cp1", true)
	f.kill("cp2", true)
	f.request(machine.Restore{ID: "one", Snapshot: f.snapshot})
	s := f.specs["cp3"]
	s.Abandoned = host.AbandonedAt(f.address("cp1"), f.address("cp2"))
	plan, err := f.coordinator().PreviewRestore(f.context(), s)
	if err != nil || !strings.Contains(plan, "they serve the former cluster") {
		t.Errorf("the plan is %s, %v", plan, err)
	}
	if _, err := f.coordinator().Update(f.context(), s); err != nil {
		t.Fatal(err)
	}
	for _, err := range together(t, f.specs, func(s Spec) error {
		m := f.machines[s.Host.Address()]
		m.mu.Lock()
		defer m.mu.Unlock()
		m.lost = false
		return m.start()
	}, "cp1", "cp2") {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.on("cp1", func(ctx context.Context, c *clientv3.Client) error { // they have a quorum
		_, err := c.Get(ctx, "/registry/pods/a")
		return err
	})
	want := " on " + f.address("cp1") + ", " + f.address("cp2") + " is the former one, which the restore one has given up"
	if _, err := f.coordinator().Update(f.context(), s); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("when they are back: %v, want %q", err, want)
	}
}
