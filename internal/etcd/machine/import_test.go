package machine

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// factsOf returns the facts of a machine with a member of s.
func factsOf(s Spec, list string) host.Facts {
	facts := host.Facts{
		Files: map[string]host.FileState{
			layout.UnitPath:   {Content: renderUnit(s)},
			layout.RecordPath: {Content: string(recordFile(s, ID{Member: 1}, nil).Content)},
		},
		Dirs:   map[string][]string{},
		Output: list,
	}
	for _, file := range s.SnapshotMember().Files() {
		facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	return facts
}

const twoMembers = `{"header":{"member_id":123},"members":[
{"ID":9372538179322589801,"name":"cp1","peerURLs":["https://10.0.0.11:2380"],"clientURLs":["https://10.0.0.11:2379"]},
{"ID":1,"peerURLs":["https://10.0.0.13:2380"],"isLearner":true},
{"ID":2,"name":"cp2","peerURLs":["https://[fd00::12]:2380"]}]}
`

// TestImportReadsBack verifies that the import of a machine results in its spec.
func TestImportReadsBack(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"nothing given": func(*Spec) {},
		"no flag given": func(s *Spec) { s.ExtraArgs = map[string]string{} },
		"flags": func(s *Spec) {
			s.ExtraArgs = map[string]string{"quota-backend-bytes": "1", "log-format": `odd "100%" $HOME \`}
		},
		"another default": func(s *Spec) {
			s.ExtraArgs = map[string]string{"watch-progress-notify-interval": "9s"}
		},
		"a flag at its default": func(s *Spec) {
			s.ExtraArgs = map[string]string{"listen-metrics-urls": "http://127.0.0.1:2381"}
		},
		"metrics over TLS":          func(s *Spec) { s.MetricsAddress = "0.0.0.0" },
		"metrics over TLS and IPv6": func(s *Spec) { s.MetricsAddress = "::" },
		"that listener as a flag": func(s *Spec) {
			s.ExtraArgs = map[string]string{"listen-metrics-urls": "http://127.0.0.1:2381,https://0.0.0.0:2382"}
		},
		"a listener for metrics without that of the machine": func(s *Spec) {
			s.ExtraArgs = map[string]string{"listen-metrics-urls": "http://10.0.0.11:2381"}
		},
		"of 3.5": func(s *Spec) {
			s.Version, s.ExtraArgs = "3.5.35", map[string]string{"snapshot-count": "5"}
		},
		"data elsewhere, snapshots": func(s *Spec) { s.DataDir, s.SnapshotsKept, s.ArchivesKept = "/data/etcd", 9, 2 },
		"scheduled snapshots": func(s *Spec) {
			s.Snapshots = &snapshot.Settings{
				Schedule: "Mon..Fri 02:30 Europe/Berlin", Kept: 7,
				Upload: "cp \"$SNAPSHOT\" '/b x/' \\\n  100%\n\n", EnvironmentFile: "/etc/rclone.env",
			}
		},
		"scheduled snapshots that stay": func(s *Spec) { s.Snapshots = &snapshot.Settings{Schedule: "hourly", Kept: 24} },
		"early renewal":                 func(s *Spec) { s.EarlyRenewal = 90 * time.Minute },
		"limits": func(s *Spec) {
			s.Limits, s.Settings = systemd.Limits{MemoryMax: "2G", CPUQuota: "150%", MemoryMin: "10%", CPUWeight: 1000},
				json.RawMessage(`{"resources":{"memory_max":"2G","cpu_quota":"150%","memory_min":"10%","cpu_weight":1000}}`)
		},
		"empty limits": func(s *Spec) { s.Settings = json.RawMessage(`{"resources":{}}`) },
		"IPv6":         func(*Spec) {},
	} {
		t.Run(name, func(t *testing.T) {
			address := "10.0.0.11"
			if name == "IPv6" {
				address = "fd00::11"
			}
			s := specAt(t, address)
			change(&s)
			got, err := ReadImported(s.Host, factsOf(s, twoMembers))
			if err != nil {
				t.Fatal(err)
			}
			if text := (configured{Settings: got.Settings}).text(); text != (configured{Settings: s.Settings}).text() {
				t.Errorf("settings are recorded as %s", got.Settings)
			}
			got.Settings = nil
			want := Imported{
				ClusterID: testID, ClusterName: "prod", Name: "cp1", Version: s.Version, ExtraArgs: s.ExtraArgs,
				DataDir:       s.Directory(),
				SnapshotsKept: s.UpgradeSnapshots(), ArchivesKept: s.archives(), EarlyRenewal: s.EarlyRenewal, Limits: s.Limits,
				Peers: map[string]string{"cp1": address, "cp2": "fd00::12"}, Snapshots: s.Snapshots,
				MetricsAddress: s.MetricsAddress,
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("read back as\n%#v\nwant\n%#v", got, want)
			}
			again := s
			again.ExtraArgs, again.DataDir, again.SnapshotsKept, again.Limits = got.ExtraArgs, got.DataDir, got.SnapshotsKept,
				got.Limits
			if renderUnit(again) != renderUnit(s) {
				t.Error("what was read renders another unit")
			}
		})
	}
}

// TestImportWithoutRecord verifies that a record of an earlier version, which contains no
// flags, and a unit that was changed by hand still result in the flags that the user may
// set.
func TestImportWithoutRecord(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.ExtraArgs = map[string]string{"quota-backend-bytes": "1", "listen-metrics-urls": "http://127.0.0.1:2381"}
	facts := factsOf(s, "")
	var old map[string]any
	if err := json.Unmarshal([]byte(facts.Files[layout.RecordPath].Content), &old); err != nil {
		t.Fatal(err)
	}
	delete(old, "configured")
	text, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	facts.Files[layout.RecordPath] = host.FileState{Content: string(text)}
	facts.Files[layout.UnitPath] = host.FileState{Content: strings.Replace(renderUnit(s), "--client-cert-auth=true",
		"--client-cert-auth=false", 1)}
	got, err := ReadImported(s.Host, facts)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"quota-backend-bytes": "1"}; !reflect.DeepEqual(got.ExtraArgs, want) {
		t.Errorf("extra arguments are %v, want %v: a default is none, and neither is a flag of the provider's", got.ExtraArgs,
			want)
	}
	if want := map[string]string{"cp1": "10.0.0.11"}; !got.Alone || !reflect.DeepEqual(got.Peers, want) {
		t.Errorf("without a list the peers are %v (alone %v), want %v", got.Peers, got.Alone, want)
	}
}

// TestImportOfListeners: the listener that the provider has added to those of the user stays where it is, if the record
// does not say what the user has set. A unit without it, of an earlier version, is imported as it is.
func TestImportOfListeners(t *testing.T) {
	const own = "http://10.0.0.11:2381"
	for _, urls := range []string{own, release.WithMetricsURL(own)} {
		s := specAt(t, "10.0.0.11")
		facts := factsOf(s, "")
		facts.Files[layout.UnitPath] = host.FileState{Content: strings.Replace(renderUnit(s),
			"--listen-metrics-urls=http://127.0.0.1:2381", "--listen-metrics-urls="+urls, 1)}
		got, err := ReadImported(s.Host, facts)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{release.MetricsURLsFlag: urls}; !reflect.DeepEqual(got.ExtraArgs, want) {
			t.Errorf("extra arguments are %v, want %v", got.ExtraArgs, want)
		}
		s.ExtraArgs = got.ExtraArgs
		if flags := ServerFlags(s)[release.MetricsURLsFlag]; flags != release.WithMetricsURL(own) {
			t.Errorf("%s becomes %s", urls, flags)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	other := specAt(t, "10.0.0.12")
	for name, c := range map[string]struct {
		change func(files map[string]host.FileState)
		words  string
	}{
		"nothing there": {func(files map[string]host.FileState) {
			delete(files, layout.UnitPath)
			delete(files, layout.RecordPath)
		}, "neither a unit nor data"},
		"somebody else's": {
			func(files map[string]host.FileState) { delete(files, layout.RecordPath) },
			"it was not created by this provider",
		},
		"unreadable marker": {func(files map[string]host.FileState) {
			files[layout.RecordPath] = host.FileState{Content: "{"}
		}, "no readable"},
		"no unit": {func(files map[string]host.FileState) {
			delete(files, layout.UnitPath)
		}, layout.UnitPath + " or " + layout.PodPath + ", which describes how the member runs, is missing"},
		"another program": {func(files map[string]host.FileState) {
			files[layout.UnitPath] = host.FileState{Content: "ExecStart=/usr/bin/etcd --name=cp1"}
		}, "was not installed by the provider"},
		"another address": {func(files map[string]host.FileState) {
			files[layout.UnitPath] = host.FileState{Content: renderUnit(other)}
		}, "advertised at https://10.0.0.12:2379"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(s, "")
			c.change(facts.Files)
			_, err := ReadImported(s.Host, facts)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error is %v, want one that says %q", err, c.words)
			}
		})
	}
}

// TestListScript: a member of the provider is asked by its own etcdctl, and one of kubeadm by its gateway: a program
// from the image of a container would run as root on the machine.
func TestListScript(t *testing.T) {
	dir := t.TempDir()
	unit := filepath.Join(dir, "etcd.service")
	stubs := "member_pid() { echo $$; }\ncurl() { echo \"curl $*\"; }\nunit=" + host.Words(unit) + " pod=" +
		host.Words(dir+"/none") + "\n" + host.Assignments(map[string]string{
		"endpoint": "https://[fd00::11]:2379", "pki": "/pki",
	})
	run := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", "-uc", string(stubs+ListScript)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	const gateway = "curl --silent --fail --globoff --noproxy * --max-time 5 --cacert /pki/ca.crt " +
		"--cert /pki/healthcheck-client.crt --key /pki/healthcheck-client.key --data {\"linearizable\":true} " +
		"https://[fd00::11]:2379/v3/cluster/member/list\n"
	if got := run(); got != gateway {
		t.Errorf("a member of kubeadm is asked by %q", got)
	}
	if strings.Contains(string(ListScript), "/proc/") {
		t.Errorf("programs of containers run:\n%s", ListScript)
	}
	err := errors.Join(os.WriteFile(unit, []byte("ExecStart="+dir+"/etcd --name=cp1\n"), 0o600),
		os.WriteFile(dir+"/etcdctl", []byte("#!/bin/sh\necho etcdctl \"$1\"\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	if got := run(); got != "etcdctl --endpoints=https://[fd00::11]:2379\n" {
		t.Errorf("a member of the provider is asked by %q", got)
	}
}

// TestListOfGateway: etcd's gateway has numbers as text, and another order of fields than etcdctl.
func TestListOfGateway(t *testing.T) {
	const list = `{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437","raft_term":"2"},` +
		`"members":[{"ID":"10276657743932975437","name":"cp1","peerURLs":["https://10.0.0.11:2380"],` +
		`"clientURLs":["https://10.0.0.11:2379"]},{"ID":"7","peerURLs":["https://10.0.0.13:2380"],"isLearner":true},` +
		`{"ID":"8","name":"cp2","peerURLs":["https://[fd00::12]:2380"],"clientURLs":["https://[fd00::12]:2379"]}]}`
	peers, alone := listedPeers("pod\tprogram\tx\n" + list)
	if want := map[string]string{"cp1": "10.0.0.11", "cp2": "fd00::12"}; alone || !reflect.DeepEqual(peers, want) {
		t.Errorf("read as %v (alone %v), want %v", peers, alone, want)
	}
	if peers, alone := listedPeers(`{"error":"etcdserver: no leader","code":14}`); !alone || len(peers) > 0 {
		t.Errorf("a refusal is read as %v (alone %v)", peers, alone)
	}
}
