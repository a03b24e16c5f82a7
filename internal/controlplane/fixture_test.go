package controlplane

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var testBundle = sync.OnceValues(func() (*pki.Bundle, error) {
	return pki.Generate(pki.Options{ClusterName: "prod", Now: now})
})

// testSpec is a stacked replica; it may be altered.
func testSpec(t *testing.T) Spec {
	t.Helper()
	bundle, err := testBundle()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{
		Replica: Replica{
			Name:         "cp1",
			Address:      "10.0.0.11",
			Bundle:       bundle,
			Version:      "1.34.4",
			EndpointHost: "10.0.0.100",
			EndpointPort: 6443,
			EtcdURLs:     []string{"https://10.0.0.11:2379"},
			ServiceCIDRs: []string{"10.96.0.0/12"},
		},
		Host: machine(t, host.Config{}, "10.0.0.11"),
	}
}

func machine(t *testing.T, config host.Config, address string) *host.Host {
	t.Helper()
	pool, err := host.NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool.Host(host.Target{Address: address})
}

// bare is a machine on which nothing was ever done.
func bare() found {
	return interpret(host.Facts{
		MachineID:    "4f1c",
		Architecture: "amd64",
		Systemd:      "252",
		DiskFree:     map[string]int64{installRoot: 20 << 30, kubernetesDir: 20 << 30},
		Files:        map[string]host.FileState{},
		Dirs:         map[string][]string{},
		Units:        map[string]host.UnitState{},
		Listeners:    map[int]host.Listener{},
	})
}

// converged is the machine after everything that decide wants was done on bare.
func converged(t *testing.T, s Spec) found {
	t.Helper()
	d, err := decide(s.Replica, bare(), now)
	if err != nil {
		t.Fatal(err)
	}
	facts := bare().facts
	for _, file := range d.files {
		facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: file.Owner, Group: file.Group,
			SHA256: digest(file.Content), Content: string(file.Content),
		}
	}
	plain := regexp.MustCompile(plainLines)
	for _, k := range kubeconfigs(s.Replica) {
		facts.Output += section + k.path + "\n"
		for line := range strings.Lines(facts.Files[k.path].Content) {
			if plain.MatchString(strings.TrimRight(line, "\n")) {
				facts.Output += line
			}
		}
	}
	for _, c := range components(s.Replica) {
		note := ""
		for _, path := range append([]string{unitPath(c.name)}, c.inputs...) {
			note += facts.Files[path].SHA256 + "  " + path + "\n"
		}
		facts.Files[startNotePath(c.name)] = host.FileState{Content: note}
		facts.Units[unitName(c.name)] = host.UnitState{Load: "loaded", Active: "active", Sub: "running", Enabled: "enabled", MainPID: 7, Result: "success"}
		facts.Output += section + c.name + "\n" + c.program + "\n"
		facts.Dirs["/opt/kube/kubernetes/"+s.Version] = append(facts.Dirs["/opt/kube/kubernetes/"+s.Version], c.name)
	}
	return interpret(facts)
}
