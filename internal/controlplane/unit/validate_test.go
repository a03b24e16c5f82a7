package unit

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestValidateSocket(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///run/kms.sock":            "",
		"unix:///var/run/kms/plugin.sock": "",
		"unix:///opt/kms/tmp/x.sock":      "",
		"unix://@kms":                     "",
		"unix:///tmp/kms.sock":            "no /tmp but its own",
		"unix:///run/../tmp/kms.sock":     "no /tmp but its own",
		"unix:///var/tmp/kms.sock":        "no /var/tmp but its own",
		"unix:///home/kms/kms.sock":       "no /home but its own",
		"unix:///run/user/0/kms.sock":     "no /run/user but its own",
		"unix:///dev/shm/kms.sock":        "no /dev but its own",
		"tcp://127.0.0.1:1":               "not the URL of a Unix socket",
	} {
		if err := ValidateSocket(endpoint); (want == "") != (err == nil) || !strings.Contains(cptest.Text(err), want) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
	}
}

func TestValidateAuditLog(t *testing.T) {
	for file, want := range map[string]string{
		"":                                     "",
		"-":                                    "",
		"/var/log/kube-apiserver/audit.log":    "",
		"/var/log/kube-apiserver/../audit.log": "may write below /var/log/kube-apiserver only",
		"/srv/audit.log":                       "may write below /var/log/kube-apiserver only",
	} {
		s := componenttest.Stacked(t)
		s.ExtraArgs = map[string]map[string]string{release.APIServer: {component.AuditLogFlag: file}}
		if err := Validate(s); (want == "") != (err == nil) || !strings.Contains(cptest.Text(err), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

func TestValidate(t *testing.T) {
	s := componenttest.Stacked(t)
	s.Limits = map[string]component.Limits{release.Scheduler: {MemoryHigh: "1G", MemoryMax: "2G", CPUQuota: "50%"}}
	if err := Validate(s); err != nil {
		t.Error(err)
	}
	s.Limits[release.Scheduler] = component.Limits{MemoryHigh: "3G", MemoryMax: "2G"}
	if err := Validate(s); !problem.Untouched(err) || !strings.Contains(cptest.Text(err), "killed at 2G") {
		t.Errorf("contradicting limits: %v", err)
	}
	s = componenttest.Stacked(t)
	bundle := *s.Bundle
	s.Bundle = &bundle
	bundle.Encryption = pki.Encryption{
		Kind: pki.KMS, Name: "a", Resources: []string{"secrets"}, Endpoint: "unix:///tmp/kms.sock",
	}
	if err := Validate(s); !problem.Untouched(err) || !strings.Contains(cptest.Text(err), "no /tmp but its own") {
		t.Errorf("a socket that the unit does not see: %v", err)
	}
}
