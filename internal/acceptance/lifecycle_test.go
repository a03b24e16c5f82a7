package acceptance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/config"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
)

// TestLifecycle is the whole story: three bare machines, a control plane on
// them, an empty plan, the API through the virtual IP, nothing restarted by a
// second apply or a refresh, bare machines again, and once more from there.
func TestLifecycle(t *testing.T) {
	l := machines(t)
	names := []string{"cp1", "cp2", "cp3"}
	vars := variables(t, l, names...)
	before := map[string][]string{}
	for _, name := range names {
		before[name] = fingerprint(t, l.Machine(name))
	}
	var started string
	remember := func() { started = startsOfAll(t, names) }
	unchanged := func(*terraform.State) error {
		if now := startsOfAll(t, names); now != started {
			return fmt.Errorf("processes were restarted:\nbefore:\n%s\nafter:\n%s", started, now)
		}
		return nil
	}
	empty := resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
	story := resource.TestCase{Steps: []resource.TestStep{
		{
			ConfigDirectory: config.StaticDirectory(example), ConfigVariables: vars, ConfigPlanChecks: empty,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("kube_control_plane_endpoint.this", "url", "https://"+vip+":6443"),
				resource.TestMatchResourceAttr("kube_control_plane_endpoint.this", "holder", regexp.MustCompile("^cp[123]$")),
				eachMachine("kube_etcd_member.this", names, map[string]string{
					"healthy": "true", "learner": "false", "unit_state": "active", "running_version": "3.6.16", "drift.#": "0", "alarms.#": "0",
				}),
				eachMachine("kube_control_plane_replica.this", names, map[string]string{
					"registered": "true", "components.#": "3", "drift.#": "0",
					"components.0.name": "kube-apiserver", "components.0.healthy": "true", "components.0.version": "1.34.4",
					"components.1.healthy": "true", "components.2.healthy": "true",
				}),
				usable(t),
				func(*terraform.State) error { remember(); return nil },
			),
		},
		{RefreshState: true, Check: unchanged},
		{
			// A setting that is only read when a replica leaves: planned, applied, nothing restarted.
			ConfigDirectory: config.StaticDirectory(example), ConfigVariables: with(vars, config.Variables{"drain_timeout": config.StringVariable("3s")}),
			ConfigPlanChecks: empty, Check: unchanged,
		},
	}}
	for round := range 2 {
		t.Run(fmt.Sprintf("round %d", round+1), func(t *testing.T) {
			runTest(t, story)
			for _, name := range names {
				sameMachine(t, l.Machine(name), before[name])
			}
		})
	}
}

func startsOfAll(t *testing.T, names []string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		all.WriteString(name + "\n" + starts(t, shared.lab.Machine(name)))
	}
	return all.String()
}

// eachMachine checks attributes of every instance of a for_each resource.
func eachMachine(address string, names []string, want map[string]string) resource.TestCheckFunc {
	var checks []resource.TestCheckFunc
	for _, name := range names {
		for attribute, value := range want {
			checks = append(checks, resource.TestCheckResourceAttr(fmt.Sprintf("%s[%q]", address, name), attribute, value))
		}
	}
	return resource.ComposeAggregateTestCheckFunc(checks...)
}

// usable uses the control plane through the virtual IP as an administrator
// does: kubectl with the kubeconfig from the outputs.
func usable(t *testing.T) resource.TestCheckFunc {
	return func(state *terraform.State) error {
		text, ok := state.RootModule().Outputs["kubeconfig"].Value.(string)
		if !ok {
			return fmt.Errorf("output kubeconfig is no string")
		}
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
		for _, args := range []string{
			"create namespace acceptance",
			"-n acceptance create configmap greeting --from-literal=hello=world",
			"-n acceptance get configmap greeting",
			"auth can-i create clusterrolebindings",
			"delete namespace acceptance --wait=false",
		} {
			if err := kubectl(file, args); err != nil {
				return err
			}
		}
		return nil
	}
}

func kubectl(kubeconfig, args string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	binary := filepath.Join(shared.components, "kubernetes-v1.34.4", "kubectl")
	out, err := exec.CommandContext(ctx, binary, append([]string{"--kubeconfig", kubeconfig}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("kubectl %s: %w\n%s", args, err, out)
	}
	return nil
}
