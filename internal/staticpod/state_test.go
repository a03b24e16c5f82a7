package staticpod

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestRead(t *testing.T) {
	id := strings.Repeat("0f", 32)
	output := "other\tline\n" +
		"pod\truntime\tctr\npod\tkubelet\tactive\npod\tformer\tkept\npod\tanswers\tetcd\npod\timage\tx\n" +
		"pod\tconfig\t" + encoded("kind: KubeletConfiguration\nstaticPodPath: /etc/kubernetes/manifests/\n") + "\n" +
		"pod\tcontainer\tetcd\t" + id + "\tRUNNING\t42\t" + encoded(digest+":"+Self+"\n") + "\n" +
		"pod\tcontainer\tetcd\t" + id + "\tCONTAINER_EXITED\t0\t\n" +
		"pod\tcontainer\tother\t" + id + "\tRUNNING\t43\t\n" +
		"pod\tcontainer\tetcd\t$(id)\tRUNNING\t43\t\n" +
		"pod\tduplicate\tetcd\t" + Directory + "/etcd.yaml.bak\n" +
		"pod\tduplicate\tetcd\t/etc/passwd\n" +
		"pod\tlog\tetcd\t0\npod\tlog\tetcd\t3\npod\tlog\tetcd\tx\npod\t\n"
	want := State{
		Reported: true, Runtime: "ctr", Answers: true, Kubelet: "active", Former: true, Manifests: Directory,
		HasImage:   true,
		Containers: []Container{{ID: id, Running: true, PID: 42, Note: map[string]string{Self: digest}}, {ID: id}},
		Duplicates: []string{Directory + "/etcd.yaml.bak"}, Restarts: 3,
	}
	if got := Read(output, "etcd"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := Read("nothing\n", "etcd"); got.Reported {
		t.Errorf("%+v", got)
	}
}

func TestUnit(t *testing.T) {
	running, ended := []Container{{Running: true, PID: 7}, {}}, []Container{{}}
	for _, c := range []struct {
		state           State
		placed, defined bool
		want            string
	}{
		{State{Kubelet: "active", Containers: running}, true, true, "loaded active running enabled"},
		{State{Kubelet: "failed", Containers: running}, true, true, "loaded active running enabled"},
		{State{Kubelet: "active", Containers: running}, false, true, "loaded deactivating stop disabled"},
		{State{Kubelet: "active", Containers: ended}, true, true, "loaded activating auto-restart enabled"},
		{State{Kubelet: "active"}, true, true, "loaded activating start enabled"},
		{State{Kubelet: "inactive", Containers: ended}, true, true, "loaded failed failed enabled"},
		{State{Kubelet: "active", Containers: ended}, false, true, "loaded inactive dead disabled"},
		{State{Kubelet: "active"}, false, false, "not-found inactive dead "},
	} {
		u := c.state.Unit(c.placed, c.defined)
		if got := strings.Join([]string{u.Load, u.Active, u.Sub, u.Enabled}, " "); got != c.want {
			t.Errorf("%+v is %q, want %q", c, got, c.want)
		}
	}
}

func TestProblems(t *testing.T) {
	good := State{Runtime: "ctr", Answers: true, Kubelet: "active", Manifests: Directory}
	for _, c := range []struct {
		change func(*State)
		want   []string
	}{
		{func(*State) {}, nil},
		{func(s *State) { *s = State{} }, []string{"neither crictl nor ctr", "kubelet.service is missing"}},
		{func(s *State) { s.Answers = false }, []string{"does not answer ctr"}},
		{func(s *State) { s.Kubelet = "failed" }, []string{"kubelet.service is failed"}},
		{func(s *State) { s.Kubelet = "activating" }, []string{"kubelet.service is activating"}},
		{func(s *State) { s.Kubelet, s.Former = "failed", true }, nil},
		{func(s *State) { s.Kubelet, s.Former, s.Manifests = "activating", true, "" }, nil},
		{func(s *State) { s.Kubelet, s.Former = "inactive", true }, []string{"kubelet.service is inactive"}},
		{func(s *State) { s.Manifests, s.Former = "", true }, []string{"directory of manifests is not set"}},
		{func(s *State) { s.Manifests = "" }, []string{"directory of manifests is not set"}},
		{func(s *State) { s.Manifests = "/etc/kubelet.d" }, []string{"is /etc/kubelet.d, and not " + Directory}},
	} {
		s := good
		c.change(&s)
		got := s.Problems()
		if len(got) != len(c.want) || !slices.EqualFunc(got, c.want, strings.Contains) {
			t.Errorf("%+v: %q, want %q", s, got, c.want)
		}
	}
}

// FuzzRead verifies that nothing but known forms is read from a machine's report.
func FuzzRead(f *testing.F) {
	f.Add("pod\tcontainer\tetcd\t0123456789abcdef\tRUNNING\t1\t\npod\tconfig\t" + encoded("staticPodPath: /a b") + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := Read(text, "etcd")
		for _, file := range s.Duplicates {
			if !strings.HasPrefix(file, Directory+"/") || strings.ContainsAny(file, " \n'\"$`;") {
				t.Errorf("%q has %q", text, file)
			}
		}
		if strings.ContainsAny(s.Kubelet+s.Manifests+s.Runtime, " \n'\"$`;") {
			t.Errorf("%q has %+v", text, s)
		}
	})
}
