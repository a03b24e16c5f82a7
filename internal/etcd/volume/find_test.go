package volume

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// findStandIns replace blkid, the devices and the mounts: blkid prints the devices in the file devices, and of each its
// type. The file placed has the device that is mounted in place, and mounted those that are mounted anywhere.
const findStandIns host.Script = `
blocks=$scratch/block
blkid() {
  case "$*" in
  *'-o value -s'*TYPE*) echo ext4 ;;
  *'-o value -s'*) echo "$last" ;;
  *) cat "$scratch/devices" ;;
  esac
}
last=kube-etcd
readlink() {
  case $3 in
  /dev/disk/*) echo /dev/sda ;;
  *) command readlink "$@" ;;
  esac
}
is_device() { [ -n "$1" ]; }
number_of() { echo "${1##*/}"; }
mounted_here() { cat "$scratch/placed"; }
awk() { for one in "$@"; do case $one in n=*) grep -qxF "${one#n=}" "$scratch/mounted"; return ;; esac; done; }
peek() { echo "identity $volume"; }
`

// blockTree writes what the kernel says of block devices: "sda", "sda1/partition 1", "sda/device/wwid naa.1".
func blockTree(t *testing.T, facts []string) string {
	t.Helper()
	dir := t.TempDir()
	for _, fact := range facts {
		file, text, _ := strings.Cut(fact, " ")
		name, rest, _ := strings.Cut(file, "/")
		disk := strings.TrimRight(name, "123456789")
		at := filepath.Join(dir, "kernel", disk)
		if strings.HasPrefix(name, "sd") && disk != name {
			at = filepath.Join(at, name)
		}
		if rest == "" {
			rest = "size"
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(at, rest)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, rest), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(dir, "block"), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Symlink(at, filepath.Join(dir, "block", name)) // it may be there
	}
	return dir
}

// TestFindVolume: a name that copies share finds the one that is mounted in place, and otherwise tells of the copies.
// Paths to one disk are no copies.
func TestFindVolume(t *testing.T) {
	const uuid = "d0e4ab54-bc59-43d3-93f5-d30cc7d908ad"
	for name, c := range map[string]struct {
		spec    Spec
		facts   []string
		devices string
		placed  string
		want    string // the volume and its copies
	}{
		"one":  {Spec{UUID: uuid}, []string{"sda"}, "/dev/sda", "", "/dev/sda"},
		"none": {Spec{UUID: uuid}, []string{"sda"}, "", "", ""},
		"a copy": {
			Spec{UUID: uuid},
			[]string{"sda/device/wwid naa.1", "sdb/device/wwid naa.2"},
			"/dev/sda\n/dev/sdb", "",
			"/dev/sda /dev/sdb",
		},
		"two copies without a worldwide name": {
			Spec{UUID: uuid},
			[]string{"sda", "sdb", "sdc/device/wwid t10.QEMU"},
			"/dev/sda\n/dev/sdb\n/dev/sdc", "",
			"/dev/sda /dev/sdb /dev/sdc",
		},
		"copies whose worldwide name is none": {
			Spec{UUID: uuid},
			[]string{"sda/wwid eui.0000000000000000", "sdb/wwid eui.0000000000000000"},
			"/dev/sda\n/dev/sdb", "", "/dev/sda /dev/sdb",
		},
		"a copy, and it is mounted": {
			Spec{UUID: uuid}, []string{"sda", "sdb"}, "/dev/sda\n/dev/sdb", "sdb", "/dev/sdb",
		},
		"two paths": {
			Spec{UUID: uuid}, []string{"sda/device/wwid naa.1", "sdb/device/wwid naa.1"}, "/dev/sda\n/dev/sdb", "", "/dev/sda",
		},
		"two partitions of a disk": {
			Spec{UUID: uuid},
			[]string{"sda/device/wwid naa.1", "sda1/partition 1", "sda2/partition 2"},
			"/dev/sda1\n/dev/sda2", "", "/dev/sda1 /dev/sda2",
		},
		"a partition by two paths": {
			Spec{UUID: uuid},
			[]string{"sda/device/wwid naa.1", "sda1/partition 1", "sdb/device/wwid naa.1", "sdb1/partition 1"},
			"/dev/sda1\n/dev/sdb1", "", "/dev/sda1",
		},
		"below a multipath device": {
			Spec{UUID: uuid},
			[]string{"sda/holders/dm-0", "sdb/holders/dm-0", "dm-0"},
			"/dev/sda\n/dev/sdb\n/dev/dm-0", "",
			"/dev/dm-0",
		},
		"a partition below a multipath device": {
			Spec{UUID: uuid}, []string{"sda/holders/dm-0", "sda1/partition 1", "dm-1"}, "/dev/sda1\n/dev/dm-1", "", "/dev/dm-1",
		},
		"by a name of the disk": {
			Spec{Device: "/dev/disk/by-id/x"}, []string{"sda", "sdb"}, "/dev/sda\n/dev/sdb", "", "/dev/sda",
		},
		"by a link of the UUID": {
			Spec{Device: "/dev/disk/by-uuid/" + uuid}, []string{"sda", "sdb"}, "/dev/sda\n/dev/sdb", "", "/dev/sda /dev/sdb",
		},
		"by a label": {
			Spec{Device: "/dev/disk/by-label/kube-etcd"}, []string{"sda", "sdb"}, "/dev/sda\n/dev/sdb", "", "/dev/sda /dev/sdb",
		},
		"by a partition": {
			Spec{Device: "/dev/disk/by-partuuid/x"}, []string{"sda", "sdb"}, "/dev/sda\n/dev/sdb", "", "/dev/sda /dev/sdb",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := blockTree(t, c.facts)
			for file, text := range map[string]string{"devices": c.devices, "placed": c.placed} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c.spec.MountPath = "/srv/etcd"
			script := c.spec.leaving(nil) + host.Assignments(map[string]string{"scratch": dir}) + findStandIns +
				"find_volume || true\necho $volume $copies\n(one_volume) || echo refused\n"
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).Output()
			want := c.want + "\n"
			if strings.Contains(c.want, " ") {
				want += "refused\n"
			}
			if err != nil || string(out) != want {
				t.Errorf("%v: %q, want %q", err, out, want)
			}
		})
	}
}

// TestSearch: another path to a disk that is mounted is no volume that is not mounted.
func TestSearch(t *testing.T) {
	dir := blockTree(t, []string{
		"sda/device/wwid naa.1", "sdb/device/wwid naa.1", "sdc/holders/dm-0", "dm-0", "sdd/device/wwid naa.2",
		"sde/device/wwid naa.2", "sdf",
	})
	for file, text := range map[string]string{
		"devices": "/dev/sda\n/dev/sdb\n/dev/sdc\n/dev/dm-0\n/dev/sdd\n/dev/sde\n/dev/sdf", "mounted": "sdb\ndm-0",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script := functions + host.Assignments(map[string]string{"scratch": dir}) + findStandIns + searchScript
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).CombinedOutput()
	if err != nil || string(out) != "unmounted /dev/sdd /dev/sdd\nunmounted /dev/sdf /dev/sdf\n" {
		t.Errorf("%v: %s", err, out)
	}
}
