package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// secret is text that no comment may contain.
const secret = "LEAK"

// shown are the attributes of the provider's resources whose values a comment may contain.
var shown = []string{
	"name", "cluster_name", "user", "address", "drift", "host", "version", "client_url", "learner",
	"healthy", "registered", "etcd", "endpoint",
	"port", "haproxy", "virtual_ip", "balancers", "replicas", "etcd_cluster", "score", "total", "issues",
	"rotation", "on_destroy", "items", "resources", "audit", "server", "groups", "validity",
}

// plant replaces every string under a node with a secret.
func plant(node any, planted *int) any {
	switch node := node.(type) {
	case map[string]any:
		for name, child := range node {
			node[name] = plant(child, planted)
		}
	case []any:
		for i, child := range node {
			node[i] = plant(child, planted)
		}
	case string:
		*planted++
		return fmt.Sprintf("%s-%d", secret, *planted)
	}
	return node
}

// objects calls f for every object of a plan that contains a resource's values (changes, drift
// and states), with the names of its values and of their sensitivity marks.
func objects(d map[string]any, f func(holder map[string]any, values, marks string)) {
	for _, list := range []string{"resource_changes", "resource_drift"} {
		resources, _ := d[list].([]any)
		for _, r := range resources {
			change := r.(map[string]any)["change"].(map[string]any)
			f(change, "before", "before_sensitive")
			f(change, "after", "after_sensitive")
		}
	}
	for _, state := range []any{d["prior_state"], d["planned_values"]} {
		walk(state, func(object map[string]any) {
			if _, ok := object["provider_name"]; ok {
				f(object, "values", "sensitive_values")
			}
		})
	}
}

func expectNoMarker(t *testing.T, d map[string]any) {
	t.Helper()
	report := Report{Title: "Plan", Plans: []NamedPlan{readPlan(t, "a", d)}}
	text, err := JSON(report)
	if err != nil {
		t.Fatal(err)
	}
	less, err := Reduce(report.Plans[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []string{comment(t, d), Markdown(report, MaxComment), string(text), string(less)} {
		if strings.Contains(got, secret) {
			t.Errorf("the output has a secret:\n%s", got)
		}
	}
}

// TestNothingUnasked checks that a comment contains only values that it selects by name,
// whether or not others are marked as sensitive: other attributes, new ones, variables,
// outputs, configuration, checks.
func TestNothingUnasked(t *testing.T) {
	for _, name := range plans {
		t.Run(name, func(t *testing.T) {
			d, planted := document(t, name), 0
			for _, part := range []string{"variables", "output_changes", "configuration", "relevant_attributes"} {
				d[part] = plant(d[part], &planted)
			}
			problems := []any{map[string]any{"message": secret}}
			d["checks"] = []any{map[string]any{"instances": []any{map[string]any{"problems": problems}}}}
			d["surprise"] = map[string]any{"value": secret}
			objects(d, func(holder map[string]any, values, _ string) {
				object := attributes(holder[values])
				for attribute, value := range object {
					if !slices.Contains(shown, attribute) {
						object[attribute] = plant(value, &planted)
					}
				}
				if object != nil {
					object["surprise"] = map[string]any{"deep": []any{secret, secret}}
				}
			})
			if planted < 50 {
				t.Fatalf("only %d secrets were planted", planted)
			}
			expectNoMarker(t, d)
		})
	}
}

// TestNothingSensitive checks that values marked as sensitive are not shown, even those that a
// comment always contains: first all values at once, then each attribute and each element
// alone.
func TestNothingSensitive(t *testing.T) {
	for _, name := range plans {
		t.Run(name, func(t *testing.T) {
			d, planted := document(t, name), 0
			objects(d, func(holder map[string]any, values, marks string) {
				holder[values], holder[marks] = plant(holder[values], &planted), true
			})
			if planted < 100 {
				t.Fatalf("only %d secrets were planted", planted)
			}
			expectNoMarker(t, d)
		})
	}
	for _, attribute := range shown {
		t.Run(attribute, func(t *testing.T) {
			d, planted := document(t, "drift"), 0
			data(d, "kube_control_plane", map[string]any{"healthy": false, "issues": []any{"cp2"}})
			data(d, "kube_production_readiness", map[string]any{"score": 17, "total": 20})
			objects(d, func(holder map[string]any, values, marks string) {
				object := attributes(holder[values])
				if object[attribute] == nil {
					return
				}
				object[attribute] = plant(object[attribute], &planted)
				input, _ := holder[marks].(map[string]any)
				if input == nil {
					input = map[string]any{}
				}
				input[attribute], holder[marks] = true, input
			})
			expectNoMarker(t, d)
		})
	}
}

// TestOneElementSensitive checks that the other elements of a list are shown.
func TestOneElementSensitive(t *testing.T) {
	d := document(t, "drift")
	change := changeOf(t, d, `kube_etcd_member.this["cp3"]`)
	change["before"].(map[string]any)["drift"] = []any{"cp3: " + secret, "cp3: this may be seen"}
	change["before_sensitive"].(map[string]any)["drift"] = []any{true, false}
	expectNoMarker(t, d)
	if got := comment(t, d); !strings.Contains(got, "`this may be seen`") {
		t.Errorf("the comment lacks what may be seen:\n%s", got)
	}
}

// TestChangedValues checks that a changed value is shown only if it may be shown, and that the
// values of flags never are.
func TestChangedValues(t *testing.T) {
	d := document(t, "upgrade")
	change := changeOf(t, d, `kube_etcd_member.this["cp1"]`)
	before, after := change["before"].(map[string]any), change["after"].(map[string]any)
	before["version"], after["version"] = "3.5.26", "3.6.16"
	after["extra_args"] = map[string]any{"max-txn-ops": secret, "password": secret}
	after["pki"] = secret
	after["snapshots"] = map[string]any{"upload": secret}
	after["surprise"] = secret
	expectNoMarker(t, d)
	want := "**cp1**: flags +max-txn-ops, +password; the PKI bundle; scheduled snapshots +upload; " +
		"version 3.5.26 → 3.6.16; other arguments (restarts)"
	if got := comment(t, d); !strings.Contains(got, want) {
		t.Errorf("the comment lacks %q:\n%s", want, got)
	}
	change["after_sensitive"].(map[string]any)["version"] = true
	change["after_sensitive"].(map[string]any)["extra_args"] = true
	after["version"] = secret
	expectNoMarker(t, d)
}
