package acceptance

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestCIS: kube-bench judges a machine with the defaults, and the machines of examples/production, each by its own
// released controls and by those of examples/cis. What is not PASS is exactly what a table of the guide Hardening
// documents. With examples/production, no control of examples/cis fails.
func TestCIS(t *testing.T) {
	program := kubeBench(t)
	t.Cleanup(func() { rebuildAll(t, shared.lab) })
	t.Run("defaults", func(t *testing.T) {
		w := newStory(t, "cp1")
		apply(t, w)
		judge(t, program, "defaults", "cp1")
		noticeChanges(t, "cp1")
		apply(t, w, "-destroy")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("production", func(t *testing.T) {
		names := []string{"cp1", "cp2", "cp3"}
		w := storyIn(t, names, checkout(t), "examples/production")
		logins, remote := newLogins(t), newStorage(t)
		prepareMachines(t, names, remote)
		configure(t, w, names, newIdentity(t), logins, remote)
		apply(t, w)
		judge(t, program, "production", names...)
	})
}

// kubeBench returns the path of the pinned kube-bench.
func kubeBench(t *testing.T) string {
	t.Helper()
	machines(t)
	version, err := build.Version("kube-bench")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(shared.components), "tools", "kube-bench-v"+version, "kube-bench")
	if _, err := os.Stat(path); err != nil {
		testrun.Missing(t, "kube-lab build kube-bench makes it")
	}
	return path
}

// judge runs kube-bench on machines as the guide says, and compares what it finds with the guide.
func judge(t *testing.T, program, settings string, names ...string) {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	released, err := build.Sources(t.Context(), "kube-bench")
	if err != nil {
		t.Fatal(err)
	}
	table := documentedFindings(t)
	for _, name := range names {
		m := shared.lab.Machine(name)
		upload(t, m, program, "/usr/local/bin/kube-bench", "755")
		uploadTree(t, m, filepath.Join(root, "examples", "cis", "cfg"), "/root/cfg")
		uploadTree(t, m, filepath.Join(released, "cfg", "cis-1.10"), "/etc/kube-bench/cfg/cis-1.10")
		for n, judge := range []string{"examples/cis", "released"} {
			report := onMachine(t, m, "cd /root\n"+documentedScript(t, "hardening", n))
			t.Logf("%s, %s, judged by the controls of %s:\n%s", name, settings, judge, report)
			compareFindings(t, findingsOf(t, report), table[judge+" "+settings])
		}
	}
}

// unsafe makes files of a machine less safe, by the control of examples/cis that says so.
var unsafe = map[string]string{
	"1.1.1":  "chmod 664 /etc/systemd/system/kube-apiserver.service",
	"1.1.2":  "chown nobody /etc/systemd/system/kube-apiserver.service",
	"1.1.7":  "chmod 666 /etc/systemd/system/etcd.service",
	"1.1.11": "chmod 755 /var/lib/etcd",
	"1.1.13": "chmod 640 /etc/kubernetes/admin.conf",
	"1.1.14": "chown nobody /etc/kubernetes/admin.conf",
	"1.1.15": "chmod 640 /etc/kubernetes/scheduler.conf",
	"1.1.18": "chown root:root /etc/kubernetes/controller-manager.conf",
	"1.1.19": "chown nobody /etc/kubernetes/pki/ca.crt",
	"1.1.20": "chmod 666 /etc/kubernetes/pki/apiserver.crt",
	"1.1.21": "chmod 640 /etc/kubernetes/pki/etcd/peer.key",
	"1.2.1":  `sed -i 's|^  - path: /livez|&\n  - path: /metrics|' /etc/kubernetes/authentication.yaml`,
	"2.7":    "cat /etc/kubernetes/pki/etcd/ca.crt >>/etc/kubernetes/pki/client-ca.crt",
}

// noticeChanges makes a machine less safe, and expects that each of the controls notices it.
func noticeChanges(t *testing.T, name string) {
	t.Helper()
	m := shared.lab.Machine(name)
	onMachine(t, m, strings.Join(slices.Sorted(maps.Values(unsafe)), "\n"))
	states := findingsOf(t, onMachine(t, m, "cd /root\n"+documentedScript(t, "hardening", 0)))
	for control := range unsafe {
		if states[control] == "PASS" {
			t.Errorf("control %s does not notice: %s", control, unsafe[control])
		}
	}
	stopped := findingsOf(t, onMachine(t, m, `systemctl stop kube-scheduler kube-controller-manager
cd /root
`+documentedScript(t, "hardening", 0)))
	for _, control := range []string{"1.3.2", "1.3.6", "1.3.7", "1.4.1", "1.4.2"} {
		if stopped[control] != "FAIL" {
			t.Errorf("control %s is %s without the process", control, stopped[control])
		}
	}
}

// uploadTree copies a directory to a machine.
func uploadTree(t *testing.T, m *lab.Machine, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if inner := filepath.Join(from, entry.Name()); entry.IsDir() {
			uploadTree(t, m, inner, to+"/"+entry.Name())
		} else {
			upload(t, m, inner, to+"/"+entry.Name(), "644")
		}
	}
}

// finding is a line of kube-bench's report about one control.
var finding = regexp.MustCompile(`(?m)^\[(PASS|FAIL|WARN|INFO)\] (\d+\.\d+(?:\.\d+)?) .*\((?:Automated|Manual)\)$`)

// findingsOf returns the state of each control in a report.
func findingsOf(t *testing.T, report string) map[string]string {
	t.Helper()
	states := map[string]string{}
	for _, match := range finding.FindAllStringSubmatch(report, -1) {
		states[match[2]] = match[1]
	}
	if len(states) < 60 {
		t.Fatalf("kube-bench reports %d controls:\n%s", len(states), report)
	}
	return states
}

// compareFindings expects the documented state of each control, and PASS of all others.
func compareFindings(t *testing.T, got, documented map[string]string) {
	t.Helper()
	passed := 0
	for _, control := range slices.Sorted(maps.Keys(got)) {
		want := documented[control]
		if want == "" {
			want = "PASS"
		}
		if got[control] != want {
			t.Errorf("control %s: %s, and the guide documents %s", control, got[control], want)
		}
		if got[control] == "PASS" {
			passed++
		}
	}
	for control, state := range documented {
		if got[control] == "" && state != "–" {
			t.Errorf("control %s is documented as %s, and kube-bench does not report it", control, state)
		}
	}
	t.Logf("%d of %d controls pass", passed, len(got))
}

// findingsColumns are the columns of the guide's table after the control: who judges which settings.
var findingsColumns = []string{
	"examples/cis defaults", "examples/cis production", "released defaults", "released production",
}

// documentedFindings reads the table of the guide: for each of the columns, the state of each control.
func documentedFindings(t *testing.T) map[string]map[string]string {
	t.Helper()
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "templates", "guides", "hardening.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## What kube-bench finds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table := map[string]map[string]string{}
	for _, column := range findingsColumns {
		table[column] = map[string]string{}
	}
	row := regexp.MustCompile(`(?m)^\| ([0-9., ]+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| .+ \|$`)
	for _, match := range row.FindAllStringSubmatch(section, -1) {
		for control := range strings.SplitSeq(match[1], ", ") {
			for i, column := range findingsColumns {
				table[column][control] = match[2+i]
			}
		}
	}
	if len(table[findingsColumns[0]]) == 0 {
		t.Fatal("the guide has no table of what kube-bench finds")
	}
	for control, state := range table["examples/cis production"] {
		if state == "FAIL" {
			t.Errorf("examples/production fails control %s, says the guide", control)
		}
	}
	return table
}
