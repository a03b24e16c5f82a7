package controlplane

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func TestNoDriftOnAConvergedMachine(t *testing.T) {
	s := testSpec(t)
	if problems := drift(s.Replica, converged(t, s), cptest.Now); len(problems) > 0 {
		t.Errorf("drift:\n%s", strings.Join(problems, "\n"))
	}
}

// TestRecordOfAListOfEtcd: a record of 0.1.0 has etcd's URLs in the order of the configuration,
// too. That is neither drift nor a reason to write the record again, and the unit of the API
// server does not depend on the order.
func TestRecordOfAListOfEtcd(t *testing.T) {
	s := testSpec(t)
	s.EtcdURLs = []string{"https://10.0.0.13:2379", "https://10.0.0.11:2379", "https://10.0.0.12:2379"}
	f := converged(t, s)
	state := f.Facts.Files[machine.RecordPath]
	list := `"etcd": ["https://10.0.0.13:2379", "https://10.0.0.11:2379", "https://10.0.0.12:2379"], `
	state.Content = strings.Replace(state.Content, `"early_renewal"`, list+`"early_renewal"`, 1)
	r, err := machine.ReadRecord(state.Content)
	if err != nil || !strings.Contains(state.Content, `"etcd": ["`) {
		t.Fatal(err, state.Content)
	}
	f.Record = r
	slices.Sort(s.EtcdURLs)
	if problems := drift(s.Replica, f, cptest.Now); len(problems) > 0 || !r.IsComplete(s.Replica) {
		t.Errorf("drift %q; it has the configuration: %t", problems, r.IsComplete(s.Replica))
	}
}

func TestDrift(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(*testing.T, *Spec, *machine.Observed)
		want  string
	}{
		{"curl removed", func(_ *testing.T, s *Spec, _ *machine.Observed) {
			s.LivenessProbe = true
		}, "curl is not installed"},
		{
			"flag changed", func(_ *testing.T, _ *Spec, f *machine.Observed) {
				replace(f, unit.Path(release.APIServer), "--secure-port=6443", "--secure-port=7443")
			},
			`kube-apiserver: flag --secure-port is "7443", wanted "6443"`,
		},
		{"flag added", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			replace(f, unit.Path(release.Scheduler), "--leader-elect=true", "--leader-elect=true --v=9")
		}, `kube-scheduler: flag --v is "9", wanted not to be set`},
		{"flag removed", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			replace(f, unit.Path(release.Scheduler), "--bind-address=127.0.0.1", "--leader-elect=true")
		}, `kube-scheduler: flag --bind-address is missing, wanted "127.0.0.1"`},
		{
			"program of the unit", func(_ *testing.T, _ *Spec, f *machine.Observed) {
				replace(f, unit.Path(release.Scheduler), "1.36.3", "1.36.2")
			},
			`starts /opt/kube/kubernetes/1.36.2/kube-scheduler, wanted /opt/kube/kubernetes/1.36.3/kube-scheduler`,
		},
		{
			"unit edited elsewhere", func(_ *testing.T, _ *Spec, f *machine.Observed) {
				replace(f, unit.Path(release.Scheduler), "RestartSec=2", "RestartSec=9")
			},
			unit.Path(release.Scheduler) + ` has the line "RestartSec=9", which was not written by the provider`,
		},
		{
			"unit unreadable",
			func(_ *testing.T, _ *Spec, f *machine.Observed) { edit(f, unit.Path(release.Scheduler), "[Unit]\n") },
			"was edited: no ExecStart= line",
		},
		{
			"unit file gone",
			func(_ *testing.T, _ *Spec, f *machine.Observed) { delete(f.Facts.Files, unit.Path(release.Scheduler)) },
			unit.Path(release.Scheduler) + " is missing",
		},
		{"drop-in", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			f.Facts.Dirs[unit.DropInDir(release.Scheduler)] = []string{"override.conf"}
		}, "changed by files in " + unit.Path(release.Scheduler) + ".d"},
		{"stopped", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active = "inactive" })
		}, "kube-apiserver.service is inactive"},
		{"failing", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			alterUnit(f, release.APIServer, func(u *host.UnitState) {
				u.Active, u.Sub, u.Result = "activating", "auto-restart", "exit-code"
			})
		}, "kube-apiserver.service fails (exit-code)"},
		{"disabled", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Enabled = "disabled" })
		}, "kube-apiserver.service is disabled, wanted enabled"},
		{"not restarted", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			f.Facts.Files[unit.StartNotePath(release.Scheduler)] = host.FileState{}
		}, "kube-scheduler: it was started with another " + unit.Path(release.Scheduler)},
		{
			"binary missing",
			func(_ *testing.T, _ *Spec, f *machine.Observed) { delete(f.Facts.Dirs, "/opt/kube/kubernetes/1.36.3") },
			"/opt/kube/kubernetes/1.36.3/kube-apiserver is missing",
		},
		{"other version runs", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			f.Executables[release.APIServer] = "/opt/kube/kubernetes/1.36.2/kube-apiserver (deleted)"
		}, "kube-apiserver: runs version 1.36.2, wanted 1.36.3"},
		{
			"certificate of another cluster", func(t *testing.T, s *Spec, f *machine.Observed) {
				edit(f, component.EtcdClientCert, foreignCertificate(t, s))
			},
			"is signed by another authority",
		},
		{
			"certificate missing",
			func(_ *testing.T, _ *Spec, f *machine.Observed) { delete(f.Facts.Files, component.KubeletClientCert) },
			component.KubeletClientCert + " is missing",
		},
		{"key missing", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			delete(f.Facts.Files, component.KeyPath(component.KubeletClientCert))
		}, component.KeyPath(component.KubeletClientCert) + " is missing"},
		{"key replaced", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			edit(f, component.KeyPath(component.KubeletClientCert), "x")
		}, "was changed after it was issued"},
		{
			"mode", func(_ *testing.T, _ *Spec, f *machine.Observed) { chmod(f, component.CAKey, 0o644) },
			component.CAKey + " has mode 0644, wanted 0600",
		},
		{"owner", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			state := f.Facts.Files[component.SAKey]
			state.Owner, state.Group = "root", "root"
			f.Facts.Files[component.SAKey] = state
		}, component.SAKey + " belongs to root:root, wanted kube-apiserver:kube-apiserver"},
		{
			"authority", func(_ *testing.T, _ *Spec, f *machine.Observed) { edit(f, component.CACert, "x") },
			component.CACert + " has different content",
		},
		{"kubeconfig's server", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			f.Kubeconfigs[component.SchedulerConf] = strings.Replace(f.Kubeconfigs[component.SchedulerConf], "10.0.0.11:6443",
				"10.0.0.99:6443", 1)
		}, component.SchedulerConf + ": server is https://10.0.0.99:6443, wanted https://10.0.0.11:6443"},
		{"kubeconfig's user", func(_ *testing.T, _ *Spec, f *machine.Observed) {
			f.Kubeconfigs[component.AdminConf] = strings.ReplaceAll(f.Kubeconfigs[component.AdminConf], "kubernetes-admin",
				"root")
		}, component.AdminConf + `: user is "root", wanted "kubernetes-admin"`},
		{
			"kubeconfig unreadable",
			func(_ *testing.T, _ *Spec, f *machine.Observed) { f.Kubeconfigs[component.AdminConf] = "" },
			component.AdminConf + " cannot be used",
		},
		{
			"record gone", func(_ *testing.T, _ *Spec, f *machine.Observed) { f.Record = machine.Record{} },
			machine.RecordPath + " is missing",
		},
		{
			"record unreadable", func(_ *testing.T, _ *Spec, f *machine.Observed) { f.RecordErr = errors.New("no JSON") },
			machine.RecordPath + " cannot be read",
		},
		{
			"another replica's record", func(_ *testing.T, _ *Spec, f *machine.Observed) { f.Record.Name = "cp9" },
			`holds replica "cp9", wanted "cp1"`,
		},
		{
			"another port in the record", func(_ *testing.T, _ *Spec, f *machine.Observed) { f.Record.Port++ },
			"names another endpoint, port or etcd",
		},
		{
			"another cluster's record", func(_ *testing.T, _ *Spec, f *machine.Observed) {
				f.Record.ClusterID, f.Record.ClusterName = "other", "stage"
			},
			`holds a replica of another cluster, "stage"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testSpec(t)
			f := converged(t, s)
			c.alter(t, &s, &f)
			problems := drift(s.Replica, f, cptest.Now)
			if !slices.ContainsFunc(problems, func(w string) bool {
				return strings.HasPrefix(w, "cp1 (10.0.0.11): ") && strings.Contains(w, c.want)
			}) {
				t.Errorf("want %q in\n%s", c.want, strings.Join(problems, "\n"))
			}
		})
	}
}

// TestDriftNamesTheEditedFlag: the credential that systemd passes on is the path in the unit,
// and not a difference.
func TestDriftNamesTheEditedFlag(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	replace(&f, unit.Path(release.ControllerManager), "--leader-elect=true", "--leader-elect=false")
	var flags []string
	for _, text := range drift(s.Replica, f, cptest.Now) {
		if strings.Contains(text, "flag --") {
			flags = append(flags, text)
		}
	}
	want := []string{`cp1 (10.0.0.11): kube-controller-manager: flag --leader-elect is "false", wanted "true"`}
	if !slices.Equal(flags, want) {
		t.Errorf("%q, want %q", flags, want)
	}
}

func TestIsEmpty(t *testing.T) {
	s := testSpec(t)
	f := bare()
	f.Facts.Files[component.CACert] = host.FileState{Content: "a kubelet's"}
	f.Facts.Files[component.EtcdCA] = host.FileState{Content: "an etcd member's"}
	if !f.IsEmpty(s.Replica) {
		t.Error("what etcd and kubelet have counts as a replica")
	}
	for _, path := range []string{unit.Path(release.Scheduler), component.SAKey, machine.RecordPath, component.AdminConf} {
		f := bare()
		f.Facts.Files[path] = host.FileState{}
		if f.IsEmpty(s.Replica) {
			t.Errorf("gone although %s is there", path)
		}
	}
}

func replace(f *machine.Observed, path, old, new string) {
	edit(f, path, strings.Replace(f.Facts.Files[path].Content, old, new, 1))
}

func foreignCertificate(t *testing.T, s *Spec) string {
	t.Helper()
	other, err := pki.Generate(pki.Options{ClusterName: s.Bundle.ClusterName, Now: cptest.Now})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := other.Issue(pki.APIServerEtcdClient(), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Certificate
}
