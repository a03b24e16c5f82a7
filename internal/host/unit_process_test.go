package host

import (
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadProcesses(t *testing.T) {
	line := base64.StdEncoding.EncodeToString(
		[]byte("/opt/kube/etcd/3.6.16/etcd\x00--name=cp1\x00--client-cert-auth\x00--experimental=a=b\x00"))
	got := ReadProcesses("something else\n" +
		"process\tetcd.service\t4294967296\tinfinity\t" + line + "\tunit\n" +
		"process\tkube-scheduler.service\tinfinity\t1.500000s\t\tunit\n" +
		"process\tkube-apiserver\t\t\t" + line + "\tcontainer\n" +
		"process\tcut off\n")
	flags := map[string]string{"name": "cp1", "client-cert-auth": "", "experimental": "a=b"}
	want := map[string]Process{
		"etcd.service":           {Running: true, MemoryMax: "4294967296", Flags: flags},
		"kube-scheduler.service": {Flags: map[string]string{}, CPUQuota: "1.500000s"},
		"kube-apiserver": {
			Running: true, Flags: flags, Unseen: "the cgroup of its container does not show on the machine",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestReservations: what a unit reserves counts as far as its slices reserve it, and as far as the machine can.
func TestReservations(t *testing.T) {
	const own = "reserved\tx.service\tx.service\tMemoryMin=1000 MemoryLow=0 CPUWeight=300 IOWeight=200 \n"
	slice := func(name, text string) string { return "reserved\tx.service\t" + name + "\t" + text + "\n" }
	const v2, weighs = "cgroups\t2\n", "weighs\tyes\n"
	for name, c := range map[string]struct {
		output string
		want   Process
	}{
		"all": {
			v2 + weighs + own + slice("x.slice", "MemoryMin=1000 CPUWeight=300 IOWeight=200"),
			Process{MemoryMin: "1000", CPUWeight: "300", IOWeight: "200"},
		},
		"cgroup v1, and no scheduler that weighs": {
			"cgroups\t1\nweighs\tno\n" + own + slice("x.slice", "MemoryMin=1000 CPUWeight=300 IOWeight=200"),
			Process{CPUWeight: "300"},
		},
		"a slice without it": {
			v2 + weighs + own + slice("x.slice", "MemoryMin=0 CPUWeight=[not set] IOWeight=[not set]"),
			Process{NotInEffect: []string{
				"MemoryMin=1000, and x.slice has none", "CPUWeight=300, and x.slice has none",
				"IOWeight=200, and x.slice has none",
			}},
		},
		"a slice with another": {v2 + weighs + own + slice("x.slice", "MemoryMin=999 CPUWeight=7 IOWeight=200"), Process{
			MemoryMin: "999", CPUWeight: "7", IOWeight: "200",
			NotInEffect: []string{"CPUWeight=300, and x.slice has 7"}, // a percentage is rounded in two ways
		}},
		"a slice with as much as rounding may differ": {
			v2 + "reserved\tx.service\tx.service\tMemoryMin=1065536\n" + slice("x.slice", "MemoryMin=1000000"),
			Process{MemoryMin: "1000000"},
		},
		"a slice with less": {
			v2 + "reserved\tx.service\tx.service\tMemoryMin=1065537\n" + slice("x.slice", "MemoryMin=1000000"),
			Process{MemoryMin: "1000000", NotInEffect: []string{"MemoryMin=1065537, and x.slice has 1000000"}},
		},
		"among the units of system.slice": {v2 + weighs + own + slice(systemSlice, "MemoryMin=0"), Process{
			CPUWeight: "300", IOWeight: "200", NotInEffect: []string{"MemoryMin=1000, and system.slice has none"},
		}},
		"in a slice of a slice": {
			v2 + "reserved\tx.service\tx.service\tCPUWeight=9\n" + slice("a-b.slice", "MemoryMin=1000 CPUWeight=9") +
				slice("a.slice", "MemoryMin=200 CPUWeight=400"),
			Process{
				MemoryMin: "200", CPUWeight: "400", NotInEffect: []string{"CPUWeight=9, and a.slice has 400"},
			},
		},
		"in a slice that has less": {
			v2 + "reserved\tx.service\tx.service\t\n" + slice("a-b.slice", "MemoryMin=100") + slice("a.slice", "MemoryMin=200"),
			Process{MemoryMin: "100"},
		},
		"in a slice that has more": {
			v2 + "reserved\tx.service\tx.service\t\n" + slice("a-b.slice", "MemoryMin=300") + slice("a.slice", "MemoryMin=200"),
			Process{MemoryMin: "200"},
		},
		"in a slice that has less, of fewer digits": {
			v2 + "reserved\tx.service\tx.service\t\n" + slice("a-b.slice", "MemoryMin=90") + slice("a.slice", "MemoryMin=100"),
			Process{MemoryMin: "90"},
		},
		"in a slice of system.slice": {
			v2 + "reserved\tx.service\tx.service\tCPUWeight=9\n" + slice("system-x.slice", "CPUWeight=20") +
				slice(systemSlice, "CPUWeight=400"), Process{CPUWeight: "20", NotInEffect: []string{
				"CPUWeight=9, and system-x.slice has 20",
			}},
		},
		"as long as there is some elsewhere": {
			v2 + "reserved\tx.service\tx.service\t\n" + slice("x.slice", "MemoryMin=0 MemoryLow=5"), Process{MemoryMin: "5"},
		},
		"a unit that is not there": {v2 + weighs + own, Process{}},
		"nothing that systemd says": {
			v2 + weighs + "reserved\tx.service\tx.service\t\n" + slice("x.slice", "MemoryMin=-1 CPUWeight=007 IOWeight=$(id)"),
			Process{},
		},
	} {
		got := ReadProcesses(c.output + "process\tx.service\tinfinity\tinfinity\t\tunit\n")["x.service"]
		c.want.Flags = map[string]string{}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestReadGroups: the limits of a container are the lowest of its group and of its Pod's.
func TestReadGroups(t *testing.T) {
	group := func(file, value string) string { return "group\tx\t" + file + "\t" + value + "\n" }
	const unseen = "the cgroup of its container does not show on the machine"
	for name, c := range map[string]struct {
		output string
		want   Process
	}{
		"cgroup v2": {
			group("memory.max", "2147483648 ") + group("memory.min", "1024 ") + group("cpu.max", "150000 100000 ") +
				group("cpu.weight", "10 ") + group("memory.max", "max ") + group("memory.min", "4096") +
				group("cpu.max", "max 100000") + group("cpu.weight", "10"),
			Process{MemoryMax: "2147483648", CPUQuota: "1.5s", MemoryMin: "1024", CPURequest: true},
		},
		"cgroup v1": {
			group("memory.limit_in_bytes", "1073741824 ") + group("memory.limit_in_bytes", "9223372036854771712") +
				group("cpu.max", "200000 100000") + group("cpu.max", "-1 100000") + group("cpu.shares", "256") +
				group("cpu.shares", "256"),
			Process{MemoryMax: "1073741824", CPUQuota: "2s", CPURequest: true},
		},
		"nothing set": {
			group("memory.max", "max") + group("memory.min", "0") + group("cpu.max", "max 100000") + group("cpu.weight", "1"),
			Process{},
		},
		"nothing set in cgroup v1": {
			group("memory.limit_in_bytes", "9223372036854771712") + group("cpu.max", "-1 100000") + group("cpu.shares", "2"),
			Process{},
		},
		"a request of the container, and none of the Pod": {
			group("memory.max", "max") + group("cpu.shares", "512") + group("cpu.shares", "2"), Process{},
		},
		"reserved for the container, and not for the Pod": {
			group("memory.max", "max") + group("memory.min", "5") + group("memory.min", "0") + group("cpu.shares", "3"),
			Process{CPURequest: true},
		},
		"less for the Pod": {
			group("memory.max", "2000") + group("memory.max", "1000") + group("memory.min", "9") + group("memory.min", "10") +
				group("cpu.max", "200000 100000") + group("cpu.max", "100000 100000") + group("cpu.weight", "2") +
				group("cpu.weight", "3"),
			Process{MemoryMax: "1000", CPUQuota: "1s", MemoryMin: "9", CPURequest: true},
		},
		"more for the Pod": {
			group("memory.max", "1000") + group("memory.max", "2000") + group("cpu.max", "100000 100000") +
				group("cpu.max", "200000 100000") + group("cpu.shares", "2") + group("cpu.shares", "3"),
			Process{MemoryMax: "1000", CPUQuota: "1s"},
		},
		"the first amount that is no limit": {
			group("memory.max", "1152921504606846976") + group("memory.max", "max") + group("cpu.weight", "2"),
			Process{CPURequest: true},
		},
		"the last amount that is a limit": {
			group("memory.max", "1152921504606846975") + group("cpu.weight", "1") + group("cpu.weight", "2"),
			Process{MemoryMax: "1152921504606846975"},
		},
		"one byte": {
			group("memory.max", "1") + group("memory.min", "1") + group("cpu.weight", "1"),
			Process{MemoryMax: "1", MemoryMin: "1"},
		},
		"no memory":     {group("cpu.shares", "512"), Process{Unseen: unseen}},
		"no processors": {group("memory.max", "5"), Process{Unseen: unseen}},
		"none":          {"group\ty\tmemory.max\t5\n", Process{Unseen: unseen}},
		"nothing of a group": {
			group("memory.max", "$(id)") + group("cpu.shares", "-5") + group("cpu.max", "1"), Process{Unseen: unseen},
		},
		"too large": {
			group("memory.max", "9999999999999999999") + group("cpu.shares", "3") + group("cpu.max", "0 0"),
			Process{CPURequest: true},
		},
	} {
		got := ReadProcesses(c.output + "process\tx\t\t\t\tcontainer\n")["x"]
		c.want.Flags = map[string]string{}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// groupFiles writes files below a directory.
func groupFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestContainerized reads the groups of a container as kubelets make them, with either version of cgroups, drivers
// cgroupfs and systemd, and a machine that sees a part of a hierarchy only.
func TestContainerized(t *testing.T) {
	const uid = "7e0d8f1c-0000-4000-8000-3f2b7d9c1a22"
	v1 := map[string]string{
		"memory%s/kubepods/burstable/pod" + uid + "/abc/memory.limit_in_bytes": "1073741824\n",
		"memory%s/kubepods/burstable/pod" + uid + "/memory.limit_in_bytes":     "536870912\n",
		"memory%s/kubepods/burstable/memory.limit_in_bytes":                    "1024\n",
		"cpu%s/kubepods/burstable/pod" + uid + "/abc/cpu.shares":               "102\n",
		"cpu%s/kubepods/burstable/pod" + uid + "/abc/cpu.cfs_quota_us":         "50000\n",
		"cpu%s/kubepods/burstable/pod" + uid + "/abc/cpu.cfs_period_us":        "100000\n",
		"cpu%s/kubepods/burstable/pod" + uid + "/cpu.shares":                   "102\n",
		"cpu%s/kubepods/burstable/cpu.shares":                                  "2\n",
	}
	const v1Mounts = "40 30 0:33 %s DIR/memory ro - cgroup cgroup rw,memory\n" +
		"41 30 0:34 %s DIR/cpu ro shared:9 - cgroup cgroup rw,cpu,cpuacct\n" +
		"42 30 0:35 / DIR/unified ro - cgroup2 cgroup rw\n"
	const v1Group = "9:name=systemd:/x\n4:memory:%s/kubepods/burstable/pod" + uid + "/abc\n" +
		"1:cpu,cpuacct:%s/kubepods/burstable/pod" + uid + "/abc\n0::/other\n"
	scope := "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7e0d8f1c.slice/"
	v2 := map[string]string{
		scope + "crio-abc.scope/container/memory.max": "max\n", scope + "crio-abc.scope/container/cpu.max": "max 100000\n",
		scope + "crio-abc.scope/container/cpu.weight": "79\n", scope + "crio-abc.scope/memory.max": "1073741824\n",
		scope + "cpu.max": "50000 100000\n", "kubepods.slice/memory.max": "5\n", "kubepods.slice/cpu.weight": "1\n",
	}
	const v2Mount = "42 30 0:35 / DIR ro - cgroup2 cgroup rw\n"
	plain := func(text string) string { return strings.ReplaceAll(text, "%s", "") }
	for name, c := range map[string]struct {
		files         map[string]string
		mounts, group string
		want          Process
	}{
		"cgroup v1": {
			v1, strings.ReplaceAll(v1Mounts, "%s", "/"), plain(v1Group),
			Process{MemoryMax: "536870912", CPUQuota: "0.5s", CPURequest: true},
		},
		"a part of cgroup v1": {
			v1, strings.ReplaceAll(v1Mounts, "%s", "/lab/cp1"), strings.ReplaceAll(v1Group, "%s", "/lab/cp1"),
			Process{MemoryMax: "536870912", CPUQuota: "0.5s", CPURequest: true},
		},
		"another part of cgroup v1": {
			v1, strings.ReplaceAll(v1Mounts, "%s", "/lab/cp1"), strings.ReplaceAll(v1Group, "%s", "/lab/cp10"),
			Process{Unseen: "the cgroup of its container does not show on the machine"},
		},
		"cgroup v2": {
			v2, v2Mount, "0::/" + scope + "crio-abc.scope/container\n",
			Process{MemoryMax: "1073741824", CPUQuota: "0.5s", CPURequest: true},
		},
		"outside of what the machine sees": {
			v2, v2Mount, "0::/../../x\n", Process{Unseen: "the cgroup of its container does not show on the machine"},
		},
		"not in a Pod": {v2, v2Mount, "0::/kubepods.slice\n", Process{MemoryMax: "5"}},
	} {
		dir := t.TempDir()
		groupFiles(t, dir, map[string]string{
			"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda rw\n" + strings.ReplaceAll(c.mounts, "DIR", dir+"/cgroup"),
			"proc/7/cgroup":       c.group, "proc/7/cmdline": "x\x00--a=b\x00",
		})
		files := map[string]string{}
		for file, text := range c.files {
			files["cgroup/"+strings.ReplaceAll(file, "%s", "")] = text
		}
		groupFiles(t, dir, files)
		script := ProcessFunctions + "process_proc=" + Words(dir+"/proc") + "\ncontainerized x 7\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-eu", "-c", string(script)).CombinedOutput()
		got := ReadProcesses(string(out))["x"]
		c.want.Running, c.want.Flags = true, map[string]string{"a": "b"}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v: %v\n%s", name, got, c.want, err, out)
		}
	}
}

// TestWeighs: shares of disks count if every disk has a scheduler or a controller for them.
func TestWeighs(t *testing.T) {
	dir := t.TempDir()
	groupFiles(t, dir, map[string]string{
		"block/sda/queue/scheduler": "none mq-deadline [bfq]\n", "block/sda/dev": "8:0\n",
		"block/sdb/queue/scheduler": "none [mq-deadline] bfq\n", "block/sdb/dev": "8:16\n",
		"block/sdc/queue/scheduler": "[none]\n", "block/sdc/dev": "8:32\n",
		"fs/cgroup/io.cost.qos": "8:160 enable=1 ctrl=auto\n8:16 enable=0 ctrl=auto\n8:32 enable=1 ctrl=auto\n",
	})
	for disks, want := range map[string]string{
		"sda": "yes", "sdb": "no", "sdc": "yes", "sda sdc": "yes", "sda sdb": "no", "sdz": "no", "": "no",
	} {
		script := DiskFunctions + "disks_sys=" + Words(dir) + "\nweighs " + Words(strings.Fields(disks)...) + "\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-eu", "-c", string(script)).CombinedOutput()
		if err != nil || string(out) != "weighs\t"+want+"\n" {
			t.Errorf("%q: %s, %v", disks, out, err)
		}
	}
}
