package kubevip

import (
	_ "embed"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// manifest is what kube-vip 1.2.3 writes: kube-vip manifest pod --interface eth0 --address 10.0.0.100 --controlplane
// --arp --leaderElection.
//
//go:embed testdata/kube-vip.yaml
var manifest string

// with returns the manifest with another value of a setting, or with one more setting.
func with(name, value string) string {
	setting := "    - name: " + name + "\n      value: "
	before, after, there := strings.Cut(manifest, setting)
	if !there {
		return strings.Replace(manifest, "    env:\n", "    env:\n"+setting+value+"\n", 1)
	}
	_, after, _ = strings.Cut(after, "\n")
	return before + setting + value + "\n" + after
}

func TestParseStaticPod(t *testing.T) {
	got, err := parseStaticPod(manifest)
	want := staticPod{
		Address: "10.0.0.100", Port: 6443, Interface: "eth0", Lease: "plndr-cp-lock", LeaseDuration: 15 * time.Second,
	}
	if err != nil || got != want {
		t.Errorf("the pod is %+v, %v", got, err)
	}
	older := strings.Replace(with("vip_leaseduration", `"5"`), "name: address", "name: vip_address", 1)
	if got, err := parseStaticPod(older); err != nil || got.Address != "10.0.0.100" || got.LeaseDuration != 5*time.Second {
		t.Errorf("an older one is %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":              "",
		"no YAML":            "\x00{",
		"too long":           manifest + strings.Repeat(" ", longestManifest),
		"something else":     strings.Replace(manifest, "kind: Pod", "kind: Service", 1),
		"a command":          strings.Replace(manifest, "  - args:", "  - command: [sh]\n    args:", 1),
		"arguments":          strings.Replace(manifest, "    - manager\n", "    - manager\n    - --bgp\n", 1),
		"Services":           with("svc_enable", `"true"`),
		"BGP":                with("bgp_enable", `"true"`),
		"IPVS":               with("lb_enable", `"true"`),
		"no election":        with("vip_leaderelection", `"false"`),
		"no ARP":             with("vip_arp", `"false"`),
		"no control plane":   with("cp_enable", `"false"`),
		"another namespace":  with("cp_namespace", "default"),
		"a name":             with("address", "api.example.org"),
		"two addresses":      with("vip_address", "10.0.0.101"),
		"a port":             with("port", `"0"`),
		"an interface":       with("vip_interface", `"$(id)"`),
		"a Lease":            with("vip_leasename", `"$(id)"`),
		"a duration":         with("vip_leaseduration", "15s"),
		"something unknown":  with("do_more", `"true"`),
		"an escape sequence": with("\"\\u001b[2J\"", `"true"`),
	} {
		if got, err := parseStaticPod(text); !errors.Is(err, errNotAPod) || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestImportedFrom: what a machine says is validated before it can become part of the state.
func TestImportedFrom(t *testing.T) {
	facts := func(hostname, text string) host.Facts {
		return host.Facts{Hostname: hostname, Files: map[string]host.FileState{podManifests[1]: {Content: text}}}
	}
	s, there, err := importedFrom(facts("cp1", manifest), "10.0.0.11")
	if err != nil || !there || s.Address != "10.0.0.100" || s.LeaseName != "plndr-cp-lock" ||
		s.Targets["cp1"] != "10.0.0.11" {
		t.Errorf("imported as %+v, %v, %v", s, there, err)
	}
	if _, there, err := importedFrom(host.Facts{Hostname: "cp1"}, "10.0.0.11"); there || err != nil {
		t.Errorf("without a manifest: %v, %v", there, err)
	}
	for name, f := range map[string]host.Facts{
		"a hostname with a command":          facts("$(reboot)", manifest),
		"a hostname with an escape sequence": facts("cp1\x1b[2J", manifest),
		"no hostname":                        facts("", manifest),
		"the machine's own address":          facts("cp1", with("address", "10.0.0.11")),
		"a Lease that is too short":          facts("cp1", with("vip_leaseduration", `"1"`)),
		"no manifest of kube-vip":            facts("cp1", "kind: Pod"),
	} {
		got, there, err := importedFrom(f, "10.0.0.11")
		if err == nil || !there || got.Address != "" || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: imported as %+v, %v", name, got, err)
		}
	}
}

// podMachine is a machine on which a static pod has the address.
func podMachine(r endpoint.Registration, text string) machine {
	m := registered(r)
	m.Owner, m.Report.Registered, m.Report.Running = endpoint.Owner{}, false, false
	m.Report.Foreign, m.Report.Address = true, true
	m.Facts.Files[podManifests[0]] = host.FileState{Content: text}
	return m
}

// TestInherit: a static pod that elects by the endpoint's Lease is in rotation until its address is taken over, which
// has to be done on one machine at a time. Any other kube-vip for the address refuses it.
func TestInherit(t *testing.T) {
	s := testSpec()
	s.LeaseName = "plndr-cp-lock"
	r := s.Registration()
	pod := podMachine(r, manifest)
	if err := outOfRotation(r, pod); err != nil {
		t.Errorf("the machine is out of rotation: %v", err)
	}
	if !restarts(r, pod, nil) {
		t.Error("the address is taken over on all machines at once")
	}
	if err := requirements(pod, r); err != nil {
		t.Error(err)
	}
	both := registered(r)
	both.Report.Foreign = true
	both.Facts.Files[podManifests[0]] = host.FileState{Content: manifest}
	if there := differs(r, both); len(there) != 1 || !strings.Contains(there[0], "also runs as a static pod") {
		t.Errorf("a static pod that was added is drift: %q", there)
	}
	ended := podMachine(r, manifest)
	ended.Report.Foreign = false
	if err := outOfRotation(r, ended); err == nil {
		t.Error("a static pod that does not run is in rotation")
	}
	another := podMachine(r, with("address", "10.0.0.101"))
	another.Report.Foreign = false
	if err := requirements(another, r); err != nil {
		t.Errorf("the static pod of another address: %v", err)
	}
	gone := podMachine(r, "")
	for name, c := range map[string]struct {
		r    endpoint.Registration
		m    machine
		want error
	}{
		"another Lease":   {testSpec().Registration(), podMachine(r, manifest), errOtherLease},
		"Services":        {r, podMachine(r, with("svc_enable", `"true"`)), errOtherKubeVIP},
		"another port":    {r, podMachine(r, with("port", `"7443"`)), errOtherKubeVIP},
		"no manifest":     {r, gone, errOtherKubeVIP},
		"another address": {r, podMachine(r, with("address", "10.0.0.101")), errOtherKubeVIP},
		"announced by us": {bgpSpec().Registration(), podMachine(r, with("address", bgpSpec().Address)), errOtherKubeVIP},
	} {
		if err := requirements(c.m, c.r); !errors.Is(err, c.want) || nextStep(err) == "" {
			t.Errorf("%s: %v, next %q", name, err, nextStep(err))
		}
	}
}

// FuzzParseStaticPod verifies that what a manifest says can be used in a registration.
func FuzzParseStaticPod(f *testing.F) {
	f.Add(manifest)
	f.Add(with("vip_interface", `"\u001b[2J"`))
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseStaticPod(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\x1b\n") {
				t.Errorf("%q", err)
			}
			return
		}
		if !leaseForm.MatchString(p.Lease) || p.Interface != "" && !interfaceForm.MatchString(p.Interface) || p.Port <= 0 {
			t.Errorf("%q is parsed as %+v", text, p)
		}
	})
}
