package controlplane

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// machineOf returns the facts of a machine with a replica of s.
func machineOf(t *testing.T, s Spec) host.Facts {
	t.Helper()
	pair, err := s.Bundle.Issue(pki.APIServer(s.CertificateNames()), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]host.FileState{
		machine.RecordPath:      {Content: string(machine.NewRecord(s.Replica, nil).File().Content)},
		component.APIServerCert: {Content: pair.Certificate},
	}
	for _, file := range component.SettingFiles(s.Replica) {
		files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	for _, c := range component.Of(s.Replica) {
		definition := runtime.Of(s.Replica).Definition(c)
		files[definition.Path] = host.FileState{Content: string(definition.Content)}
	}
	return host.Facts{Files: files, Dirs: map[string][]string{}}
}

func endpointIn(text json.RawMessage) (RegisteredAt, error) {
	var registration RegisteredAt
	err := json.Unmarshal(text, &registration)
	return registration, err
}

// TestImportReadsBack: importing the machine of a spec results in that spec.
func TestImportReadsBack(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"nothing given": func(*Spec) {},
		"shapes of nothing": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {}, release.ControllerManager: nil, release.Scheduler: nil,
			}
			s.PodCIDRs, s.ExtraSANs = []string{}, []string{}
		},
		"flags": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {"v": "2", "goaway-chance": "0.01"}, release.ControllerManager: {"controllers": "*"},
				release.Scheduler: {"profiling": "false"},
			}
		},
		"a flag that repeats": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {"service-account-issuer": component.Repeated("https://new", "https://old")},
			}
			s.Settings = json.RawMessage(`{"repeated_args":{"kube-apiserver":["service-account-issuer"]}}`)
		},
		"authorization by a file": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {"authorization-config": "/etc/kubernetes/authorization.yaml"},
			}
		},
		"no admin.conf": func(s *Spec) { s.NoAdminConf = true },
		"pods":          func(s *Spec) { s.PodCIDRs = []string{"10.244.0.0/16", "fd00:244::/56"} },
		"external etcd, in an order": func(s *Spec) {
			s.EtcdURLs = []string{"https://10.0.0.11:2379", "https://10.0.0.12:2379", "https://10.0.0.13:2379"}
		},
		"names": func(s *Spec) { s.ExtraSANs = []string{"10.0.0.100", "192.0.2.1", "api.example.com"} },
		"two addresses of the endpoint": func(s *Spec) {
			s.EndpointHost6, s.ExtraSANs = "fd00::100", []string{"api.example.com"}
			s.Registration = json.RawMessage(`{"address":"10.0.0.100","address6":"fd00::100"}`)
		},
		"limits": func(s *Spec) {
			s.Limits = map[string]component.Limits{
				release.APIServer: {MemoryHigh: "3G", MemoryMax: "4096M"},
				release.Scheduler: {CPUQuota: "50%", MemoryMin: "64M", IOWeight: 50},
			}
			s.Settings = json.RawMessage(`{"resources":{"scheduler":{"cpu_quota":"50%","memory_min":"64M","io_weight":50}}}`)
		},
		"audit": func(s *Spec) {
			s.Audit = component.Audit{Policy: cptest.AuditPolicy, MaxAgeDays: 7, MaxSizeMB: 50}
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"audit-log-maxbackup": "3", "v": "2"}}
		},
		"no audit": func(s *Spec) { s.Audit.Off = true },
		"no audit but by hand": func(s *Spec) {
			s.Audit.Off = true
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {"audit-log-path": "-", "audit-policy-file": "/etc/policy.yaml"},
			}
		},
		"another policy file": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"audit-policy-file": "/etc/policy.yaml"}}
		},
		"who may log in": func(s *Spec) {
			s.Authentication = component.Authentication{
				JWT: "- claimMappings:\n    username:\n      claim: sub\n      prefix: \"\"\n  issuer:\n    " +
					"audiences:\n    - kubernetes\n    url: https://id.example.com\n",
				AnonymousPaths: []string{"/version"},
			}
		},
		"authentication by hand": func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{
				release.APIServer: {"oidc-issuer-url": "https://id.example.com", "oidc-client-id": "kubernetes"},
			}
		},
		"all addresses": func(s *Spec) { s.ListenAll = true },
		"all addresses for the endpoint": func(s *Spec) {
			s.AllAddresses, s.Registration = true, json.RawMessage(`{"address":"10.0.0.100","AllAddresses":true}`)
		},
		"domain, port, time": func(s *Spec) { s.ClusterDomain, s.Port, s.EarlyRenewal = "k8s.example.com", 7443, time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			s := testSpec(t)
			s.Registration = json.RawMessage(`{"address":"10.0.0.100"}`)
			change(&s)
			got, err := imported(s.Host, machineOf(t, s), EndpointReader{At: endpointIn})
			if err != nil {
				t.Fatal(err)
			}
			if machine.Compact(got.Registration) != machine.Compact(s.Registration) {
				t.Errorf("registration is %s", got.Registration)
			}
			got.Registration = nil
			if machine.Compact(got.Settings) != machine.Compact(s.Settings) {
				t.Errorf("settings are recorded as %s", got.Settings)
			}
			got.Settings = nil
			want := Imported{
				ClusterID: s.Bundle.ClusterID, ClusterName: "prod", Name: "cp1", Version: s.Version, Port: s.APIPort(),
				EtcdURLs:     s.EtcdURLs,
				ServiceCIDRs: s.ServiceCIDRs, PodCIDRs: s.PodCIDRs, ClusterDomain: s.Domain(), ExtraSANs: s.ExtraSANs,
				ListenAll: s.ListenAll, NoAdminConf: s.NoAdminConf, ExtraArgs: s.ExtraArgs, EarlyRenewal: s.EarlyRenewal,
				Audit:          s.Audit,
				Authentication: s.Authentication,
				Limits: map[string]component.Limits{
					release.APIServer: s.Limits[release.APIServer], release.ControllerManager: s.Limits[release.ControllerManager],
					release.Scheduler: s.Limits[release.Scheduler],
				},
			}
			if want.ExtraArgs == nil {
				want.ExtraArgs = map[string]map[string]string{}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read back as\n%#v\nwant\n%#v", got, want)
			}
		})
	}
}

// TestImportManageKubelet: the record says whether the kubelet follows. Without it, the drop-in of the kubelet says so,
// unless it came with a kubelet that the provider has installed.
func TestImportManageKubelet(t *testing.T) {
	query := machine.ImportQuery()
	if !slices.Contains(query.Files, node.RecordPath) || !slices.Contains(query.Contents, kubelet.DropIn) {
		t.Error("the machine is not asked")
	}
	for name, c := range map[string]struct {
		recorded, older, placed, installed bool
		want                               bool
	}{
		"manages":                             {recorded: true, placed: true, want: true},
		"manages, installed":                  {recorded: true, placed: true, installed: true, want: true},
		"manages, the drop-in was removed":    {recorded: true, want: true},
		"installed":                           {placed: true, installed: true},
		"has managed":                         {placed: true},
		"does not manage":                     {},
		"without its record":                  {older: true, placed: true, want: true},
		"installed, without its record":       {older: true, placed: true, installed: true},
		"does not manage, without its record": {older: true},
	} {
		s := testSpec(t)
		s.Registration, s.Runtime = json.RawMessage(`{"address":"10.0.0.100"}`), component.StaticPod
		s.ManageKubelet = c.recorded
		facts := machineOf(t, s)
		if c.older {
			r := machine.NewRecord(s.Replica, nil)
			r.Configured = nil
			facts.Files[machine.RecordPath] = host.FileState{Content: string(r.File().Content)}
		}
		if c.placed {
			facts.Files[kubelet.DropIn] = host.FileState{Content: string(kubelet.File(s.Version).Content)}
		}
		if c.installed {
			facts.Files[node.RecordPath] = host.FileState{}
		}
		got, err := imported(s.Host, facts, EndpointReader{At: endpointIn})
		if err != nil || got.ManageKubelet != c.want {
			t.Errorf("%s: %v, %v", name, got.ManageKubelet, err)
		}
	}
}

// TestImportWithoutRecord: a record of an earlier version does not contain the configuration,
// so it is derived from the machine.
func TestImportWithoutRecord(t *testing.T) {
	s := testSpec(t)
	s.Registration = json.RawMessage(`{"address":"10.0.0.100"}`)
	s.ExtraArgs = map[string]map[string]string{
		release.APIServer: {"v": "2", "profiling": "false"}, release.Scheduler: {"v": "3"},
	}
	s.ExtraSANs, s.PodCIDRs = []string{"api.example.com"}, []string{"10.244.0.0/16"}
	s.Audit, s.Limits = component.Audit{
		Policy: cptest.AuditPolicy, MaxAgeDays: 7, MaxBackups: component.DefaultAuditBackups,
	}, map[string]component.Limits{release.Scheduler: {MemoryMax: "1G"}}
	facts := machineOf(t, s)
	r := machine.NewRecord(s.Replica, nil)
	r.Configured = nil
	facts.Files[machine.RecordPath] = host.FileState{Content: string(r.File().Content)}
	text := facts.Files[unit.Path(release.APIServer)].Content
	facts.Files[unit.Path(release.APIServer)] = host.FileState{
		Content: strings.Replace(text, "--etcd-cafile=", "--etcd-cafile=/tmp", 1),
	}
	got, err := imported(s.Host, facts, EndpointReader{At: endpointIn})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]map[string]string{
		release.APIServer: {"v": "2"}, release.Scheduler: {"v": "3"},
	}; !reflect.DeepEqual(got.ExtraArgs, want) {
		t.Errorf("extra arguments are %v, want %v: a default is none, and neither is a flag of the provider's",
			got.ExtraArgs, want)
	}
	if !slices.Equal(got.ExtraSANs, s.ExtraSANs) || !slices.Equal(got.PodCIDRs, s.PodCIDRs) ||
		!slices.Equal(got.EtcdURLs, s.EtcdURLs) {
		t.Errorf("read back as %#v", got)
	}
	if want := (component.Audit{Policy: cptest.AuditPolicy, MaxAgeDays: 7}); got.Audit != want || !got.SameAudit(s.Audit) {
		t.Errorf("audit is %+v, want %+v", got.Audit, want)
	}
	if got.Settings != nil || got.Limits[release.Scheduler] != s.Limits[release.Scheduler] ||
		got.Limits[release.APIServer] != (component.Limits{}) {
		t.Errorf("limits are %+v, recorded as %s", got.Limits, got.Settings)
	}
}

func TestImportRefuses(t *testing.T) {
	s := testSpec(t)
	s.Registration = json.RawMessage(`{"address":"10.0.0.100"}`)
	for name, c := range map[string]struct {
		change func(facts host.Facts)
		cause  string
	}{
		"nothing there": {func(f host.Facts) { clear(f.Files) }, "nothing of a replica"},
		"kubeadm's": {func(f host.Facts) {
			clear(f.Files)
			f.Dirs[machine.ManifestDir] = []string{release.APIServer + ".yaml"}
		}, "static pod"},
		"without record": {func(f host.Facts) { delete(f.Files, machine.RecordPath) }, "it was not made by this provider"},
		"unreadable": {
			func(f host.Facts) { f.Files[machine.RecordPath] = host.FileState{Content: "{"} }, "read " + machine.RecordPath,
		},
		"half a replica": {func(f host.Facts) { delete(f.Files, unit.Path(release.Scheduler)) }, "no ExecStart= line"},
		"another program": {func(f host.Facts) {
			f.Files[unit.Path(release.APIServer)] = host.FileState{Content: "ExecStart=/usr/bin/kube-apiserver --v=2"}
		}, "has not installed"},
		"another address": {func(f host.Facts) {
			f.Files[unit.Path(release.APIServer)] = host.FileState{
				Content: strings.ReplaceAll(f.Files[unit.Path(release.APIServer)].Content, "advertise-address=10.0.0.11",
					"advertise-address=10.0.0.12"),
			}
		}, `reached at "10.0.0.12"`},
	} {
		t.Run(name, func(t *testing.T) {
			facts := machineOf(t, s)
			c.change(facts)
			_, err := imported(s.Host, facts, EndpointReader{At: endpointIn})
			if err == nil || !strings.Contains(err.Error(), c.cause) {
				t.Errorf("error is %v, want one that says %q", err, c.cause)
			}
		})
	}
}
