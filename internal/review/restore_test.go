package review

import (
	"strings"
	"testing"
)

// TestRestore: a restore of etcd is the first thing that a comment says.
func TestRestore(t *testing.T) {
	const (
		stops = "**: API servers on the members' machines stop, the members' data is archived, and "
		later = "later writes are lost."
		step  = "#### What an apply does, in this order\n\n1. etcd **is restored from "
		first = "#### What stays available\n\n- etcd **is restored from "
	)
	members := []string{member1, `kube_etcd_member.this["cp2"]`, member3}
	for name, test := range map[string]struct {
		plan          string
		before, after any
		source        string // "" if nothing is restored
		lost          string
	}{
		"a snapshot": {"nothing", nil, values{"id": "1", "snapshot": "/a`b.db"}, "the snapshot `` /a`b.db ``", later},
		"again": {
			"nothing",
			values{"id": "1"},
			values{"id": "2", "file": "/x"},
			"the snapshot `/x` on the computer that runs Terraform", later,
		},
		"a survivor": {
			"nothing", nil,
			values{"id": "1", "member": "cp2"},
			"the data of member `cp2`",
			"what that member does not have is lost.",
		},
		"a bucket": {
			"nothing", nil, values{"id": "1", "bucket": "newest"}, "the newest verified snapshot in the bucket", later,
		},
		"one in it": {"nothing", nil, values{"id": "1", "bucket": "x"}, "the snapshot `x` in the bucket", later},
		"commands":  {"nothing", nil, values{"id": "1", "fetch": "LEAK"}, "a snapshot that commands fetch", later},
		"new":       {"create", nil, values{"id": "1", "file": "/x"}, "the snapshot `/x` on the computer", later},
		"done":      {"nothing", values{"id": "1", "file": "/x"}, values{"id": "1", "file": "/y"}, "", ""},
		"removed":   {"nothing", values{"id": "1", "file": "/x"}, nil, "", ""},
	} {
		d := document(t, test.plan)
		for _, address := range members {
			if test.plan == "create" {
				attributes(changeOf(t, d, address)["after"])["restore"] = test.after
				continue
			}
			updating(t, d, address, map[string][2]any{"restore": {test.before, test.after}})
		}
		for what, got := range map[string]string{
			"": comment(t, d), "reduced, ": Markdown(Report{Title: "Plan", Plans: []NamedPlan{reducedOf(t, d)}}, MaxComment),
		} {
			if strings.Contains(got, "LEAK") {
				t.Errorf("%s%s: the comment has the commands", what, name)
			}
			want := []string{step + test.source, first + test.source, stops + test.lost, restoreTitle}
			if test.plan != "create" {
				want = append(want, "API: **no server serves** until etcd is restored.")
			}
			if test.source == "" {
				want = []string{"Members: nothing restarts.", "etcd: no member stops"}
			}
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s%s: the comment lacks %q:\n%.1800s", what, name, text, got)
				}
			}
			if test.source != "" && (strings.Contains(got, "one at a time") || strings.Contains(got, "Nothing depends on it")) {
				t.Errorf("%s%s: the comment contradicts the restore:\n%.1800s", what, name, got)
			}
		}
	}
}

// TestRestoreIsOver: a member that joins later just joins, and one whose restore is not known yet may restore.
func TestRestoreIsOver(t *testing.T) {
	d := document(t, "grow")
	for i, name := range []string{"cp1", "cp2", "cp3", "cp4", "cp5"} {
		c := changeOf(t, d, `kube_etcd_member.this["`+name+`"]`)
		for _, side := range []string{"before", "after"} {
			if object := attributes(c[side]); object != nil {
				object["restore"] = values{"id": "1", "file": "/x"}
			}
		}
		if i == 0 {
			attributes(c["after"])["peers"] = values{}
		}
	}
	if got := comment(t, d); strings.Contains(got, "is restored") || !strings.Contains(got, "Members join one at a time") {
		t.Errorf("a member that joins is restored:\n%.1500s", got)
	}
	d = document(t, "nothing")
	updating(t, d, member1, map[string][2]any{"restore": {nil, values{"file": "/x"}}})
	changeOf(t, d, member1)["after_unknown"] = values{"config_digest": true, "restore": values{"id": true}}
	if got := comment(t, d); !strings.Contains(got, "etcd **is restored from the snapshot `/x`") {
		t.Errorf("a restore with an unknown ID is not shown:\n%.1500s", got)
	}
}
