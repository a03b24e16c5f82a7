package etcd

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestVolumesOnMachines: members whose disks move from machine to machine. A disk is a file of this computer, which
// machines have as a block device.
func TestVolumesOnMachines(t *testing.T) {
	testrun.Long(t)
	onLab(t, lab.Config{
		Name: "etcdvol", Subnet: netip.MustParsePrefix("10.62.0.0/24"), Machines: []string{"cp1", "cp2", "cp3", "cp4"},
	}, []string{newRelease}, testVolumes)
}

const (
	volumeDevice = "/dev/etcd-volume"
	volumePlace  = "/var/lib/etcd-volume"
	onDevice     = "; mount " + volumeDevice + " /mnt; " // begins a script that changes the disk elsewhere
	volumeSize   = 1500 << 20
)

// disks are the files that the machines have as block devices.
type disks struct {
	*rig
	dir   string
	loops map[string]string // machine → loop device
}

func testVolumes(t *testing.T) {
	r := newRig(t)
	d := &disks{rig: r, dir: t.TempDir(), loops: map[string]string{}}
	t.Cleanup(func() {
		for name := range d.loops {
			d.detach(name)
		}
	})
	for name, s := range r.specs {
		s.Volume = &volume.Spec{Device: volumeDevice, MountPath: volumePlace}
		s.DataDir = volumePlace + "/etcd"
		r.specs[name] = s
		d.make(name, volumeSize)
		d.attach(name, name)
	}
	d.byUUID("cp2")
	d.refusesContents()
	r.all("create", r.create)
	r.all("read", r.same)
	r.ctl("cp1", "put /registry/pods/a one")
	d.drifts("cp2")
	d.damaged("cp1")
	d.growsXFS("cp2")
	d.growsExt4("cp1")
	d.interrupted()
	d.withoutSpace()
	d.movesFromLiving()
	d.movesFromDead()
	d.boots("cp2")
	d.rebuilt()
	d.restored()
	d.notRestored()
	d.only1()
	d.destroyed()
}

// byUUID: the user has made a file system, XFS here, and names it by its UUID.
func (d *disks) byUUID(name string) {
	d.t.Helper()
	uuid := d.sh(name, "apt-get install -qq xfsprogs >/dev/null 2>&1; mkfs.xfs -q "+volumeDevice+
		"; blkid -p -o value -s UUID "+volumeDevice)
	s := d.specs[name]
	s.Volume = &volume.Spec{UUID: strings.TrimSpace(uuid), MountPath: volumePlace}
	d.specs[name] = s
}

func (d *disks) file(name string) string { return filepath.Join(d.dir, name) }

func (d *disks) make(name string, size int64) {
	d.t.Helper()
	if err := os.WriteFile(d.file(name), nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Truncate(d.file(name), size); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disks) host(program string, args ...string) string {
	d.t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// attach gives a machine a disk, as the provider of a cloud does.
func (d *disks) attach(name, disk string) {
	d.t.Helper()
	loop := d.host("losetup", "--find", "--show", d.file(disk))
	d.loops[name] = loop
	d.sh(name, "mknod "+volumeDevice+" b 7 "+strings.TrimPrefix(loop, "/dev/loop"))
}

// detach takes the disk of a machine, which may be off.
func (d *disks) detach(name string) {
	if on, err := d.lab.Machine(name).Running(); err == nil && on {
		_, _ = d.lab.Machine(name).Run(context.Background(), "rm -f "+volumeDevice)
	}
	_ = exec.Command("losetup", "--detach", d.loops[name]).Run()
	delete(d.loops, name)
}

// refusesContents refuses what is not blank, and changes nothing of it.
func (d *disks) refusesContents() {
	d.t.Helper()
	d.detach("cp1")
	for want, script := range map[string]string{
		"data that is not zero": "printf precious | dd of=" + volumeDevice + " bs=1 seek=70000 conv=notrunc 2>/dev/null",
		"a partition table": "printf '\\0\\0\\2\\0\\203\\0\\0\\0\\0\\10\\0\\0\\0\\10\\0\\0' | dd of=" + volumeDevice +
			" bs=1 seek=446 2>/dev/null; printf '\\125\\252' | dd of=" + volumeDevice + " bs=1 seek=510 2>/dev/null",
		"it has swap":   "mkswap -q " + volumeDevice,
		"has 1 entries": "mkfs.ext4 -q " + volumeDevice + onDevice + "echo x >/mnt/x; umount /mnt",
		"is not an identity": "mkfs.ext4 -q " + volumeDevice + onDevice + "ln -s /etc/shadow /mnt/" + volume.IdentityFile +
			"; umount /mnt",
	} {
		d.make("cp1", 64<<20)
		d.attach("cp1", "cp1")
		d.sh("cp1", script)
		before := d.sh("cp1", "sha256sum "+volumeDevice)
		_, err := d.clusters.Create(d.t.Context(), d.specs["cp1"])
		if err == nil || !strings.Contains(err.Error(), want) {
			d.t.Errorf("a volume with other contents: %v, want %q", err, want)
		}
		if d.sh("cp1", "sha256sum "+volumeDevice) != before {
			d.t.Errorf("%s: the volume was changed", want)
		}
		d.detach("cp1")
	}
	d.make("cp1", volumeSize)
	d.attach("cp1", "cp1")
}

// boots: a machine that boots mounts its volume when it is attached, and etcd does not start before.
func (d *disks) boots(name string) {
	d.t.Helper()
	m := d.lab.Machine(name)
	if err := m.PowerOff(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.detach(name)
	if err := m.Boot(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	if out := d.sh(name, "pgrep -x etcd || true; ls -A "+volumePlace); out != "" {
		d.t.Errorf("without its volume, the machine has %q", out)
	}
	d.attach(name, name)
	d.serves(d.specs[name])
}

// rebuilt: machines that were rebuilt have the cluster only on their volumes, which nobody has mounted yet. A member
// without a volume does not bootstrap an empty cluster beside them.
func (d *disks) rebuilt() {
	d.t.Helper()
	d.reimage()
	d.detach("cp1")
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	s := d.specs["cp1"]
	s.Volume, s.DataDir = nil, ""
	_, err := d.clusters.Create(ctx, s)
	for _, want := range []string{"on volumes that are not mounted", `member "cp2" on /dev/`, `member "cp3" on /dev/`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			d.t.Errorf("an empty cluster beside the volumes of the others: %v, want %q", err, want)
		}
	}
	if out := d.sh("cp1", "pgrep -x etcd || true; ls -A /var/lib/etcd 2>/dev/null || true"); out != "" {
		d.t.Errorf("after the refusal, the machine has %s", out)
	}
	d.process()
	d.only([]string{"cp2", "cp3"}, "update members on volumes of machines that were rebuilt", d.update)
	d.holds("cp2", "three")
	d.attach("cp1", "cp1")
	d.only([]string{"cp1"}, "update the third", d.update)
	d.all("read", d.same)
}

// reimage leaves nothing of the members on the machines but their volumes, in a new process.
func (d *disks) reimage() {
	d.t.Helper()
	for _, name := range everyone {
		d.sh(name, "systemctl stop etcd etcd-volume; if findmnt "+volumePlace+"; then exit 1; fi; "+
			"rm -rf /etc/etcd /etc/kubernetes/pki/etcd /etc/systemd/system/etcd*; systemctl daemon-reload")
	}
	d.process()
}

// notRestored: a restore is requested for machines that were rebuilt. Their members start on their volumes, and nothing
// is restored over what they have.
func (d *disks) notRestored() {
	d.t.Helper()
	d.ctl("cp1", "snapshot save /root/older.db")
	d.ctl("cp1", "put /registry/pods/a newer")
	d.reimage()
	d.request("2026-11-28T00:00", machine.Restore{Snapshot: "/root/older.db"})
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	update := func(s Spec) error { return d.update(ctx, s) }
	for name, err := range together(d.t, d.specs, update, everyone...) {
		if err == nil || !strings.Contains(err.Error(), "a cluster that serves is never replaced by older data") {
			d.t.Errorf("a restore of %s over its volume: %v", name, err)
		}
	}
	d.edit(func(s *Spec) { s.Restore = nil }, everyone...)
	d.process()
	d.all("update members that have started on their volumes", d.update)
	d.all("read", d.same)
	for _, name := range everyone {
		d.holds(name, "newer")
	}
}

// restored: data on volumes is restored where it was, from a survivor and from a snapshot.
func (d *disks) restored() {
	d.t.Helper()
	d.ctl("cp1", "snapshot save /root/volume.db")
	for n, source := range []machine.Restore{{Member: "cp3"}, {Snapshot: "/root/volume.db"}} {
		for _, name := range everyone {
			if name != source.Member {
				d.sh(name, "systemctl kill --signal=KILL etcd; systemctl stop etcd; rm -rf "+volumePlace+"/etcd/member")
			}
		}
		d.request(fmt.Sprintf("2026-11-27T0%d:00", n), source)
		d.all("restore members with volumes from "+source.Source(), d.update)
		d.all("read", d.same)
		for _, name := range everyone {
			d.holds(name, "three")
		}
	}
	for name, s := range d.specs {
		s.Restore = nil
		d.specs[name] = s
	}
}

// resize changes the size of a machine's disk, as the provider of a cloud does.
func (d *disks) resize(name string, size int64) {
	d.t.Helper()
	if err := os.Truncate(d.file(name), size); err != nil {
		d.t.Fatal(err)
	}
	d.host("losetup", "--set-capacity", d.loops[name])
}

const largerVolume = volumeSize + (300 << 20)

// growsXFS: the file system grows with its device, and etcd runs on.
func (d *disks) growsXFS(name string) {
	d.t.Helper()
	d.resize(name, largerVolume)
	d.repairs(name, "has 1.8 GiB, and its file system 1.5 GiB", "", false)
	size := d.sh(name, "df -B1 --output=size "+volumePlace+" | tail -n 1")
	if asNumber(d.t, size) < largerVolume-(100<<20) {
		d.t.Errorf("the file system has %s bytes", size)
	}
}

func asNumber(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// growsExt4: the same, where the kernel lets a machine grow a mounted ext4. A computer without CAP_SYS_RESOURCE does
// not: then it stays drift, the member serves on, and the apply says how to go on.
func (d *disks) growsExt4(name string) {
	d.t.Helper()
	d.resize(name, largerVolume)
	if d.sh(name, "resize2fs "+volumeDevice+" >/dev/null 2>&1 && echo grows || true") != "" {
		d.resize(name, largerVolume+(300<<20))
		d.repairs(name, "and its file system", "", false)
		return
	}
	status, err := d.clusters.Update(d.t.Context(), d.specs[name])
	words := strings.Join(status.Drift, "\n")
	if err != nil || !status.Healthy || !strings.Contains(words, "and its file system 1.5 GiB") ||
		!strings.Contains(status.Remedy, "resize2fs") {
		d.t.Errorf("a file system that cannot grow: %+v, %v", status, err)
	}
	// As that says.
	d.repairs(name, "is not mounted at", "systemctl stop etcd etcd-volume; e2fsck -fp "+volumeDevice+" >/dev/null; "+
		"resize2fs "+volumeDevice+" >/dev/null 2>&1", true)
}

// repairs expects drift after a script, and that an update repairs it, with or without a restart.
func (d *disks) repairs(name, want, script string, restarts bool) {
	d.t.Helper()
	const process = "systemctl show --property=InvocationID etcd"
	before := d.sh(name, process+"; "+script)
	before, _, _ = strings.Cut(before, "\n")
	status, err := d.clusters.Read(d.t.Context(), d.specs[name])
	if words := strings.Join(status.Drift, "\n"); err != nil || !strings.Contains(words, want) || status.NewID {
		d.t.Fatalf("drift is %s (new ID: %v), %v, want %q", words, status.NewID, err, want)
	}
	d.only([]string{name}, "repair of "+want, d.update)
	d.serves(d.specs[name])
	if after := strings.TrimSpace(d.sh(name, process)); (after != before) != restarts {
		d.t.Errorf("%s: restarted: %v, want %v", want, after != before, restarts)
	}
}

func (d *disks) drifts(name string) {
	d.t.Helper()
	identity := volumePlace + "/" + volume.IdentityFile
	d.sh(name, "sed -i 's/\"member_id\": .*/\"member_id\": \"abc\",/' "+identity)
	d.refusesMove(d.specs[name], "has the data of member abc")
	d.repairs(name, volume.IdentityFile+" is missing", "rm "+identity, false)
	const rename = "sed -i 's/\"name\": .*/\"name\": \"%s\",/' %s"
	d.sh(name, fmt.Sprintf(rename, "other", identity))
	d.refusesMove(d.specs[name], `belongs to member "other"`)
	d.sh(name, fmt.Sprintf(rename, name, identity))
	d.repairs(name, volume.ScriptPath+" was edited manually", "echo '# x' >>"+volume.ScriptPath, false)
	d.repairs(name, "is mounted read-only", "systemctl stop etcd; mount -o remount,ro "+volumePlace, true)
	d.repairs(name, "is not mounted at", "systemctl stop etcd; umount "+volumePlace, true)
	d.sh(name, "systemctl stop etcd; umount "+volumePlace+"; mount -t tmpfs none "+volumePlace)
	d.refusesMove(d.specs[name], "another device")
	d.repairs(name, "is not mounted at", "umount "+volumePlace, true)
}

// damaged marks the file system of a member's volume as the kernel does when it finds an error.
func (d *disks) damaged(name string) {
	d.t.Helper()
	d.sh(name, "systemctl stop etcd etcd-volume; debugfs -w -R 'ssv state 2' "+volumeDevice+" 2>/dev/null; "+
		"! systemctl start etcd-volume 2>/dev/null")
	d.refusesMove(d.specs[name], "has found errors in the file system")
	d.repairs(name, "is not mounted at", "e2fsck -fy "+volumeDevice+" >/dev/null || [ $? -eq 1 ]", true)
}

// at returns the spec of cp3 on the machine with that name, coming from another one.
func (d *disks) at(name, former string) Spec {
	s := d.specs["cp3"]
	hosts := map[string]*host.Host{}
	for _, other := range []string{"cp1", "cp2"} {
		hosts[other] = d.specs[other].Host
	}
	pool := d.machines()
	s.Host, s.Former = pool[name], pool[former]
	hosts["cp3"] = s.Host
	s.Peers = hosts
	s.LastMachine = d.machineID(former)
	return s
}

// settle makes s what cp3 is from now on.
func (d *disks) settle(s Spec) {
	s.Former, s.LastMachine = nil, ""
	for name, other := range d.specs {
		other.Peers = s.Peers
		d.specs[name] = other
	}
	d.specs["cp3"] = s
}

func (d *disks) machines() map[string]*host.Host {
	d.t.Helper()
	all := map[string]*host.Host{"cp1": d.specs["cp1"].Host, "cp2": d.specs["cp2"].Host}
	for i, name := range []string{"cp1", "cp2", "cp3", "cp4"} {
		if i >= 2 {
			all[name] = d.dial(address(d.lab, i))
		}
	}
	return all
}

func (d *disks) dial(address string) *host.Host {
	d.t.Helper()
	key, err := d.lab.PrivateKey()
	if err != nil {
		d.t.Fatal(err)
	}
	known, err := d.lab.KnownHosts()
	if err != nil {
		d.t.Fatal(err)
	}
	pool, err := host.NewPool(host.Config{Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = pool.Close() })
	return pool.Host(host.Target{Address: address})
}

func (d *disks) machineID(name string) string {
	d.t.Helper()
	id, err := d.lab.Machine(name).MachineID()
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimSpace(id)
}

// refusesMove expects that the update is refused.
func (d *disks) refusesMove(s Spec, want string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	_, err := d.clusters.Update(ctx, s)
	if err == nil || !strings.Contains(err.Error(), want) {
		d.t.Fatalf("move: %v, want %q", err, want)
	}
	d.t.Logf("  refused: %s", want)
}

// moves expects that the update moves cp3 with its ID and its data.
func (d *disks) moves(s Spec) {
	d.t.Helper()
	before := d.view()
	began := time.Now()
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	defer cancel()
	status, err := d.clusters.Update(ctx, s)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Logf("moved to %s in %s", s.Host.Address(), time.Since(began).Round(100*time.Millisecond))
	d.settle(s)
	d.process()
	after := d.view()
	old, _ := before.ByName("cp3")
	now, _ := after.ByName("cp3")
	if fmt.Sprintf("%x", old.ID) != status.ID || now.ID != old.ID || len(after.Members) != 3 || !now.Healthy ||
		now.PeerURLs[0] != s.PeerURL() {
		d.t.Fatalf("moved as %+v\nfrom %sto %s", status, before, after)
	}
	d.all("read", d.same)
	d.caughtUp(s)
}

// caughtUp expects that the member got what it missed as entries of the log, and no snapshot: since it has started
// there, and in its whole life on the machine.
func (d *disks) caughtUp(s Spec) {
	d.t.Helper()
	clients, err := d.clusters.of(s).connect(s)
	if err != nil {
		d.t.Fatal(err)
	}
	defer clients.Close()
	metrics, err := clients.GetHTTP(d.t.Context(), s.Host.Address(), "/metrics", 8<<20)
	if err != nil || !bytes.Contains(metrics, []byte("etcd_network_peer_received_bytes_total{")) {
		d.t.Fatalf("the metrics of %s: %v", s.Label(), err)
	}
	if bytes.Contains(metrics, []byte("etcd_network_snapshot_receive_success{")) {
		d.t.Errorf("%s has received a snapshot from the leader", s.Label())
	}
	name := "cp3"
	if s.Host.Address() == address(d.lab, 3) {
		name = "cp4"
	}
	if out := d.sh(name, "journalctl --no-pager -u etcd | grep -F 'receiving database snapshot' || true"); out != "" {
		d.t.Errorf("%s has received a snapshot from the leader: %s", s.Label(), out)
	}
}

// holds expects the last value on a machine.
func (d *disks) holds(name, value string) {
	d.t.Helper()
	if got := strings.TrimSpace(d.ctl(name, "get /registry/pods/a --print-value-only --consistency=s")); got != value {
		d.t.Errorf("%s has %q, want %q", name, got, value)
	}
}

// withoutSpace: a machine or a volume that is full refuses the move before the member stops, and nothing is lost. The
// move is completed when there is space.
func (d *disks) withoutSpace() {
	d.t.Helper()
	d.attach("cp4", "cp3")
	s := d.at("cp4", "cp3")
	const process = "systemctl show --property=MainPID --value etcd"
	before := d.sh("cp3", process)
	for _, accident := range []struct{ machine, fills, clears, want string }{
		{
			"cp4", "mkdir -p /opt/kube; mount -t tmpfs -o size=1m none /opt/kube", "umount /opt/kube; rmdir /opt/kube",
			"No space left",
		},
		{
			"cp3", "for size in 64k 512; do dd if=/dev/zero of=" + volumePlace + "/filling.$size bs=$size 2>/dev/null || " +
				"true; sync; done",
			"rm " + volumePlace + "/filling.*", "bytes are left at " + volumePlace,
		},
	} {
		d.sh(accident.machine, accident.fills)
		d.process()
		d.refusesMove(s, accident.want)
		d.sh(accident.machine, accident.clears)
		if now := d.sh("cp3", process); now != before {
			d.t.Errorf("the member was stopped although the move was refused: process %s, before %s", now, before)
		}
	}
	d.process()
	d.moves(s)
	d.detach("cp3")
	d.attach("cp3", "cp3")
	d.moves(d.at("cp3", "cp4"))
	d.detach("cp4")
}

// movesFromLiving: the machine that the member leaves answers, so it is stopped there.
func (d *disks) movesFromLiving() {
	d.t.Helper()
	s := d.at("cp4", "cp3")
	lost := s
	lost.LastMachine = d.machineID("cp1")
	d.writes("cp3", "other-writer", "other")
	d.refusesMove(s, "is still in use, and was not released")
	d.sh("cp3", "systemctl stop other-writer; rm -r "+volumePlace+"/etcd-archive/other; "+
		"grep -q '\"state\": \"member\"' "+volumePlace+"/"+volume.IdentityFile)
	d.writes("cp3", "kube-restore-drill", "drill")
	d.refusesMove(s, "attach it to this machine") // it was released
	if state := d.sh("cp3", "systemctl is-active kube-restore-drill || true"); strings.TrimSpace(state) != "inactive" {
		d.t.Errorf("the restore drill is %s", state)
	}
	if out := d.sh("cp3", "pgrep -x etcd || true; findmnt "+volumePlace+" || true"); out != "" {
		d.t.Errorf("the machine that was left has %s", out)
	}
	d.ctl("cp1", "put /registry/pods/a two")
	d.detach("cp3")
	d.attach("cp4", "cp3")
	d.refusesMove(lost, "is not the newest copy")
	before := d.sh("cp4", "stat -c '%a %U' /etc")
	d.sh("cp4", "true"+onDevice+"ln -s /etc /mnt/etcd/link; umount /mnt")
	d.refusesMove(s, "there are symbolic links on the volume")
	d.sh("cp4", "true"+onDevice+"rm /mnt/etcd/link; umount /mnt")
	if after := d.sh("cp4", "stat -c '%a %U' /etc; findmnt "+volumePlace+" || true"); after != before {
		d.t.Errorf("after a volume with links: %s, before %s", after, before)
	}
	d.moves(s)
	d.holds("cp4", "two")
	out := d.sh("cp3", "ls -d /etc/etcd /etc/kubernetes/pki/etcd /opt/kube "+volumePlace+" 2>/dev/null || true")
	if out != "" {
		d.t.Errorf("the machine that was left still has %s", out)
	}
}

// writes starts a unit that writes to a directory beside the data, in a mount namespace like that of a restore drill.
func (d *disks) writes(name, unit, dir string) {
	d.t.Helper()
	dir = volumePlace + "/etcd-archive/" + dir
	d.sh(name, "mkdir -p "+dir+"; systemd-run --quiet --collect --unit="+unit+" "+
		"--property=ProtectSystem=strict --property=ReadWritePaths="+volumePlace+"/etcd-archive "+
		"/bin/sh -euc 'while sleep 0.1; do date >"+dir+"/written; done'\n"+
		"timeout 30 sh -c 'until [ -s "+dir+"/written ]; do sleep 0.1; done'")
}

// movesFromDead: the machine that the member leaves does not answer. Its disk is as a power cut has left it.
func (d *disks) movesFromDead() {
	d.t.Helper()
	s := d.at("cp3", "cp4")
	d.host("cp", "--sparse=always", d.file("cp3"), d.file("cut"))
	d.attach("cp3", "cp3")
	stranger := s
	stranger.Former, stranger.LastMachine = nil, ""
	d.known(d.machines()["cp4"])
	d.refusesMove(stranger, "answers and still uses it")
	// Multiple mount protection.
	d.sh("cp3", "mkdir -p /mnt/second; if mount "+volumeDevice+" /mnt/second; then exit 1; fi")
	d.detach("cp3")
	if err := d.lab.Machine("cp4").PowerOff(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.detach("cp4")
	if err := os.Rename(d.file("cut"), d.file("cp3")); err != nil {
		d.t.Fatal(err)
	}
	d.attach("cp3", "cp3")
	d.ctl("cp1", "put /registry/pods/a three")
	d.refusesMove(s, "does not answer, so it may still write to it")
	fenced := *s.Volume
	fenced.Fenced = true
	s.Volume = &fenced
	d.moves(s)
	d.holds("cp3", "three")
	if err := d.lab.Machine("cp4").Boot(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	// It finds a disk that it had: another machine has taken it.
	d.attach("cp4", "cp3")
	d.sh("cp4", "systemctl stop etcd etcd-volume; "+
		"for unit in etcd-volume etcd; do if systemctl start $unit; then exit 1; fi; done; "+
		"if findmnt "+volumePlace+"; then exit 1; fi; systemctl stop etcd etcd-volume")
	d.detach("cp4")
}

// known makes this process know a machine, as a peer of another resource does.
func (d *disks) known(h *host.Host) {
	cl := d.clusters.of(d.specs["cp1"])
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.known[h.Address()] = knownMachine{name: "stranger", host: h}
}

// interrupted kills the process before each change of a move from cp3 to cp4, and after each one of the move back. The
// next apply completes it.
func (d *disks) interrupted() {
	d.t.Helper()
	from, to := "cp3", "cp4"
	for at, whole := 1, 0; whole < 2; at++ { // until a move in each direction was not cut off
		c := &cut{at: (at + 1) / 2, after: at%2 == 0}
		d.attach(to, "cp3") // both have it: it is released on the way
		s := d.at(to, from)
		d.process()
		uncut := d.clusters.machine
		d.clusters.machine = func(h *host.Host) machine.Machine { return cutting{uncut(h), c} }
		ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
		_, err := d.clusters.Update(ctx, s)
		cancel()
		d.t.Logf("killed at change %d (%s, after: %v): %.200v", c.at, c.what, c.after, err)
		d.process()
		d.clusters.machine = uncut
		d.moves(s)
		d.detach(from)
		from, to = to, from
		if whole++; c.dead {
			whole = 0
		}
	}
	if from != "cp3" { // two moves in a row are there and back, but not always in this order
		d.attach(to, "cp3")
		d.moves(d.at(to, from))
		d.detach(from)
	}
}

// only1: the only member of a cluster moves, and nobody else knows its address.
func (d *disks) only1() {
	d.t.Helper()
	d.only([]string{"cp1", "cp2"}, "destroy two", d.delete)
	at := "cp3"
	if d.specs["cp3"].Host.Address() == address(d.lab, 3) {
		at = "cp4"
	}
	to := map[string]string{"cp3": "cp4", "cp4": "cp3"}[at]
	d.attach(to, "cp3")
	s := d.at(to, at)
	s.Peers = map[string]*host.Host{"cp3": s.Host}
	d.process()
	status, err := d.clusters.Update(d.t.Context(), s)
	if err != nil || !status.Healthy || len(status.Drift) > 0 {
		d.t.Fatalf("move of the only member: %+v, %v", status, err)
	}
	d.detach(at)
	s.Former, s.LastMachine = nil, ""
	d.specs["cp3"] = s
	d.only([]string{"cp3"}, "read", d.same)
	d.holds(to, "newer")
}

// destroyed: the data stays on the volume, and never votes again.
func (d *disks) destroyed() {
	d.t.Helper()
	name := "cp3"
	if d.specs["cp3"].Host.Address() == address(d.lab, 3) {
		name = "cp4"
	}
	d.only([]string{"cp3"}, "destroy the last one", d.delete)
	out := d.sh(name, "if findmnt "+volumePlace+"; then exit 1; fi; "+
		"ls -d /etc/etcd "+volumePlace+" /etc/systemd/system/etcd* 2>/dev/null || true; "+
		"mount "+volumeDevice+" /mnt; cat /mnt/"+volume.IdentityFile+"; "+
		"ls -d /mnt/etcd-archive/*/member /mnt/etcd-archive/*/snapshot.db; "+
		"ls -d /mnt/etcd 2>/dev/null || true; umount /mnt")
	if !strings.Contains(out, `"state": "removed"`) || !strings.Contains(out, "/snapshot.db") ||
		strings.Contains(out, "/etc/") || strings.Contains(out, volumePlace) {
		d.t.Errorf("after the destroy, there is\n%s", out)
	}
	d.process() // a process does not bootstrap after it has seen a cluster
	d.only([]string{"cp3"}, "create on the same volume", d.create)
	d.only([]string{"cp3"}, "destroy again", d.delete)
}
