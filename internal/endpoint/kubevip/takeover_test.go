package kubevip

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// takeover is a machine with the manifest of a static pod, on which scripts run with stand-ins.
type takeover struct {
	t        *testing.T
	dir      string
	manifest string
}

// newTakeover returns a machine whose kube-vip ends when its manifest is gone, unless the file lasts is there.
func newTakeover(t *testing.T) takeover {
	t.Helper()
	dir, _ := withStandIns(t)
	m := takeover{t, dir, filepath.Join(dir, "manifests/kube-vip.yaml")}
	r := testSpec().Registration()
	agent := renderAgent(r, "cp1", netip.MustParseAddr("10.0.0.11"), "eth0")
	agent = m.here().Replace(strings.Replace(agent, string(podsFunction), m.pods(), 1))
	for file, content := range map[string]string{
		"manifests/kube-vip.yaml": "address " + r.Address, "config/endpoint.json": r.Record("cp1"), "agent": agent,
		"credential": "", "etc/systemd": "", "opt/x": "", "sleep": "#!/bin/sh\n",
	} {
		m.write(file, content)
	}
	return m
}

// write writes a file of the machine, below directories that are made for it.
func (m takeover) write(file, content string) {
	m.t.Helper()
	path := m.at(file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		m.t.Fatal(err)
	}
}

func (m takeover) at(name string) string { return filepath.Join(m.dir, name) }

func (m takeover) there(name string) bool { _, err := os.Stat(m.at(name)); return err == nil }

// here replaces the paths of a machine.
func (m takeover) here() *strings.Replacer {
	return strings.NewReplacer(configDir, m.at("config"), "/etc", m.at("etc"), "/opt", m.at("opt"), "/run", m.at("run"))
}

// pods is a stand-in for the function of that name.
func (m takeover) pods() string {
	return "pods() { if [ -e " + m.manifest + " ] || [ -e " + m.at("lasts") + " ]; then echo 4711; fi; }\n"
}

// run runs a script of the endpoint, with more variables, and reports whether it succeeds.
func (m takeover) run(script host.Script, more map[string]string) bool {
	m.t.Helper()
	_, ok := m.output(script, more)
	return ok
}

// output is run with what the script prints.
func (m takeover) output(script host.Script, more map[string]string) (text string, ok bool) {
	m.t.Helper()
	r := testSpec().Registration()
	vars := variables(r)
	vars["cluster"], vars["vip"], vars["replica"] = r.ClusterID, r.Address, "cp1"
	vars["config"], vars["manifests"], vars["agent"] = m.at("config"), m.manifest, m.at("agent")
	vars["run"], vars["credential"] = m.at("run"), m.at("credential")
	maps.Copy(vars, more)
	if err := os.MkdirAll(m.at("run"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	shell := exec.CommandContext(m.t.Context(), "/bin/sh", "-euc", string(host.Assignments(vars)+host.FlushFunction())+
		m.pods()+string(takeoverFunctions)+string(endpoint.OwnerFunctions())+m.here().Replace(string(script)))
	shell.Env = []string{
		"PATH=" + m.dir + ":" + os.Getenv("PATH"), "CHANGED=", "address_file=" + m.at("held"), "calls=" + m.at("calls"),
	}
	out, err := shell.CombinedOutput()
	m.t.Logf("%v\n%s", err, out)
	return string(out), err == nil
}

// TestTakeoverIsRepeated: the manifest of a static pod is on the machine until the takeover is complete. A takeover
// that was cut off goes on, and does not start the endpoint's own kube-vip while the pod runs. The manifest is given
// back if the endpoint is removed instead.
func TestTakeoverIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		steps    []string
		returned bool
	}{
		"never begun":                         {nil, true},
		"the pod does not end":                {[]string{"lasts", "refused"}, true},
		"repeated, and the pod does not end":  {[]string{"lasts", "refused", "refused"}, true},
		"repeated, and the pod ends":          {[]string{"lasts", "refused", "ends", "applied"}, true},
		"the pod has ended":                   {[]string{"applied"}, true},
		"repeated after the pod has ended":    {[]string{"applied", "applied"}, true},
		"complete":                            {[]string{"applied", "completed"}, false},
		"repeated and complete":               {[]string{"lasts", "refused", "ends", "applied", "completed"}, false},
		"complete, and another pod was added": {[]string{"applied", "completed", "added", "applied"}, true},
		"the replica left rotation to return": {[]string{"applied", "drained"}, true},
		"the replica is deleted":              {[]string{"applied", "drained for good"}, false},
		"a deletion, and the pod still runs":  {[]string{"lasts", "refused", "not drained"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTakeover(t)
			for _, step := range c.steps {
				m.step(step)
			}
			if begun := len(c.steps) > 0; begun && m.there("manifests/kube-vip.yaml") {
				t.Error("the kubelet still has the manifest")
			}
			if !m.run(cleanScript, nil) {
				t.Fatal("the endpoint is not removed")
			}
			text, _ := os.ReadFile(m.manifest)
			if returned := strings.HasPrefix(string(text), "address "); returned != c.returned || m.there("config") {
				t.Errorf("the manifest is %q, and the directory is there: %v", text, m.there("config"))
			}
		})
	}
}

// TestManifestIsReturned: an endpoint that is removed loses no manifest whose takeover is not complete, and starts one
// pod at most. Before it is refused, nothing is changed.
func TestManifestIsReturned(t *testing.T) {
	const (
		yaml, yml = "manifests/kube-vip.yaml", "manifests/kube-vip.yml"
		pending   = "config/inherited/kube-vip.yaml.pending"
		pendingY  = "config/inherited/kube-vip.yml.pending"
		pod       = "address 10.0.0.100, the pod"
		other     = "address 10.0.0.101"
	)
	type files = map[string]string
	for name, c := range map[string]struct {
		files   files
		without bool // the directory of manifests is not there
		refused string
		want    files // manifests
	}{
		"none":                      {nil, false, "", nil},
		"none, and no directory":    {nil, true, "", nil},
		"one":                       {files{pending: pod}, false, "", files{yaml: pod}},
		"the other one":             {files{pendingY: pod}, false, "", files{yml: pod}},
		"both":                      {files{pending: pod, pendingY: "address 10.0.0.100"}, false, "", files{yaml: pod}},
		"no directory":              {files{pendingY: pod}, true, "kube-vip.yml.pending", nil},
		"the kubelet has it":        {files{pending: "earlier", yaml: pod}, false, "", files{yaml: pod}},
		"the kubelet has the other": {files{pending: "earlier", yml: pod}, false, "", files{yml: pod}},
		"the kubelet has one of another address": {
			files{pending: pod, yml: other}, false, "", files{yaml: pod, yml: other},
		},
		"one of another address has its name": {
			files{pending: pod, yaml: other}, false, "kube-vip.yaml.pending", files{yaml: other},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newTakeover(t)
			if err := os.RemoveAll(m.at("manifests")); err != nil {
				t.Fatal(err)
			}
			if !c.without {
				m.write("manifests/etcd.yaml", "")
			}
			for file, content := range c.files {
				m.write(file, content)
			}
			m.write("config/registered", "")
			out, ok := m.output(cleanScript, map[string]string{"manifests": m.at(yaml) + " " + m.at(yml)})
			if ok != (c.refused == "") || !strings.Contains(out, c.refused) {
				t.Errorf("it succeeds: %v, and says %q", ok, out)
			}
			if kept := m.there("config/registered"); kept != (c.refused != "") {
				t.Errorf("the directory of the endpoint is as before: %v", kept)
			}
			for _, file := range []string{yaml, yml, pending, pendingY} {
				want := c.want[file]
				if c.refused != "" && c.files[file] != "" {
					want = c.files[file]
				}
				if text, _ := os.ReadFile(m.at(file)); string(text) != want {
					t.Errorf("%s is %q, want %q", file, text, want)
				}
			}
		})
	}
}

// removed is that variable of a drain.
var removed = map[string]string{"drained": "no", "drained for good": "yes"}

// step does one step of a takeover, and verifies its result.
func (m takeover) step(what string) {
	m.t.Helper()
	calls := func() int { text, _ := os.ReadFile(m.at("calls")); return strings.Count(string(text), unitName) }
	before := calls()
	switch what {
	case "lasts":
		m.write("lasts", "")
	case "ends":
		if err := os.Remove(m.at("lasts")); err != nil {
			m.t.Fatal(err)
		}
	case "added":
		m.write("manifests/kube-vip.yaml", "address "+testSpec().Address)
	case "refused":
		if m.run(applyScript, nil) || calls() != before {
			m.t.Error("the unit starts while the pod runs")
		}
	case "applied":
		if !m.run(applyScript, nil) || calls() == before {
			m.t.Error("the takeover does not go on")
		}
	case "drained", "drained for good":
		if !m.run(drainScript, map[string]string{"removed": removed[what]}) {
			m.t.Error("the replica does not leave rotation")
		}
	case "not drained":
		if m.run(drainScript, map[string]string{"removed": "yes"}) {
			m.t.Error("the replica leaves rotation while the pod has the address")
		}
	case "completed":
		if !m.run(completeScript, nil) || !m.there("config/inherited/kube-vip.yaml") {
			m.t.Error("no copy of the manifest stays")
		}
	}
}

// TestPendingTakeover: a static pod that still runs after a takeover was cut off is taken over by the next one, which
// has to be the only one. The kubelet may end it at any time: no other machine may rely on it, and its own takeover
// needs the others. One that has ended is drift until the takeover is complete.
func TestPendingTakeover(t *testing.T) {
	s := testSpec()
	s.LeaseName = "plndr-cp-lock"
	r := s.Registration()
	for name, c := range map[string]struct {
		foreign    bool
		manifest   string
		goesOn     bool
		registered bool
		err        bool
	}{
		"the pod runs":                {true, manifest, true, false, false},
		"it runs beside our own":      {true, manifest, true, true, false},
		"the pod has ended":           {false, manifest, false, false, false},
		"a pod of another Lease":      {true, with("vip_leasename", "other"), false, false, true},
		"an ended one of another one": {false, with("vip_leasename", "other"), false, false, false},
		"something else runs":         {true, "kind: Pod", false, false, true},
		"something else, and no pod":  {false, "kind: Pod", false, false, false},
	} {
		m := podMachine(r, "")
		m.Report.Foreign, m.Report.Registered, m.Report.Running = c.foreign, c.registered, c.registered
		m.Facts.Files[pendingManifests[1]] = host.FileState{Content: c.manifest}
		why := outOfRotation(r, m)
		if why == nil {
			t.Errorf("%s: other machines rely on it", name)
		}
		if got := errors.Is(why, targets.ErrUnknown); got != c.goesOn {
			t.Errorf("%s: it may have the address: %v, because %v", name, got, why)
		}
		if got := restarts(r, m, nil); got != c.goesOn {
			t.Errorf("%s: the takeover waits for its turn: %v", name, got)
		}
		if err := requirements(m, r); (err != nil) != c.err {
			t.Errorf("%s: %v", name, err)
		}
		if got := strings.Join(differs(r, m), "\n"); !strings.Contains(got, "not complete: "+pendingManifests[1]) {
			t.Errorf("%s: drift is %q", name, got)
		}
	}
	both := podMachine(r, manifest)
	both.Facts.Files[pendingManifests[0]] = host.FileState{Content: manifest}
	if err := outOfRotation(r, both); err != nil || !restarts(r, both, nil) {
		t.Errorf("the kubelet has a manifest again: %v", err)
	}
	broken := podMachine(r, "kind: Pod")
	if _, there, err := podOf(broken); !there || !errors.Is(err, errNotAPod) {
		t.Errorf("a manifest that cannot be read: %v, %v", there, err)
	}
	if _, there, err := podOf(registered(r)); there || err != nil {
		t.Errorf("without a manifest: %v, %v", there, err)
	}
	if q := query(r, testOwn); !slices.Contains(q.Contents, pendingManifests[0]) {
		t.Errorf("the contents of %q are read", q.Contents)
	}
	if got := differs(r, registered(r)); len(got) > 0 {
		t.Errorf("without a takeover: %q", got)
	}
}
