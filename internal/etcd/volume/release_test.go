package volume

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// releaseStandIns replace what the scripts do with devices and mounts. The volume is mounted while the file mounted
// exists; umount fails while the file busy exists, and once if the file briefly does. The file used has the mounts in
// other mount namespaces. While the volume is not mounted, its name is also that of a copy.
const releaseStandIns host.Script = `
find_volume() { if in_place; then volume=/dev/sdb; else volume=/dev/sdc; fi; }
in_place() { [ -e "$scratch/mounted" ]; }
users_of_volume() { [ ! -e "$scratch/used" ] || cat "$scratch/used"; }
mount_volume() { [ "$volume" = /dev/sdb ] && : >"$scratch/mounted"; }
umount() {
  [ ! -e "$scratch/busy" ] || return 32
  if [ -e "$scratch/briefly" ]; then rm "$scratch/briefly"; return 32; fi
  rm "$scratch/mounted"
}
systemctl() { umount || true; }
sleep() { :; }
`

// TestRelease: a volume that a process has mounted after it was unmounted here, or that cannot be unmounted, is not
// released, and the next attempt finds it as it was. One that would stay mounted is refused before anything stops.
func TestRelease(t *testing.T) {
	const slave, private, elsewhere = "4711 /srv rw master:1 - ext4", "4711 /srv rw - ext4", "here /mnt rw shared:1 - ext4"
	for name, c := range map[string]struct {
		script     host.Script
		unmounted  bool // before
		file, text string
		state      State
		want       string // in the message; "": it succeeds
		left       State  // what the volume says afterwards
	}{
		"unmounted":                   {releaseScript, false, "", "", Released, "", Released},
		"busy for a moment":           {releaseScript, false, "briefly", "", Released, "", Released},
		"busy":                        {releaseScript, false, "busy", "", Released, "have files on it open", Member},
		"in another namespace":        {releaseScript, false, "used", slave, Released, "4711 has it mounted at /srv", Member},
		"at another place":            {releaseScript, false, "used", elsewhere, Released, "also mounted at /mnt", Member},
		"of a member that left":       {releaseScript, false, "used", slave, Removed, "has it mounted at /srv", Removed},
		"a member that left":          {releaseScript, false, "", "", Removed, "", Removed},
		"busy, a member that left":    {releaseScript, false, "busy", "", Removed, "have files on it open", Removed},
		"cut off while it was in use": {releaseScript, true, "used", slave, Released, "has it mounted at /srv", Member},
		"cut off at the end":          {releaseScript, true, "", "", Released, "", Member},
		"would stay mounted":          {stageScript, false, "used", private, Released, "4711 has it mounted at", Member},
		"stays at another place":      {stageScript, false, "used", elsewhere, Released, "also mounted at /mnt", Member},
		"goes with the machine's":     {stageScript, false, "used", slave, Released, "", Member},
		"is not mounted":              {stageScript, true, "used", private, Released, "", Member},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Spec{Device: "/dev/sdb", MountPath: filepath.Join(dir, "volume")}
			at := filepath.Join(s.MountPath, IdentityFile)
			files := map[string]string{"volume/" + IdentityFile: identity(here, Member).text()}
			if !c.unmounted {
				files["mounted"] = ""
			}
			if c.file != "" {
				files[c.file] = c.text + "\n"
			}
			if err := os.Mkdir(s.MountPath, 0o755); err != nil {
				t.Fatal(err)
			}
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			left := identity(here, c.state)
			script := s.leaving(left) + host.Assignments(map[string]string{"scratch": dir}) + releaseStandIns + c.script
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).CombinedOutput()
			if (err == nil) != (c.want == "") || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
			_, mounted := os.Stat(filepath.Join(dir, "mounted"))
			if stays := c.want != "" || c.script == stageScript; (mounted == nil) != (stays && !c.unmounted) {
				t.Errorf("mounted: %v", mounted)
			}
			text, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			if i, err := ReadIdentity(string(text)); err != nil || i.State != c.left {
				t.Errorf("the volume says %+v, %v, want %s", i, err, c.left)
			}
		})
	}
}

// TestUsersOfVolume: the mounts in other mount namespaces are those of processes that have one of their own.
func TestUsersOfVolume(t *testing.T) {
	infos, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	holder := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-c",
		"echo; exec sleep 60")
	begun, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		testrun.Missing(t, err)
	}
	defer func() { _ = holder.Process.Kill(); _ = holder.Wait() }()
	if _, err := begun.Read(make([]byte, 1)); err != nil {
		testrun.Missing(t, "no mount namespace can be made: ", err)
	}
	script := Spec{Device: "/dev/sdb", MountPath: "/srv"}.leaving(nil) + "volume=/dev/sdb\nnumber_of() { echo " +
		host.Script(strings.Fields(string(infos))[2]) + "; }\n"
	for _, function := range []host.Script{"users_of_volume", "users_of_volume | grep -c .", "stuck_on_volume"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script+function)).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", function, err, out)
		}
		if function == "users_of_volume" && !strings.Contains(string(out), fmt.Sprintf("%d /", holder.Process.Pid)) {
			t.Errorf("%s is not among %s", fmt.Sprint(holder.Process.Pid), out)
		}
		if strings.Contains(string(out), fmt.Sprintf("%d ", os.Getpid())) {
			t.Errorf("a process of this mount namespace is among %s", out)
		}
	}
}
