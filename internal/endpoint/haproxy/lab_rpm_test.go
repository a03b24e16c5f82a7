package haproxy

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

//go:embed testdata/repository.sh
var repositoryScript string

// TestRPMOnMachines: dnf and zypper install the endpoint's packages from a repository of rpm packages, also after
// an interruption, and what came with them is removed, except for what others need.
func TestRPMOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.rebuiltAfter()
	for name, manager := range map[string]string{"b": "dnf", "c": "zypper"} {
		t.Run(manager, func(t *testing.T) {
			sub := *f
			sub.T = t
			sub.shell(name, `export DEBIAN_FRONTEND=noninteractive
apt-get install -y -q `+manager+` rpm createrepo-c >/tmp/apt.log 2>&1 || { tail /tmp/apt.log; exit 1; }
`+repositoryScript+`
mkdir /srv/hidden
mv /usr/bin/apt-get /usr/bin/dpkg /usr/bin/perl /srv/hidden/`)
			sub.installRPMs(name, manager)
		})
	}
}

func (f *fixture) installRPMs(name, manager string) {
	f.Helper()
	h, set := f.spec.Hosts[name], packages.HAProxy()
	observe := func() host.Facts {
		facts, err := h.Observe(f.ctx, set.Extend(host.Query{}))
		f.must(err)
		if !packages.HasManager(facts) {
			f.Fatalf("no package manager among %v", facts.Commands)
		}
		return facts
	}
	missing := func() []string { return set.Missing(observe()) }
	installed := func() string {
		return strings.Join(strings.Fields(f.shell(name, `rpm -qa --qf '%{NAME}\n' 2>/dev/null | sort -u`)), " ")
	}
	others := func(p string) {
		f.shell(name, manager+map[string]string{"dnf": " -q -y", "zypper": " -q -n"}[manager]+
			" install "+p)
	}
	if got := strings.Join(missing(), " "); got != "haproxy keepalived socat" {
		f.Fatalf("missing: %s", got)
	}
	others("auditd")

	f.shell(name, "touch /srv/hold")
	ctx, cancel := context.WithCancel(f.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := h.Run(ctx, set.Install(observe()))
		ended <- err
	}()
	f.shell(name, "until [ -e /srv/held ]; do sleep 0.1; done")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.Fatalf("the installation was not interrupted: %v", err)
	}
	f.shell(name, "rm -f /srv/hold /srv/held")
	f.Logf("after the interruption: %s", installed())
	if got := strings.Join(missing(), " "); got != "haproxy keepalived socat" {
		f.Errorf("missing after an interruption: %s", got)
	}

	f.timed("install with "+manager, func() error {
		_, err := h.Run(f.ctx, set.Install(observe()))
		return err
	})
	if got := missing(); len(got) > 0 {
		f.Errorf("still missing: %q", got)
	}
	recorded := strings.Join(strings.Fields(f.shell(name, "cat "+set.StateDir+"/installed")), " ")
	if want := "haproxy keepalived libhaproxy libkeepalived socat"; recorded != want {
		f.Errorf("recorded as installed: %s, want %s", recorded, want)
	}
	others("monitor") // needs libkeepalived
	const all = "auditd base haproxy keepalived libhaproxy libkeepalived monitor shared socat"
	if got := installed(); got != all {
		f.Errorf("installed: %s, want %s", got, all)
	}
	_, err := h.Run(f.ctx, set.WithRemoval("remove_packages\nflush_packages\n", nil))
	f.must(err)
	if got, want := installed(), "auditd base libkeepalived monitor shared"; got != want {
		f.Errorf("after the removal: %s, want %s", got, want)
	}
	if left := f.shell(name, "ls -d "+set.StateDir+" 2>/dev/null || true"); left != "" {
		f.Errorf("left: %s", left)
	}
}
