package review

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestActions: a change is never shown as none, whatever its actions are.
func TestActions(t *testing.T) {
	const other = "random_id.a"
	for actions, test := range map[string]struct {
		want  Action
		lines []string // of the comment
	}{
		`["no-op"]`: {Keep, []string{"Nothing to do"}},
		`["read"]`:  {Keep, []string{"Nothing to do"}},
		`["forget","create"]`: {ForgetFirst, []string{
			"2 to replace, the old ones stay", "- **replace, the old one stays**: `" + member3 + "`, `random_id.a`",
			"   - **cp3**: new; the old one stays, and Terraform forgets it\n", "- replace, the old one stays: `random_id.a`",
		}},
		`["create","forget"]`: {ForgetLast, []string{
			"2 to replace, the old ones stay", "- **replace, the old one stays**: `" + member3 + "`, `random_id.a`",
			"   - **cp3**: new; the old one stays, and Terraform forgets it\n",
			"- replace, the new one first; the old one stays: `random_id.a`",
		}},
		`["melt"]`: {Unknown, []string{
			"2 to change in a way that kube-review does not know", "- **unknown action**: `" + member3 + "`, `random_id.a`",
			"kube-review does not know what happens to these.\n",
			"   - **" + `kube\_etcd\_member.this\["cp3"\]` + "**: unknown action\n",
			"- unknown action: `random_id.a`",
		}},
		`["delete","melt"]`:            {Unknown, []string{"- **unknown action**: `" + member3 + "`"}},
		`["create","delete","update"]`: {Unknown, []string{"- **unknown action**: `" + member3 + "`"}},
	} {
		d := document(t, "nothing")
		var list []any
		if err := json.Unmarshal([]byte(actions), &list); err != nil {
			t.Fatal(err)
		}
		changeOf(t, d, member3)["actions"] = list
		d["resource_changes"] = append(d["resource_changes"].([]any), map[string]any{
			"address": other, "mode": "managed", "type": "random_id", "name": "a",
			"provider_name": "registry.terraform.io/hashicorp/random",
			"change":        map[string]any{"actions": list, "before": nil, "after": map[string]any{}},
		})
		plan := readPlan(t, "", d)
		if got := plan.Plan.ControlPlanes[0].Members[2].Action; got != test.want {
			t.Errorf("%s: the action is %q", actions, got)
		}
		got := comment(t, d)
		for _, want := range test.lines {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the comment lacks %q:\n%s", actions, want, got)
			}
		}
		if again := reducedOf(t, d); again.Err != nil || again.Plan.ControlPlanes[0].Members[2].Action != test.want {
			t.Errorf("%s: the reduced plan is %+v", actions, again)
		}
	}
}
