package review

import (
	"strings"
	"testing"
)

// TestInvokedActions: a reviewer sees that an apply invokes actions, and a policy leaves them to a
// person.
func TestInvokedActions(t *testing.T) {
	const text = `{"format_version":"1.2","terraform_version":"1.14.8","action_invocations":[{
		"address":"action.kube_etcd_defragment.all","type":"kube_etcd_defragment","name":"all",
		"config_values":{"pki":"secret"},"provider_name":"registry.terraform.io/kubequorum/kube"}]}`
	plan, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	shown := ""
	for _, s := range plan.sections() {
		shown += s.text
	}
	if !strings.Contains(shown, "action.kube_etcd_defragment.all") || strings.Contains(shown, "secret") {
		t.Errorf("%s", shown)
	}
	if got := strings.Join(scrutinize([]byte(text)).objections, "\n"); !strings.Contains(got, "action_invocations") {
		t.Errorf("objections: %q", got)
	}
}
