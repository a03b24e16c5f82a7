package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestAsProblem(t *testing.T) {
	unknownKey := &host.HostKeyError{Address: "10.0.0.11", Seen: "ssh-ed25519 AAAA"}
	changedKey := &host.HostKeyError{Address: "10.0.0.11", Seen: "ssh-ed25519 AAAA", Known: []string{"ssh-ed25519 BBBB"}}
	for _, c := range []struct {
		name          string
		err           error
		summary, next string
	}{
		{"any", errors.New("odd"), "not created", ""},
		{
			"unknown key", fmt.Errorf("look: %w", unknownKey), "Host key not trusted",
			`"10.0.0.11" = { host_key = "ssh-ed25519 AAAA" }`,
		},
		{"changed key", fmt.Errorf("look: %w", changedKey), "Host key changed", "replace the old line"},
		{
			"changed key in a problem", &problem.Problem{Summary: "member not made", Next: "look", Err: changedKey},
			"Host key changed", "replace the old line",
		},
		{
			"list of machines", &problem.Problem{Summary: "not set up", Next: "mend", Detail: "cp1: …", Err: changedKey},
			"not set up", "mend",
		},
		{"refused", fmt.Errorf("dial: %w", host.ErrAuth), "SSH authentication refused", "authorized_keys"},
		{"no root", fmt.Errorf("dial: %w", host.ErrNotRoot), "No root privileges on the machine", "NOPASSWD"},
		{
			"unreachable", fmt.Errorf("dial: %w", host.ErrUnreachable), "Machine unreachable over SSH",
			"abandon_unreachable_hosts",
		},
		{
			"unreachable, with a remedy", &problem.Problem{Summary: "not deleted", Next: "wait", Err: host.ErrUnreachable},
			"not deleted", "wait",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := asProblem("not created", c.err)
			if p.Summary != c.summary || !strings.Contains(p.Next, c.next) {
				t.Errorf("summary %q, next %q; want %q, %q", p.Summary, p.Next, c.summary, c.next)
			}
		})
	}
}

func TestSettingPath(t *testing.T) {
	ssh := path.Root("ssh")
	for field, want := range map[string]string{
		"private_key":              "ssh.private_key",
		"bastion.host_key":         "ssh.bastion.host_key",
		"hosts.10.0.0.11.host_key": `ssh.hosts["10.0.0.11"].host_key`,
	} {
		if got := settingPath(ssh, field).String(); got != want {
			t.Errorf("%s is %s, want %s", field, got, want)
		}
	}
}
