package kubelet

import (
	"encoding/base64"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const show = "{ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS " +
	"$KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS ; ignore_errors=no ; start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; " +
	"code=(null) ; status=0/0 }"

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// reportOf returns what a machine reports.
func reportOf(command, program, version string, servers ...string) string {
	lines := []string{
		"kubelet\tactive\tactive", "kubelet\tstarted\t77\t0", "kubelet\tcommand\t" + encode(command+"\n"),
		"kubelet\tprogram\t" + encode(program+"\n"), "kubelet\tversion\t" + encode(version+"\n"),
	}
	for _, server := range servers {
		lines = append(lines, "kubelet\tserver\t"+encode(server))
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestDrift(t *testing.T) {
	own := Artifact("1.36.3").Path()
	for name, test := range map[string]struct {
		output, want string
	}{
		"not asked":       {"", ""},
		"as it should be": {reportOf(show, own, "Kubernetes v1.36.3"), ""},
		"replaced":        {reportOf(show, own+" (deleted)", "Kubernetes v1.36.3"), ""},
		"older": {
			reportOf(show, "/usr/bin/kubelet", "Kubernetes v1.35.4"), "kubelet: runs version 1.35.4, wanted 1.36.3",
		},
		"the package's": {
			reportOf(show, "/usr/bin/kubelet", "Kubernetes v1.36.3"), "kubelet: runs /usr/bin/kubelet, wanted " + own,
		},
		"a version of somebody else": {
			reportOf(show, "/usr/bin/kubelet", "Kubernetes v1.36.3; reboot"), "kubelet: runs /usr/bin/kubelet, wanted " + own,
		},
		"a path with a command": {reportOf(show, "/usr/$(reboot)/kubelet", "Kubernetes v1.36.3"), ""},
	} {
		if drift := strings.Join(Drift(Read(test.output), "1.36.3"), "; "); drift != test.want {
			t.Errorf("%s: %q, want %q", name, drift, test.want)
		}
	}
}

func TestProblems(t *testing.T) {
	edit := func(old, with string) string { return strings.ReplaceAll(show, old, with) }
	by := func(servers ...string) string { return reportOf(show, "/usr/bin/kubelet", "", servers...) }
	for name, test := range map[string]struct {
		output string
		want   []string // parts of problems, in order
	}{
		"kubeadm's":       {by("https://10.0.0.11:6443"), nil},
		"alone":           {by(), nil},
		"on the machine":  {by("https://127.0.0.1:6443", "https://localhost:6443"), nil},
		"by the endpoint": {by("https://10.0.0.100:6443"), []string{"at https://10.0.0.100:6443, "}},
		"by a name":       {by("https://api.example.com:6443"), []string{"server: https://10.0.0.11:6443"}},
		"by a command":    {by("$(reboot)"), []string{"an address that is not understood"}},
		"other arguments": {
			reportOf(edit(" $KUBELET_EXTRA_ARGS", " --v=2"), "/usr/bin/kubelet", ""), []string{"does not start"},
		},
		"two commands":        {reportOf(show+"\n"+show, "/usr/bin/kubelet", ""), []string{"does not start"}},
		"one that is stopped": {strings.Replace(by(), "active\tactive", "active\tfailed", 1), []string{"is failed"}},
	} {
		problems := Problems(Read(test.output), "10.0.0.11", "6443")
		if len(problems) != len(test.want) || !slices.EqualFunc(problems, test.want, strings.Contains) {
			t.Errorf("%s: %q, want %q", name, problems, test.want)
		}
	}
}

func TestLocal(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://10.0.0.12:6443": false, ":": false,
	} {
		if got := local(server, "10.0.0.11"); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}

func TestFile(t *testing.T) {
	const want = "# Written by terraform-provider-kube.\n[Service]\nExecStart=\n" +
		"ExecStart=/opt/kube/kubernetes/1.36.3/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS " +
		"$KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n"
	if file := File("1.36.3"); string(file.Content) != want || file.Path != DropIn || file.Mode != 0o644 {
		t.Errorf("%+v %s", file, file.Content)
	}
}

// TestReport runs the script on this computer, whose kubelet may be missing.
func TestReport(t *testing.T) {
	output, err := exec.CommandContext(t.Context(), "sh", "-c", string(Report())).Output()
	if err != nil {
		t.Fatal(err)
	}
	if s := Read(string(output)); !s.Reported || s.Cordoned {
		t.Errorf("%q is read as %+v", output, s)
	}
	for mark, want := range map[string]string{
		"cp1.example.com": "cp1.example.com", "": "", "cp1;reboot": "", "-cp1": "", "cp1\ncp2": "",
	} {
		line := "kubelet\tnode\tcordoned\t" + encode(mark) + "\n"
		if s := Read(line); !s.Cordoned || s.Node != want {
			t.Errorf("the mark %q of a cordoned node is read as %+v", mark, s)
		}
	}
	if !strings.HasSuffix(string(Report()), "\n"+string(IsCordoned())) {
		t.Error("the last question is part of a line")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(reportOf(show, "/usr/bin/kubelet", "Kubernetes v1.36.3", "https://10.0.0.11:6443"))
	f.Fuzz(func(t *testing.T, output string) {
		s := Read(output)
		if strings.ContainsAny(s.Program+s.Version+s.Active, "$`;\n ") || len(s.Servers) > mostServers {
			t.Errorf("%+v", s)
		}
	})
}
