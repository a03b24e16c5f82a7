package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestPreflight(t *testing.T) {
	listen := func(port int, process string, addresses ...string) func(*Observed) {
		return func(f *Observed) { f.Facts.Listeners[port] = host.Listener{Process: process, Addresses: addresses} }
	}
	for _, c := range []struct {
		name  string
		alter func(*Observed)
		want  string // part of the cause; "" for a suitable machine
	}{
		{"a bare machine", func(*Observed) {}, ""},
		{"the balancer holds the virtual IP", listen(6443, "haproxy", "10.0.0.100"), ""},
		{
			"the balancer holds every address", listen(6443, "haproxy", "0.0.0.0"),
			"haproxy listens on 0.0.0.0 port 6443, which kube-apiserver needs",
		},
		{"every address of both families", listen(6443, "haproxy", "10.0.0.100", "::"), "haproxy listens on :: port 6443"},
		{"the machine's address", listen(6443, "nginx", "10.0.0.100", "10.0.0.11"), "nginx listens on 10.0.0.11 port 6443"},
		{"controller-manager's port", listen(10257, "", "127.0.0.1"), "another process listens on 127.0.0.1 port 10257"},
		{"scheduler's port elsewhere", listen(10259, "x", "10.0.0.11"), ""},
		{"an earlier try runs", func(f *Observed) {
			listen(6443, release.APIServer, "10.0.0.11")(f)
			f.Facts.Units[unit.Name(release.APIServer)] = host.UnitState{Active: "active", MainPID: 9}
		}, ""},
		{
			"disk", func(f *Observed) { f.Facts.DiskFree[installRoot] = 300 << 20 },
			"300 MiB are free for /opt/kube, at least 1024 are required",
		},
		{
			"disk of the audit log", func(f *Observed) { f.Facts.DiskFree[component.AuditLogDir] = 1 << 30 },
			"1024 MiB are free for /var/log/kube-apiserver, at least 1100 are required",
		},
		{
			"clock behind", func(f *Observed) { f.Facts.ClockOffset = -10 * time.Minute },
			"the clock is 10m0s behind this computer's",
		},
		{
			"clock ahead", func(f *Observed) { f.Facts.ClockOffset = 3 * time.Minute },
			"the clock is 3m0s ahead of this computer's",
		},
		{
			"clock not known well enough to judge",
			func(f *Observed) { f.Facts.ClockOffset, f.Facts.ClockError = 3*time.Minute, 2*time.Minute }, "",
		},
		{"architecture", func(f *Observed) { f.Facts.Architecture = "mips" }, `not released for the architecture "mips"`},
		{"no systemd", func(f *Observed) { f.Facts.Systemd = "" }, "systemd is not the init system"},
		{"old systemd", func(f *Observed) { f.Facts.Systemd = "241" }, "systemd is version 241, at least 247 is required"},
		{
			"kubeadm", func(f *Observed) { f.Facts.Dirs[ManifestDir] = []string{"etcd.yaml", "kube-apiserver.yaml"} },
			"a kubelet runs kube-apiserver",
		},
		{"only etcd in a static pod", func(f *Observed) { f.Facts.Dirs[ManifestDir] = []string{"etcd.yaml"} }, ""},
		{
			"another cluster's authority", func(f *Observed) { f.Facts.Files[component.CACert] = host.FileState{Content: "x"} },
			"another cluster's authority",
		},
		{
			"another cluster's replica", func(f *Observed) { f.Record = Record{ClusterID: "x", ClusterName: "stage"} },
			`another cluster, "stage" (x)`,
		},
		{"record unreadable", func(f *Observed) { _, f.RecordErr = ReadRecord("{") }, "read /etc/kubernetes/replica.json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Interpret(cptest.BareMachine())
			c.alter(&f)
			err := Preflight(componenttest.Stacked(t), f)
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && !problem.Untouched(err) {
				t.Error("the refusal does not say that nothing was changed")
			}
		})
	}
}

// TestPreflightOfAllAddresses: a program on any address is in the way of a server that listens on all.
func TestPreflightOfAllAddresses(t *testing.T) {
	s := componenttest.Stacked(t)
	s.AllAddresses = true
	f := Interpret(cptest.BareMachine())
	if err := Preflight(s, f); err != nil {
		t.Errorf("a bare machine: %v", err)
	}
	f.Facts.Listeners[6443] = host.Listener{Process: "haproxy", Addresses: []string{"10.0.0.100"}}
	const want = "haproxy listens on 10.0.0.100 port 6443, which kube-apiserver needs"
	if err := Preflight(s, f); !strings.Contains(cptest.Text(err), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestPreflightListsEverything(t *testing.T) {
	f := Interpret(cptest.BareMachine())
	f.Facts.Architecture, f.Facts.Systemd = "mips", ""
	f.Facts.Listeners[10257] = host.Listener{Addresses: []string{"0.0.0.0"}}
	err := Preflight(componenttest.Stacked(t), f)
	for _, want := range []string{"3 preflight checks failed", "mips", "systemd", "10257"} {
		if !strings.Contains(cptest.Text(err), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
