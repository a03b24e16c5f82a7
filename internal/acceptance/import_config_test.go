package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// settingsFile adds settings to the example's members and replicas.
const settingsFile = "settings_override.tf"

// The settings include explicit defaults, empty objects, and YAML with a layout of its own,
// which cannot be derived from a machine.
const (
	memberSettings = `
  resources = { memory_high = "2G", cpu_quota = "200%%", memory_min = "5%%", cpu_weight = 1000, io_weight = 500 }
  snapshots = { schedule = "*-01-31 00:00", kept = 7, upload = "cp \"$SNAPSHOT\" '/srv/'\n" }
`
	replicaSettings = `
  audit = {
    policy       = <<-EOT
      # All there is.
      apiVersion: audit.k8s.io/v1
      kind: Policy
      rules: [{ level: Metadata }]
    EOT
    max_age_days = 7
    max_size_mb  = 100
  }
  authentication = {
    jwt = <<-EOT
      # Who works here.
      - issuer: { url: "https://id.example.com", audiences: [kubernetes] }
        claimMappings:
          username: { claim: email, prefix: "" }
    EOT
    anonymous_paths = ["/version", "/api/v1/namespaces/kube-public/configmaps/cluster-info"]
  }
  resources = {
    apiserver          = { memory_high = "3G", memory_max = "4096M", cpu_quota = "200%%" }
    controller_manager = { memory_max = "1G", cpu_weight = 200 }
    scheduler          = {}
  }
`
)

var withSettings = fmt.Sprintf("resource \"kube_etcd_member\" \"this\" {" + memberSettings +
	"}\nresource \"kube_control_plane_replica\" \"this\" {" + replicaSettings + "}\n")

// withoutExample removes everything except the provider's settings from the configuration. The
// returned function restores the rest.
func (i *importing) withoutExample(t *testing.T) (restore func()) {
	t.Helper()
	example := map[string]string{}
	for _, name := range []string{"main.tf", "outputs.tf", settingsFile} {
		text, err := os.ReadFile(filepath.Join(i.w.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		example[name] = string(text)
	}
	settings, _, _ := strings.Cut(example["main.tf"], `resource "kube_pki_bundle"`)
	write(t, filepath.Join(i.w.Dir, "main.tf"), settings)
	write(t, filepath.Join(i.w.Dir, "outputs.tf"), "")
	write(t, filepath.Join(i.w.Dir, settingsFile), "")
	return func() {
		for name, text := range example {
			write(t, filepath.Join(i.w.Dir, name), text)
		}
		i.blocks(t, "")
		write(t, filepath.Join(i.w.Dir, "generated.tf"), "")
	}
}

// generated imports into a configuration that Terraform generates. Only sensitive values, which
// Terraform does not write, are added to it.
func (i *importing) generated(t *testing.T) {
	i.forget(t)
	defer i.withoutExample(t)()
	i.blocks(t, importBlocks(map[string]string{
		"kube_pki_bundle.this":             "file:" + i.backup,
		"kube_control_plane_endpoint.this": address("cp1"),
		"kube_etcd_member.cp1":             address("cp1"),
		"kube_control_plane_replica.cp1":   address("cp1"),
		"kube_kubeconfig.admin":            address("cp1"),
	}))
	path := filepath.Join(i.w.Dir, "generated.tf")
	_, _, err := i.w.Plan(t.Context(), "-generate-config-out="+path)
	if err != nil {
		t.Logf("as it is written: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := regexp.MustCompile(`(?m)^(\s*pki\s*=) null # sensitive$`).ReplaceAllString(string(text),
		"$1 kube_pki_bundle.this.bundle")
	write(t, path, edited)
	t.Logf("generated:\n%s", text)
	expectContains(t, plan(t, i.w), "5 to import, 0 to add, 0 to change, 0 to destroy.")
	apply(t, i.w)
	i.blocks(t, "")
	expectEmptyPlan(t, i.w)
	i.before.expect(t)
}

// otherBundleConfig is a configuration that gets its bundle from another one.
const otherBundleConfig = `
resource "kube_etcd_member" "cp1" {
  name       = "cp1"
  host       = { address = var.machines.cp1 }
  peers      = var.machines
  pki        = file(%[1]q)
  version    = var.etcd_version
  extra_args = {}
` + memberSettings + `}
resource "kube_control_plane_replica" "cp1" {
  name       = "cp1"
  host       = { address = var.machines.cp1 }
  endpoint   = { address = var.endpoint_address, port = 6443, hosts = var.machines, ` +
	`drain_timeout = var.drain_timeout, verify_ca = true }
  etcd       = ["https://${var.machines.cp1}:2379"]
  pki        = file(%[1]q)
  version    = var.kubernetes_version
  pod_cidrs  = var.pod_cidrs
  extra_args = { apiserver = {} }
` + replicaSettings + `}
import {
  to = kube_etcd_member.cp1
  id = var.machines.cp1
}
import {
  to = kube_control_plane_replica.cp1
  id = var.machines.cp1
}
`

// otherBundle imports without a kube_pki_bundle in the configuration. The value for pki differs
// from the imported state, and applying it changes nothing on the machines. The bundle of
// another cluster is rejected.
func (i *importing) otherBundle(t *testing.T) {
	i.forget(t)
	defer i.withoutExample(t)()
	other, err := pki.Generate(pki.Options{ClusterName: "other", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	text, err := other.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	otherFile := filepath.Join(t.TempDir(), "other")
	write(t, otherFile, text)
	write(t, filepath.Join(i.w.Dir, "generated.tf"), fmt.Sprintf(otherBundleConfig, otherFile))
	expectContains(t, refused(t, i.w), "Bundle of another cluster")
	write(t, filepath.Join(i.w.Dir, "generated.tf"), fmt.Sprintf(otherBundleConfig, i.backup))
	expectContains(t, plan(t, i.w), "2 to import, 0 to add, 2 to change, 0 to destroy.", "its PKI bundle is not known yet")
	apply(t, i.w)
	i.before.expect(t)
}
