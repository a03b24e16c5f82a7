package controlplane

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestPowerCut creates, changes and deletes a replica on a machine that loses its power after
// each command, and keeps everything. Its etcd is on another machine: a flush of etcd would
// also write the names of other files to the disk.
func TestPowerCut(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	m := machines.lab.Machine("cp2")
	if err := m.RebuildOnImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := newStage(t) // starts etcd on cp1
	cuts := lab.NewPowerCuts(m, []string{"/etc", "/opt"}, []string{"/etc/.pwd.lock"})
	st.spec.Name, st.spec.Address = "cp2", m.Address.String()
	st.spec.Host = testHost(t, host.Config{
		Credentials: host.Credentials{PrivateKey: st.key}, KnownHosts: st.known, Around: cuts.Around,
	}, st.spec.Address)
	st.spec.ExtraArgs = cptest.Args(release.APIServer, "admission-control-config-file",
		component.ConfigFilePath("admission.yaml"))
	admission := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	st.spec.ConfigFiles = map[string]component.ConfigFile{"admission.yaml": {Content: admission}}
	st.reached()
	st.run("sync")
	during := func(what string, run func() error) {
		t.Helper()
		started := time.Now()
		n, lost, err := cuts.During(st.ctx, run)
		t.Logf("%s: %d power cuts in %s", what, n, time.Since(started).Round(100*time.Millisecond))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if len(lost) > 0 {
			t.Fatalf("%s: a power cut changes\n%s", what, strings.Join(lost, "\n"))
		}
	}
	during("create", func() error { _, err := st.replicas.Create(st.ctx, st.spec); return err })
	st.ready()
	st.spec.ConfigFiles = map[string]component.ConfigFile{"admission.yaml": {Content: admission + "plugins: []\n"}}
	during("update", func() error { _, err := st.replicas.Update(st.ctx, st.spec); return err })
	st.ready()
	during("delete", func() error { return st.replicas.Delete(st.ctx, st.spec, DeleteOptions{}) })
}

// ready waits until the replica, whose machine has just booted, is as it should be.
func (st *stage) ready() {
	st.Helper()
	start := time.Now()
	for deadline := start.Add(time.Minute); ; time.Sleep(pollInterval) {
		status, err := st.replicas.Read(st.ctx, st.spec)
		if err == nil && len(status.Drift) == 0 &&
			!slices.ContainsFunc(status.Components, func(c Component) bool { return !c.Healthy }) {
			st.Logf("ready %s after the boot", time.Since(start).Round(100*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			st.Fatalf("not ready after the boot: %v, %+v", err, status)
		}
	}
}
