package etcd

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestObservedMember(t *testing.T) {
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	output := "process\tetcd.service\t1073741824\tinfinity\t" + encoded("/opt/etcd\x00--name=cp1\x00") +
		"\tunit\nreserved\tetcd.service\tetcd.service\tCPUWeight=300\n" +
		"reserved\tetcd.service\tetcd.slice\tCPUWeight=300\n" +
		"disk\t64769\t64768\t/var/lib/etcd\text2/ext3\n" +
		"timer\tetcd-snapshot.timer\tsuccess\tSun 2026-11-22 03:00:01 UTC\t" + encoded("{ path=/usr/bin/snapshot }") + "\n" +
		"scheduled\tsuccess\tyes\tSun 2026-11-22 03:00:00 UTC\tSun 2026-11-22 04:00:00 UTC\t" +
		"20261122T030001Z-cp1.db.sent\t1795316400\n" +
		"run\tSun 2026-11-22 04:00:00 UTC\nrun\tSun 2026-11-22 05:00:00 UTC\nrun\tSun 2026-11-22 07:00:00 UTC\n" +
		"data\t8:17\tsdb $(id) \nmount\t8:17\t/data\tsdb \nmount\t8:1\t/\tsda \nmount\t8:18\t/home\tsda sdb \n" +
		"mount\t8:18\t/home\tsdb \nmount\tswap\tswap\tsdb \ndata\t8:1\tsda \n" +
		"timer\tetcd-defrag.timer\texit-code\tn/a\t" + encoded("x") + "\n"
	got := observedMember("10.0.0.11", output, answers{
		fsync: latency{bound: time.Millisecond, count: 7}, profiles: client.Answer{Status: 404},
	})
	want := ObservedMember{
		Address: "10.0.0.11", OwnDisk: true, Disk: "/var/lib/etcd", Fsync: time.Millisecond, Fsyncs: 7,
		Process: host.Process{
			Running: true, MemoryMax: "1073741824", CPUWeight: "300", Flags: map[string]string{"name": "cp1"},
		},
		Devices: []string{"sdb"}, Sharing: []string{"/home", "swap"}, Profiles: client.Answer{Status: 404},
		ScrapersErr: errNoMetricsListener,
		Timers: []Timer{
			{
				Name: "etcd-snapshot.timer", Command: "{ path=/usr/bin/snapshot }",
				Ran: time.Date(2026, 11, 22, 3, 0, 1, 0, time.UTC),
			},
			{Name: "etcd-defrag.timer", Command: "x", Failed: true},
		},
		Scheduled: &Scheduled{
			Uploads: true, Sent: time.Date(2026, 11, 22, 3, 0, 1, 0, time.UTC),
			Ran: time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC), Next: time.Date(2026, 11, 22, 4, 0, 0, 0, time.UTC),
			Interval: 2 * time.Hour, Since: time.Unix(1795316400, 0).UTC(),
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	bare := observedMember("10.0.0.12", "disk\t5\t5\t/\ttmpfs\nscheduled\texit-code\tno\t\t\t\tnever\n",
		silent(errNoFsync))
	if !reflect.DeepEqual(bare.Scheduled, &Scheduled{Failed: true}) {
		t.Errorf("of snapshots that never ended well: %+v", bare.Scheduled)
	}
	if bare.OwnDisk || !bare.Memory || bare.Process.Running || !errors.Is(bare.FsyncErr, errNoFsync) {
		t.Errorf("of a bare machine: %+v", bare)
	}
}

func TestFsyncIn(t *testing.T) {
	const head = "# HELP x\nother_bucket{le=\"1\"} 5\n"
	bucket := func(le, n string) string { return fsyncHistogram + `_bucket{le="` + le + `"} ` + n + "\n" }
	for name, c := range map[string]struct {
		metrics string
		want    latency
		fails   bool
	}{
		"fast": {
			head + bucket("0.001", "5") + bucket("0.002", "990") + bucket("0.004", "1000") + bucket("+Inf", "1000"),
			latency{bound: 2 * time.Millisecond, count: 1000},
			false,
		},
		"nearly": {
			bucket("0.001", "5") + bucket("0.002", "989") + bucket("0.004", "1000") + bucket("+Inf", "1000"),
			latency{bound: 4 * time.Millisecond, count: 1000},
			false,
		},
		"very slow": {bucket("8.192", "5") + bucket("+Inf", "1e+03"), latency{bound: time.Minute, count: 1000}, false},
		"none yet":  {bucket("0.001", "0") + bucket("+Inf", "0"), latency{bound: time.Millisecond}, false},
		"missing":   {head, latency{}, true},
		"damaged":   {bucket("x", "5"), latency{}, true},
	} {
		got := fsyncIn(c.metrics)
		if (got.err != nil) != c.fails || got.bound != c.want.bound || got.count != c.want.count {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestDirectoryOfStoppedMember: the snapshots of a member that is stopped are beside its own data.
func TestDirectoryOfStoppedMember(t *testing.T) {
	unit := filepath.Join(t.TempDir(), "etcd.service")
	script, _, ok := strings.Cut(string(reviewScript), "\n[ -d \"$dir\" ]")
	if !ok {
		t.Fatal("the script does not look for the data")
	}
	script = "systemctl() { echo 0; }\n" + strings.ReplaceAll(script, layout.UnitPath, unit) + "\necho \"$dir\"\n"
	for content, want := range map[string]string{
		"ExecStart=/opt/etcd --name=cp1 --data-dir=/data/etcd --x\n": "/data/etcd\n",
		"[Service]\n": layout.DefaultDataDir + "\n",
	} {
		if err := os.WriteFile(unit, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
		if err != nil || !strings.HasSuffix(string(out), "\n"+want) {
			t.Errorf("%q: %v, %q, want %q", content, err, out, want)
		}
	}
}
