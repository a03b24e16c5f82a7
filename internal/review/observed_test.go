package review

import (
	"strings"
	"testing"
)

// TestMachineStays: an update that changes no machine restarts nothing, whatever its arguments are.
func TestMachineStays(t *testing.T) {
	const (
		member   = "Members: nothing restarts.\n"
		replica  = "Replicas: nothing restarts.\n"
		members  = "Members change one at a time"
		replicas = "Replicas change one at a time"
	)
	for name, test := range map[string]struct {
		address   string
		arguments map[string][2]any
		touched   bool // the digest is known after the apply
		want      string
	}{
		"a bundle":           {member3, map[string][2]any{"pki": {"a", "b"}}, false, member},
		"another CA":         {member3, map[string][2]any{"pki": {"a", "b"}}, true, members},
		"a replica's bundle": {replica1, map[string][2]any{"pki": {"a", "b"}}, false, replica},
		"a later argument":   {replica1, map[string][2]any{"later": {1, 2}}, false, replica},
		"the same, touched":  {replica1, map[string][2]any{"later": {1, 2}}, true, replicas},
		"a restore removed":  {member3, map[string][2]any{"restore": {values{"id": "1"}, nil}}, false, member},
		"another source": {
			member3, map[string][2]any{"restore": {values{"id": "1"}, values{"id": "1", "file": "/x"}}}, true, member,
		},
		"a device": {
			member3, map[string][2]any{"volume": {values{"device": "/dev/a"}, values{"device": "/dev/b"}}}, true, member,
		},
		"fenced": {
			member3, map[string][2]any{"volume": {values{"uuid": "a"}, values{"uuid": "b", "fenced": true}}}, false, member,
		},
		"no more maintenance": {
			member3, map[string][2]any{"maintenance": {values{"defragment": "a"}, nil}}, false, member,
		},
		"what to release": {
			member3, map[string][2]any{"maintenance": {values{"defragment": "a"}, values{
				"defragment": "a", "min_free_percent": 9,
			}}}, false, member,
		},
		"a snapshot": {member3, map[string][2]any{"maintenance": {nil, values{"snapshot": "a"}}}, false, member},
		"a defragmentation": {
			member3,
			map[string][2]any{"maintenance": {values{"defragment": "a"}, values{"defragment": "b"}}, "pki": {"a", "b"}},
			false, members,
		},
		"how long": {
			replica1,
			map[string][2]any{"maintenance": {values{"drain": "a"}, values{"drain": "a", "hold": "9m"}}},
			false,
			replica,
		},
		"a drain": {replica1, map[string][2]any{"maintenance": {nil, values{"drain": "a"}}}, false, replicas},
		"both": {
			replica1,
			map[string][2]any{"maintenance": {values{"drain": "a"}, nil}, "extra_args": {nil, values{}}},
			true,
			replicas,
		},
	} {
		d := document(t, "nothing")
		updating(t, d, test.address, test.arguments)
		if c := changeOf(t, d, test.address); !test.touched {
			attributes(c["after"])["config_digest"] = attributes(c["before"])["config_digest"]
			c["after_unknown"] = values{}
		}
		got := comment(t, d)
		if !strings.Contains(got, test.want) {
			t.Errorf("%s: the comment lacks %q:\n%.1500s", name, test.want, got)
		}
		if strings.Contains(test.want, "nothing") && !strings.Contains(got, "(nothing restarts)") {
			t.Errorf("%s: the comment lacks that nothing restarts:\n%.1500s", name, got)
		}
	}
	d := document(t, "nothing")
	updating(t, d, member3, map[string][2]any{"maintenance": {}})
	changeOf(t, d, member3)["after_unknown"] = values{"config_digest": true, "maintenance": values{"defragment": true}}
	if got := comment(t, d); !strings.Contains(got, members) {
		t.Errorf("maintenance that may be requested is not shown:\n%.1500s", got)
	}
}
