package haproxy

import (
	"context"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// somebody installs two packages of their own, and holds the package manager's lock
// from when the first one is begun until it is told to go on.
const somebody = `set -e
cd "$(mktemp -d)"
for name in somebody-first somebody-second; do
  mkdir -p $name/DEBIAN
  printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: somebody <a@b.c>\nDescription: x\n' \
    $name >$name/DEBIAN/control
done
echo 'Depends: somebody-first' >>somebody-second/DEBIAN/control
printf '#!/bin/sh\ntouch /tmp/begun\nuntil [ -e /tmp/go-on ]; do sleep 0.1; done\n' >somebody-first/DEBIAN/preinst
chmod 755 somebody-first/DEBIAN/preinst
for name in somebody-first somebody-second; do dpkg-deb --build --root-owner-group $name >/dev/null; done
systemd-run --quiet --unit=somebody --collect --setenv=DEBIAN_FRONTEND=noninteractive \
  apt-get -q -y install "$PWD/somebody-first.deb" "$PWD/somebody-second.deb"
until [ -e /tmp/begun ]; do sleep 0.1; done`

// damagePackages writes dpkg's status as it is after an installation that was cut off while a package was unpacked
// over itself, which is too short to be met by waiting for it. apt does not unpack such a package again by itself.
func (f *fixture) damagePackages() {
	f.Helper()
	f.shell("a", `awk '/^Package: /{ package = $2 }
/^Status: / && package == "haproxy" { $0 = "Status: install ok unpacked" }
/^Status: / && package == "liblua5.3-0" { $0 = "Status: install reinstreq unpacked" }
{ print }' /var/lib/dpkg/status >/var/lib/dpkg/status.new
mv /var/lib/dpkg/status.new /var/lib/dpkg/status
dpkg --audit | grep -q 'must be reinstalled'
touch `+packages.HAProxy().InstallingPath())
}

// losePackageLog empties dpkg's log of an installation that was cut off, as a power cut can.
func (f *fixture) losePackageLog() {
	f.Helper()
	f.shell("a", "cd "+packages.HAProxy().StateDir+"; grep -q ' install ' dpkg.log; : >dpkg.log; "+
		"echo the former >boot")
}

// installConcurrently: what others install while this waits for the package manager's
// lock is theirs, and stays when the endpoint goes.
func (f *fixture) installConcurrently(create func(context.Context) error) {
	f.Helper()
	f.shell("a", somebody)
	done := make(chan error, 1)
	go func() { done <- create(f.ctx) }()
	f.shell("a", "until ls "+packages.HAProxy().StateDir+"/log >/dev/null 2>&1; do sleep 0.1; done; sleep 1; "+
		"touch /tmp/go-on")
	f.must(<-done)
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
	left := f.shell("a", "dpkg-query -W -f '${Package} ${db:Status-Status}\n' | grep -E "+
		"'^(somebody|haproxy|keepalived)' || true")
	if strings.TrimSpace(left) != "somebody-first installed\nsomebody-second installed" {
		f.Errorf("after the delete:\n%s", left)
	}
	f.shell("a", "dpkg --purge somebody-second somebody-first; rm /tmp/begun /tmp/go-on")
}
