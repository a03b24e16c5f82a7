package review

import (
	"maps"
	"testing"
)

// TestBehindSettings: a change that concerns only components behind the API server does not count as a restart of it.
// What cannot be told is the more cautious effect.
func TestBehindSettings(t *testing.T) {
	type values = map[string]any
	file := func(more values) values {
		f := values{"content": "a", "owner": nil}
		maps.Copy(f, more)
		return values{"x.yaml": f}
	}
	const path = filesDir + "x.yaml"
	names := func(component, value string) values { return values{component: values{"config": value}} }
	edited := file(values{"content": "b"})
	owned := func(by, content string) values { return file(values{"owner": by, "content": content}) }
	for name, c := range map[string]struct {
		before, after, unknown values
		want                   Effect
	}{
		"patch of the scheduler": {
			values{"patches": nil}, values{"patches": values{"scheduler": "{}", "apiserver": nil}}, nil, Behind,
		},
		"patch of the API server": {
			values{"patches": values{"apiserver": "{}"}}, values{"patches": values{"scheduler": "{}"}}, nil, Restart,
		},
		"an unknown patch": {
			values{"patches": nil}, values{"patches": values{}}, values{"patches": values{"controller_manager": true}}, Restart,
		},
		"unknown patches": {
			values{"patches": values{"scheduler": "{}"}}, values{}, values{"patches": true}, Restart,
		},
		"volume of the controller-manager": {
			values{"extra_volumes": values{"controller_manager": values{"x": values{"host_path": "/a"}}}},
			values{"extra_volumes": values{"controller_manager": values{"x": values{"host_path": "/b"}}}},
			nil, Behind,
		},
		"volume of the API server": {
			values{"extra_volumes": nil},
			values{"extra_volumes": values{"apiserver": values{"x": values{"host_path": "/b"}}}},
			nil, Restart,
		},
		"address of metrics": {values{"metrics": nil}, values{"metrics": values{"address": "::"}}, nil, Behind},
		"pod CIDRs": {
			values{"pod_cidrs": []any{"10.1.0.0/16"}}, values{"pod_cidrs": []any{"10.2.0.0/16"}}, nil, Behind,
		},
		"unknown flags": {
			values{"extra_args": values{"scheduler": values{"v": "1"}}}, values{}, values{"extra_args": true}, Restart,
		},
		"unknown flags of the API server": {
			values{"extra_args": values{"scheduler": values{"v": "1"}}},
			values{"extra_args": values{}},
			values{"extra_args": values{"apiserver": true}},
			Restart,
		},
		"a file of the scheduler": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": edited, "extra_args": names("scheduler", path)},
			nil, Behind,
		},
		"its digest": {
			values{
				"files": file(nil), "extra_args": names("scheduler", path), "file_digests": values{"x.yaml": "1"},
			},
			values{
				"files": file(nil), "extra_args": names("scheduler", path), "file_digests": values{"x.yaml": "2"},
			},
			nil, Behind,
		},
		"its digest, not known yet": {
			values{
				"files": file(nil), "extra_args": names("scheduler", path), "file_digests": values{"x.yaml": "1"},
			},
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"file_digests": values{"x.yaml": true}},
			Behind,
		},
		"digests that are not known yet": {
			values{"files": file(nil), "extra_args": names("scheduler", path), "file_digests": values{"x.yaml": "1"}},
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"file_digests": true},
			Restart,
		},
		"a new file of the scheduler": {
			values{"files": nil, "extra_args": nil},
			values{"files": edited, "extra_args": names("scheduler", path)},
			nil, Behind,
		},
		"a file of the scheduler leaves": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": nil, "extra_args": nil},
			nil, Behind,
		},
		"a file that the API server reads too": {
			values{"files": file(nil), "extra_args": values{
				"scheduler": values{"config": path}, "apiserver": values{"tls-sni-cert-key": path + ",/x"},
			}},
			values{"files": edited, "extra_args": values{
				"scheduler": values{"config": path}, "apiserver": values{"tls-sni-cert-key": path + ",/x"},
			}},
			nil, Restart,
		},
		"a file that a repeated flag of the API server names": {
			values{"files": owned("kube-scheduler", "a"), "repeated_args": values{"apiserver": values{"f": []any{path}}}},
			values{"files": owned("kube-scheduler", "b"), "repeated_args": values{"apiserver": values{"f": []any{path}}}},
			nil, Restart,
		},
		"a file that nothing names": {values{"files": file(nil)}, values{"files": edited}, nil, Restart},
		"a file of the user of the scheduler": {
			values{"files": owned("kube-scheduler", "a")}, values{"files": owned("kube-scheduler", "b")}, nil, Behind,
		},
		"a file of root": {
			values{"files": owned("root", "a")}, values{"files": owned("root", "b")}, nil, Restart,
		},
		"a file gets another owner": {
			values{"files": owned("kube-scheduler", "a")}, values{"files": file(nil)}, nil, Restart,
		},
		"a file of the scheduler, with unknown flags": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": edited, "extra_args": names("scheduler", path)},
			values{"extra_args": values{"apiserver": true}},
			Restart,
		},
		"a file of the scheduler, with unknown flags that repeat": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": edited, "extra_args": names("scheduler", path)},
			values{"repeated_args": values{"apiserver": true}},
			Restart,
		},
		"a file of the scheduler, next to one of the API server": {
			values{
				"files":        values{"x.yaml": nil, "y.yaml": nil},
				"file_digests": values{"x.yaml": "1", "y.yaml": "1"}, "extra_args": names("scheduler", path),
			},
			values{
				"files":        values{"x.yaml": nil, "y.yaml": nil},
				"file_digests": values{"y.yaml": "1"}, "extra_args": names("scheduler", path),
			},
			values{"file_digests": values{"x.yaml": true}},
			Behind,
		},
		"flags of the scheduler, next to unknown ones that repeat": {
			values{"files": file(nil), "extra_args": values{"scheduler": values{"v": "1"}}},
			values{"files": file(nil), "extra_args": values{"scheduler": values{"v": "2"}}},
			values{"repeated_args": values{"scheduler": true}},
			Restart,
		},
		"unknown flags of the scheduler": {
			values{"files": file(nil), "extra_args": values{"scheduler": values{"v": "1"}}},
			values{"files": file(nil), "extra_args": values{"scheduler": values{}}},
			values{"extra_args": values{"scheduler": values{"v": true}}},
			Restart,
		},
		"unknown flags of the scheduler, without files": {
			values{"extra_args": values{"scheduler": values{"v": "1"}}},
			values{"extra_args": values{"scheduler": values{}}},
			values{"extra_args": values{"scheduler": values{"v": true}}},
			Behind,
		},
		"a digest of the API server's file, not known yet": {
			values{"files": file(nil), "file_digests": values{"x.yaml": "1"}},
			values{"files": file(nil), "file_digests": values{}},
			values{"file_digests": values{"x.yaml": true}},
			Restart,
		},
		"unknown files": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"extra_args": names("scheduler", path)},
			values{"files": true},
			Restart,
		},
		"a file that the scheduler's flags name no longer": { // without a reader, it is the API server's
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": file(nil), "extra_args": names("scheduler", "/etc/x")},
			nil, Restart,
		},
		"a file of the API server that the scheduler's flags name": { // its list of inputs is in its definition
			values{"files": file(nil), "extra_args": nil},
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			nil, Restart,
		},
		"a file of the API server that the scheduler's flags name, next to another path": {
			values{"files": file(nil), "extra_args": names("scheduler", "/etc/x")},
			values{"files": file(nil), "extra_args": names("scheduler", path+",/etc/x")},
			nil, Restart,
		},
		"a file of the API server that a repeated flag of the controller-manager names": {
			values{"files": file(nil), "repeated_args": nil},
			values{"files": file(nil), "repeated_args": values{"controller_manager": values{"f": []any{path}}}},
			nil, Restart,
		},
		"a file of another directory becomes one of the replica's": {
			values{"files": file(nil), "extra_args": names("scheduler", "/etc/x.yaml,/etc/y")},
			values{"files": file(nil), "extra_args": names("scheduler", path+",/etc/y")},
			nil, Restart,
		},
		"a file that is not known yet, and that the scheduler's flags name no longer": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": values{}, "extra_args": names("scheduler", "/etc/x")},
			values{"files": values{"x.yaml": true}},
			Restart,
		},
		"another flag than one that names a file next to another path": {
			values{"files": file(nil), "extra_args": values{"scheduler": values{"config": path + ",/x", "v": "1"}}},
			values{"files": file(nil), "extra_args": values{"scheduler": values{"config": path + ",/x", "v": "2"}}},
			nil, Behind,
		},
		"a new file of the API server's, and another flag": {
			values{"files": values{}, "extra_args": names("scheduler", "/etc/x")},
			values{"files": file(nil), "extra_args": names("scheduler", "/etc/y")},
			nil, Restart,
		},
		"a file that the controller-manager reads instead": {
			values{"files": file(nil), "extra_args": names("scheduler", path)},
			values{"files": file(nil), "extra_args": names("controller_manager", path)},
			nil, Behind,
		},
		"another flag than that of a file": {
			values{"files": file(nil), "extra_args": values{"scheduler": values{"v": "1"}}},
			values{"files": file(nil), "extra_args": values{"scheduler": values{"v": "2"}}},
			nil, Behind,
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed := change{
				before: c.before, after: c.after, unknown: c.unknown, beforeVisible: c.before, afterVisible: c.after,
			}
			r := Resource{Reasons: changed.reasons("kube_control_plane_replica", nil)}
			if got := r.Effect(); got != c.want {
				t.Errorf("effect %d, want %d: %+v", got, c.want, r.Reasons)
			}
		})
	}
}

// TestHiddenFlags: flags that may not be shown have an effect, too.
func TestHiddenFlags(t *testing.T) {
	of := func(apiserver, scheduler string) map[string]any {
		return map[string]any{"extra_args": map[string]any{
			"apiserver": map[string]any{"x": apiserver}, "scheduler": map[string]any{"v": scheduler},
		}}
	}
	hidden := map[string]any{"extra_args": map[string]any{"apiserver": true}}
	before, after := of("a", "1"), of("b", "2")
	changed := change{
		before: before, after: after,
		beforeVisible: attributes(visible(before, hidden)), afterVisible: attributes(visible(after, hidden)),
	}
	got := changed.reasons("kube_control_plane_replica", nil)
	if len(got) != 1 || got[0] != (Reason{Text: "flags scheduler.v", Effect: Restart}) {
		t.Errorf("%+v", got)
	}
}

// TestRepairEffect: only drift of components behind the API server leaves it running for sure.
func TestRepairEffect(t *testing.T) {
	const (
		replica   = "kube_control_plane_replica"
		scheduler = "cp1 (10.0.0.11): kube-scheduler: runs version 1.36.2, wanted 1.36.3"
	)
	for name, c := range map[string]struct {
		kind  string
		drift []string
		want  Effect
	}{
		"scheduler": {replica, []string{scheduler}, Behind},
		"controller-manager, by name alone": {
			replica, []string{"cp1: kube-controller-manager: kube-controller-manager.service is failed"}, Behind,
		},
		"its kubeconfig": {
			replica, []string{"cp1 (fd00::1): /etc/kubernetes/controller-manager.conf is missing"}, Behind,
		},
		"parts of another":    {replica, []string{scheduler, "cp1: /etc/kubernetes/scheduler.conf: user is \"x\""}, Behind},
		"API server too":      {replica, []string{scheduler, "cp1 (10.0.0.11): kube-apiserver: is failed"}, Repair},
		"proxy server":        {replica, []string{"cp1: kube-konnectivity-server: is failed"}, Repair},
		"another kubeconfig":  {replica, []string{"cp1: /etc/kubernetes/scheduler.config is missing"}, Repair},
		"a file":              {replica, []string{"cp1: /etc/kubernetes/pki/sa.key is missing"}, Repair},
		"a text of a machine": {replica, []string{"cp1: x\ncp1: kube-scheduler: is failed"}, Repair},
		"no drift":            {replica, nil, Repair},
		"an etcd member":      {"kube_etcd_member", []string{scheduler}, Repair},
	} {
		t.Run(name, func(t *testing.T) {
			if got := repairEffect(c.kind, c.drift); got != c.want {
				t.Errorf("effect %d, want %d", got, c.want)
			}
		})
	}
}

// TestFilesWithUnknownFlags: while flags are not known, nobody can tell who reads a file.
func TestFilesWithUnknownFlags(t *testing.T) {
	type values = map[string]any
	replica := func(content string) values {
		return values{
			"files":      values{"x.yaml": values{"content": content}},
			"extra_args": values{"scheduler": values{"config": filesDir + "x.yaml"}},
		}
	}
	for name, unknown := range map[string]values{
		"nothing":                {},
		"flags":                  {"extra_args": values{"apiserver": true}},
		"flags that repeat":      {"repeated_args": true},
		"files":                  {"files": true},
		"digests, without files": {"file_digests": true},
	} {
		changed := change{before: replica("a"), after: replica("b"), unknown: unknown}
		want := name == "nothing" || name == "digests, without files"
		if got := changed.filesBehind("files"); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
