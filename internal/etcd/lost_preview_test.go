package etcd

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestPreviewLost: a plan without a restore shows who has data when no member answers. A plan asks only if a
// Read has found data, so that it costs nothing where no machine answers.
func TestPreviewLost(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	s := specs["cp1"]
	s.Restore = nil
	c := &Clusters{pace: cl.pace, machine: cl.machine, clusters: map[string]*cluster{s.Bundle.ClusterID: cl}}
	if c.Lost(s.Bundle.ClusterID) {
		t.Error("it is lost before anybody has looked")
	}
	machines["10.0.0.1"].silent, machines["10.0.0.3"].silent = host.ErrUnreachable, host.ErrUnreachable
	read := func(name string) {
		own := specs[name]
		own.Restore = nil
		_, err := c.Read(t.Context(), own)
		if silent := machines[own.Host.Address()].silent; (err != nil) != (silent != nil) {
			t.Errorf("read of %s: %v", name, err)
		}
	}
	read("cp1")
	if c.Lost(s.Bundle.ClusterID) {
		t.Error("a machine that does not answer says that the cluster is lost")
	}
	read("cp2")
	read("cp1")
	if !c.Lost(s.Bundle.ClusterID) {
		t.Error("a machine has data, and nobody answers: the cluster is not lost")
	}
	text := c.PreviewLost(t.Context(), s)
	for _, want := range []string{"cp2", "10.0.0.2", "does not answer", `restore = { id = "a new name"`} {
		if !strings.Contains(text, want) {
			t.Errorf("without %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "10.0.0.3") {
		t.Errorf("a machine that was not reached has data:\n%s", text)
	}
	machines["10.0.0.2"].silent = host.ErrUnreachable
	if text := c.PreviewLost(t.Context(), s); text != "" {
		t.Errorf("no machine answers, and these have data:\n%s", text)
	}
	for address, m := range machines {
		if len(m.changes) > 0 {
			t.Errorf("%s was changed", address)
		}
	}
}
