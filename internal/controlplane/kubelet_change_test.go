package controlplane

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestCheckKubelet: before the first change, a kubelet that is to get another program and could not follow stops the
// change. One that needs no change, or is installed by it, does not.
func TestCheckKubelet(t *testing.T) {
	s := testSpec(t)
	s.ManageKubelet = true
	own, local := kubelet.Artifact(s.Version).Path(), "https://"+s.Address+":6443"
	file := kubelet.File(s.Version)
	placed := map[string]host.FileState{kubelet.DropIn: {
		Mode: file.Mode, Owner: file.Owner, Group: file.Group, SHA256: machine.Digest(file.Content),
	}}
	for name, c := range map[string]struct {
		manages         bool
		program, server string
		files           map[string]host.FileState
		installs        bool
		drift, refused  string
	}{
		"as it should be":            {true, own, local, placed, false, "", ""},
		"another program":            {true, "/usr/bin/kubelet", local, placed, false, "runs /usr/bin/kubelet", ""},
		"its file is missing":        {true, own, local, nil, false, kubelet.DropIn, ""},
		"both":                       {true, "/usr/bin/kubelet", local, nil, false, "runs /usr/bin/kubelet", ""},
		"it cannot follow":           {true, own, "https://10.0.0.100:6443", nil, false, kubelet.DropIn, "10.0.0.100"},
		"it need not follow":         {true, own, "https://10.0.0.100:6443", placed, false, "", ""},
		"it is installed by it":      {true, own, "https://10.0.0.100:6443", nil, true, kubelet.DropIn, ""},
		"it is not the provider's":   {false, "/usr/bin/kubelet", local, nil, false, "", ""},
		"not followed, and it could": {false, own, "https://10.0.0.100:6443", nil, false, "", ""},
	} {
		s.ManageKubelet = c.manages
		f := machine.Observed{NodeMissing: c.installs, Facts: host.Facts{
			Files: c.files, Output: kubeletReport(c.program, s.Version, c.server),
		}}
		drift := programDrift(s, f)
		if len(drift) > 1 || (len(drift) == 0) != (c.drift == "") || !strings.Contains(strings.Join(drift, ""), c.drift) {
			t.Errorf("%s: its program differs in %q, want %q", name, drift, c.drift)
		}
		err := checkKubelet(s, f)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

// TestCheckKubeletAfterAChangeThatWasCutOff: a kubelet that fails since then does not stop the change whose start of
// the components restores it. It gets no other program before it runs.
func TestCheckKubeletAfterAChangeThatWasCutOff(t *testing.T) {
	s := testSpec(t)
	s.ManageKubelet = true
	kept := map[string]host.FileState{kubelet.Former: {}}
	for name, c := range map[string]struct {
		active  string
		files   map[string]host.FileState
		refused bool
	}{
		"it has failed":           {"failed", kept, false},
		"systemd starts it again": {"activating", kept, false},
		"it was stopped by hand":  {"inactive", kept, true},
		"it runs":                 {"active", kept, false},
		"no change was cut off":   {"activating", nil, true},
	} {
		report := kubeletReport("/usr/bin/kubelet", s.Version, "https://"+s.Address+":6443")
		f := machine.Observed{Facts: host.Facts{
			Files: c.files, Output: strings.Replace(report, "\tactive\tactive", "\tactive\t"+c.active, 1),
		}}
		if err := checkKubelet(s, f); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err := checkProgram(s, f); (err != nil) != (c.active != "active") {
			t.Errorf("%s, before another program: %v", name, err)
		}
	}
}

// kubeletReport is what a machine says of its kubelet.
func kubeletReport(program, version, server string) string {
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return "kubelet\tactive\tactive\nkubelet\tstarted\t77\t0\nkubelet\tcommand\t" +
		encoded("{ path=/usr/bin/kubelet ; argv[]=/usr/bin/kubelet "+node.Arguments+" ; ignore_errors=no ; "+
			"start_time=[n/a] ; stop_time=[n/a] ; pid=0 ; code=(null) ; status=0/0 }\n") +
		"\nkubelet\tprogram\t" + encoded(program+"\n") + "\nkubelet\tversion\t" + encoded("Kubernetes v"+version+"\n") +
		"\nkubelet\tserver\t" + encoded(server) + "\n"
}

// TestChangeCutOff: the former file of the kubelet is there from the beginning of a change to its end.
func TestChangeCutOff(t *testing.T) {
	files := map[string]host.FileState{kubelet.DropIn: {}}
	if changeCutOff(host.Facts{Files: files}) || changeCutOff(host.Facts{}) {
		t.Error("a change is cut off without the former file")
	}
	files[kubelet.Former] = host.FileState{}
	if !changeCutOff(host.Facts{Files: files}) {
		t.Error("a change that was cut off is not noticed")
	}
}

// TestPortOfTheKubelet: a kubelet that uses the former port of its API server differs from what is wanted.
func TestPortOfTheKubelet(t *testing.T) {
	s := testSpec(t)
	pair, err := s.Bundle.Issue(pki.User("system:node:cp1", "system:nodes"), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	f := machine.Observed{Facts: host.Facts{Output: "credentials\tover\t" + encoded(s.Bundle.Roots(pki.Kubernetes)) +
		"\t" + encoded(pair.Certificate) + "\ncredentials-server\t" + encoded("https://10.0.0.11:6443") + "\n"}}
	if drift := kubeletDrift(s, f); len(drift) > 0 {
		t.Errorf("at its port: %q", drift)
	}
	s.Port = 7443
	if drift := kubeletDrift(s, f); len(drift) != 1 || !strings.Contains(drift[0], "wanted https://10.0.0.11:7443") {
		t.Errorf("at another port: %q", drift)
	}
}

// TestOneNodeAtATime: while one node is drained, no other one is, in any process, also if no member of etcd on their
// machines has a turn. After a change of one that failed, none begins.
func TestOneNodeAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		store     Store
		processes bool
		fails     bool
	}{
		"no etcd of the provider":       {},
		"etcd on other machines":        {store: fakeStore{}},
		"two processes":                 {store: fakeStore{}, processes: true},
		"the change of one that failed": {store: fakeStore{}, fails: true},
	} {
		one, other, cp1, cp2, balancer := processes(t)
		cp1.Store, cp2.Store = c.store, c.store
		if !c.processes {
			other = one
		}
		synctest.Test(t, func(t *testing.T) {
			steps := make(chan string, 10)
			drained := make(chan struct{})
			change := func(r *Replicas, s Spec) {
				_ = r.inTurn(t.Context(), s, func(ctx context.Context, _ PausedMember) error {
					steps <- "cordon " + s.Name
					if s.Name == cp1.Name {
						<-drained
					}
					lock, err := r.changeLocks.acquire(ctx, s)
					if err != nil {
						t.Error(err)
						return err
					}
					lock.finish(!c.fails)
					steps <- "uncordon " + s.Name
					return nil
				})
			}
			go change(one, cp1)
			synctest.Wait()
			go change(other, cp2)
			synctest.Wait()
			close(drained)
			time.Sleep(time.Minute) // of the bubble: a process tries to take a lease from time to time
			synctest.Wait()
			close(steps)
			want := []string{"cordon cp1", "uncordon cp1", "cordon cp2", "uncordon cp2"}
			if c.fails {
				want = want[:2]
			}
			var got []string
			for step := range steps {
				got = append(got, step)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		})
		if lease := nodeLeaseName(cp1.Bundle.ClusterID); balancer.holds(lease) {
			t.Errorf("%s: the lease %s outlives the changes", name, lease)
		}
	}
}
