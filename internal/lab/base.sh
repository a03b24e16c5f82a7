# Runs inside a freshly debootstrapped tree and turns it into the disk image that all
# machines share. The image is small, boots fast, and sends nothing to any network.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# The provider's packages are not installed but can be: they are in a repository on the
# disk, the only one that the machine knows. So a machine is as bare as a new one, and the
# installation is real and works without a network.
repo=/var/cache/kube-lab/repo
mkdir -p "$repo/partial"
apt-get update -q
apt-get install -y -q --no-install-recommends --download-only \
  -o Dir::Cache::archives="$repo" haproxy keepalived socat nginx-light libnginx-mod-stream \
  bind9 bind9-dnsutils bird2 firewalld rpm dnf zypper createrepo-c \
  selinux-policy-default selinux-utils setools policycoreutils-python-utils \
  prometheus prometheus-node-exporter prometheus-pushgateway \
  containerd runc containernetworking-plugins chrony xfsprogs
rm -rf "$repo/partial" "$repo/lock"
cd "$repo"
for deb in *.deb; do
  dpkg-deb --field "$deb"
  echo "Filename: ./$deb"
  echo "Size: $(stat -c %s "$deb")"
  echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
  echo
done > Packages
cat > Release <<INDEX
Suite: kube-lab
Date: $(date -Ru)
SHA256:
 $(sha256sum Packages | cut -d' ' -f1) $(stat -c %s Packages) Packages
INDEX
rm -rf /etc/apt/sources.list /var/lib/apt/lists/*
echo "deb [trusted=yes] file:$repo ./" > /etc/apt/sources.list.d/kube-lab.list
cat > /etc/apt/apt.conf.d/90kube-lab <<'CONF'
Acquire::Languages "none";
APT::Install-Recommends "false";
CONF
echo force-unsafe-io > /etc/dpkg/dpkg.cfg.d/kube-lab
apt-get update -q
apt-get clean

# Units that would fail to start on a machine without hardware, console and network
# configuration.
systemctl mask --quiet \
  apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
  e2scrub_all.timer e2scrub_reap.service fstrim.timer \
  getty.target getty@tty1.service getty-static.service console-getty.service \
  systemd-networkd.service systemd-resolved.service \
  systemd-pstore.service systemd-firstboot.service systemd-journal-flush.service \
  systemd-update-utmp.service systemd-update-utmp-runlevel.service \
  systemd-random-seed.service systemd-binfmt.service systemd-machine-id-commit.service \
  systemd-modules-load.service kmod-static-nodes.service \
  modprobe@dm_mod.service modprobe@loop.service modprobe@efi_pstore.service \
  dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
  sys-kernel-config.mount sys-fs-fuse-connections.mount proc-sys-fs-binfmt_misc.automount

# Every daemon-reload runs all generators. Of these, only that of fstab has something to do on a container.
mkdir -p /etc/systemd/system-generators
for generator in cryptsetup debug getty gpt-auto hibernate-resume integritysetup rc-local run system-update sysv veritysetup; do
  ln -s /dev/null "/etc/systemd/system-generators/systemd-$generator-generator"
done

mkdir -p /etc/systemd/journald.conf.d /etc/ssh/sshd_config.d
cat > /etc/systemd/journald.conf.d/kube-lab.conf <<'CONF'
[Journal]
Storage=volatile
RuntimeMaxUse=32M
RateLimitBurst=0
CONF

# sshd: no DNS, no message of the day, no locale of the caller. Its limits on connections
# and sessions stay Debian's, so that tests detect when they are exceeded.
cat > /etc/ssh/sshd_config.d/kube-lab.conf <<'CONF'
UseDNS no
PrintMotd no
PrintLastLog no
CONF
sed -i '/^AcceptEnv/d' /etc/ssh/sshd_config
sed -i '/pam_motd\|pam_mail/d' /etc/pam.d/sshd
: > /etc/default/locale

useradd --create-home --shell /bin/bash admin
echo 'admin ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/admin
chmod 0440 /etc/sudoers.d/admin

# Every machine gets its own identity.
rm -f /etc/ssh/ssh_host_* /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /etc/hosts
: > /etc/resolv.conf
