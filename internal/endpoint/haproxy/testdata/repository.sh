# Builds tiny packages, a repository of them at /srv/repository, and a machine's rpm database. Other
# packages than the endpoint's are there too: shared is a library that is updated together with them,
# and auditd is installed by others.
set -eu
mkdir -p /srv/repository /srv/former
program() { [ "$1" = haproxy ] || [ "$1" = keepalived ] || [ "$1" = socat ]; }
build() { # DIRECTORY NAME VERSION [LINE OF THE SPEC]
  {
    printf 'Name: %s\nVersion: %s\nRelease: 1\nSummary: %s\n' "$2" "$3" "$2"
    printf 'License: none\nBuildArch: noarch\nAutoReqProv: no\n'
    printf '%s\n' "${4:-}"
    printf '%%description\nFor a test.\n%%install\nmkdir -p %%{buildroot}/srv/installed\n'
    printf 'echo %s >%%{buildroot}/srv/installed/%s\n' "$3" "$2"
    if program "$2"; then
      printf 'mkdir -p %%{buildroot}/usr/sbin\nprintf "#!/bin/sh\\n" >%%{buildroot}/usr/sbin/%s\n' "$2"
      printf 'chmod 755 %%{buildroot}/usr/sbin/%s\n' "$2"
    fi
    if [ "$2" = keepalived ]; then # the last one: it waits while a test interrupts the installation
      printf '%%pre\nif [ -e /srv/hold ]; then touch /srv/held; while [ -e /srv/hold ]; do sleep 0.1; done; fi\n'
    fi
    printf '%%files\n/srv/installed/%s\n' "$2"
    if program "$2"; then printf '/usr/sbin/%s\n' "$2"; fi
  } >"/tmp/$2.spec"
  rpmbuild --quiet -bb --define "_rpmdir $1" --define '_build_name_fmt %%{NAME}-%%{VERSION}.rpm' \
    --define '_topdir /tmp/rpmbuild' "/tmp/$2.spec" >/tmp/rpmbuild.log 2>&1 || { cat /tmp/rpmbuild.log; exit 1; }
}
build /srv/former shared 1
build /srv/former base 1 'Provides: /bin/sh'
build /srv/repository shared 2
build /srv/repository haproxy 1 'Requires: shared >= 2, libhaproxy'
build /srv/repository keepalived 1 'Requires: libkeepalived'
build /srv/repository socat 1
build /srv/repository libhaproxy 1
build /srv/repository libkeepalived 1
build /srv/repository auditd 1
build /srv/repository monitor 1 'Requires: libkeepalived'
createrepo_c --quiet /srv/repository
rpm --initdb
rpm -i /srv/former/*.rpm
mkdir -p /etc/yum.repos.d /etc/zypp/repos.d
cat >/etc/yum.repos.d/test.repo <<'REPO'
[test]
name=test
baseurl=file:///srv/repository
gpgcheck=0
REPO
cp /etc/yum.repos.d/test.repo /etc/zypp/repos.d/test.repo
