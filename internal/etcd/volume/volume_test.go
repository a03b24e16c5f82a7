package volume

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestValidate(t *testing.T) {
	for device, ok := range map[string]bool{
		"/dev/sdb": true, "/dev/disk/by-id/scsi-0QEMU_etcd-1": true, "/dev/mapper/vg-etcd": true,
		"sdb": false, "/dev": false, "/dev/": false, "/dev/../etc/passwd": false, "/dev/a b": false, "/dev//a": false,
		"/srv/disk": false, "/dev/$(x)": false, "/dev/.a": false,
	} {
		if err := ValidateDevice(device); (err == nil) != ok {
			t.Errorf("device %q: %v", device, err)
		}
	}
	for at, ok := range map[string]bool{
		"/var/lib/etcd-volume": true, "/srv/etcd": true, "/mnt/a.b_c": true,
		"/srv": false, "/var/lib": false, "/etc/etcd": false, "/dev/x": false, "/run/x": false, "/srv/../x": false,
		"/srv/a b": false, "srv/a": false, "/srv/a/": false, "/usr/lib/x": false, "/var/log/x": false,
	} {
		if err := ValidateMountPath(at); (err == nil) != ok {
			t.Errorf("mount path %q: %v", at, err)
		}
	}
	for uuid, ok := range map[string]bool{
		"d0e4ab54-bc59-43d3-93f5-d30cc7d908ad": true, "D0E4AB54-BC59-43D3-93F5-D30CC7D908AD": false, "": false,
		"d0e4ab54bc5943d393f5d30cc7d908ad": false,
	} {
		if err := ValidateUUID(uuid); (err == nil) != ok {
			t.Errorf("uuid %q: %v", uuid, err)
		}
	}
	for _, c := range []struct {
		s    Spec
		data string
		ok   bool
	}{
		{Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}, "/srv/etcd/data", true},
		{Spec{UUID: "x", MountPath: "/srv/etcd"}, "/srv/etcd/data", true},
		{Spec{MountPath: "/srv/etcd"}, "/srv/etcd/data", false},
		{Spec{Device: "/dev/sdb", UUID: "x", MountPath: "/srv/etcd"}, "/srv/etcd/data", false},
		{Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}, "/srv/etcd", false},
		{Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}, "/srv/etcd2/data", false},
	} {
		if err := c.s.Validate(c.data); (err == nil) != c.ok {
			t.Errorf("%+v with %s: %v", c.s, c.data, err)
		}
	}
}

func TestCheckRecorded(t *testing.T) {
	good := Spec{Device: "/dev/sdb", UUID: "d0e4ab54-bc59-43d3-93f5-d30cc7d908ad", MountPath: "/srv/etcd"}
	if err := good.CheckRecorded(); err != nil {
		t.Error(err)
	}
	for _, bad := range []func(*Spec){
		func(s *Spec) { s.Device = "/etc/passwd" }, func(s *Spec) { s.UUID = "x" }, func(s *Spec) { s.MountPath = "/" },
	} {
		s := good
		if bad(&s); s.CheckRecorded() == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

func TestIdentityIsReadBack(t *testing.T) {
	want := *identity(here, Released)
	want.Name = "cp1.example.com"
	got, err := ReadIdentity(string(want.Content()))
	if err != nil || !got.Same(want) || !got.Has() {
		t.Fatalf("%+v, %v", got, err)
	}
	later := want
	later.MountedAt = later.MountedAt.AddDate(1, 0, 0)
	if !got.Same(later) {
		t.Error("the time makes a difference")
	}
	removed, none := *identity(here, Removed), *identity(here, Member)
	if none.MemberID = ""; removed.Has() || none.Has() || removed.Same(want) {
		t.Error("a member that left, or that never was, is on the volume")
	}
	for name, change := range map[string]func(*Identity){
		"cluster_id": func(i *Identity) { i.ClusterID = "" }, "name": func(i *Identity) { i.Name = "a b" },
		"member_id": func(i *Identity) { i.MemberID = "xyz" }, "etcd_cluster_id": func(i *Identity) { i.EtcdCluster = "-" },
		"machine_id": func(i *Identity) { i.MachineID = "1" }, "state": func(i *Identity) { i.State = "x" },
		"restored": func(i *Identity) { i.Restored = "a/b" }, "cluster_name": func(i *Identity) { i.ClusterName = "\x1b" },
	} {
		bad := want
		change(&bad)
		if _, err := ReadIdentity(string(bad.Content())); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, text := range []string{"", "{", "[]", strings.Repeat(" ", longestIdentity) + string(want.Content())} {
		if _, err := ReadIdentity(text); err == nil {
			t.Errorf("%.20q is accepted", text)
		}
	}
}

func TestRead(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString(identity(here, Member).Content())
	o := Read("calendar\nvolume at 8:16 rw,noatime\nvolume device /dev/sdb\nvolume number 8:16\nvolume size 1000\n" +
		"volume kind ext4\nvolume uuid d0e4ab54-bc59-43d3-93f5-d30cc7d908ad\nvolume damaged\nvolume readable\n" +
		"volume identity " + encoded + "\nvolume used 900\n")
	if !o.InPlace() || o.ReadOnly || o.Size != 1000 || o.Used != 900 || o.Kind != Ext4 || !o.Readable || !o.Damaged ||
		o.Identity == nil || o.Identity.MemberID != "b" || o.UUID == "" {
		t.Errorf("%+v", o)
	}
	o = Read("volume at 8:16 ro\nvolume elsewhere /mnt\nvolume files 3\n")
	if !o.ReadOnly || o.Elsewhere != "/mnt" || o.Files != 3 {
		t.Errorf("%+v", o)
	}
	o = Read("volume device /etc/passwd\nvolume number x\nvolume size -1\nvolume kind a;b\nvolume identity !\n" +
		"volume at  \nvolume copy /dev/sdc\nvolume copy $(id)\n")
	if o.Device != "" || o.Number != "" || o.Size != 0 || o.Kind != "" || o.Identity != nil || o.IdentityErr == nil ||
		o.At != "" || !slices.Equal(o.Copies, []string{"/dev/sdc", "another disk"}) {
		t.Errorf("%+v", o)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("volume device /dev/sdb\nvolume identity e30=\n")
	f.Fuzz(func(t *testing.T, output string) {
		o := Read(output)
		badDevice := o.Device != "" && len(o.Device) <= 200 && ValidateDevice(o.Device) != nil
		if badDevice || o.Size < 0 || o.Used < 0 || o.Files < 0 {
			t.Errorf("%+v", o)
		}
		if o.Identity != nil {
			if _, err := ReadIdentity(string(o.Identity.Content())); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestFiles(t *testing.T) {
	s := Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}
	var script host.File
	for _, file := range s.Files("c1", "cp1") {
		if file.Path == ScriptPath {
			script = file
		}
	}
	for _, want := range []string{
		"#!/bin/sh -eu\n", "device=/dev/sdb\n", "mount=/srv/etcd\n", "cluster=c1\n", "name=cp1\n",
	} {
		if !strings.Contains(string(script.Content), want) {
			t.Errorf("the script lacks %q", want)
		}
	}
	// What the script looks for is what an identity says.
	text := string(identity(here, Member).Content())
	for _, line := range []string{`"cluster_id": "c1"`, `"name": "cp1"`, `"machine_id": "` + here + `"`} {
		if !strings.Contains(text, line) {
			t.Errorf("an identity lacks %s:\n%s", line, text)
		}
	}
	for state, refused := range map[State]bool{Member: false, Released: true, Removed: true} {
		if got := strings.Contains(string(identity(here, state).Content()), `"state": "re`); got != refused {
			t.Errorf("a volume that is %s is refused at boot: %v", state, got)
		}
	}
}

// TestReadUnmounted: what a machine says is accepted in one form only.
func TestReadUnmounted(t *testing.T) {
	good := identity(there, Member)
	encoded := base64.StdEncoding.EncodeToString(good.Content())
	unmounted := ReadUnmounted("unmounted /dev/sdb " + encoded + "\nunmounted /dev/sdc -\nunmounted sdd " + encoded +
		"\nunmounted /dev/sde\nother\n")
	if len(unmounted) != 1 || unmounted[0].Device != "/dev/sdb" || unmounted[0].Identity.Name != "cp1" {
		t.Errorf("unmounted %+v", unmounted)
	}
}

// FuzzReadUnmounted: what a machine says names devices, and identities that can be written again.
func FuzzReadUnmounted(f *testing.F) {
	f.Add("unmounted /dev/sdb e30=\n")
	f.Add("unmounted /dev/disk/by-id/scsi-0QEMU_etcd1 " +
		base64.StdEncoding.EncodeToString(identity(there, Member).Content()))
	f.Add("unmounted /dev/../etc/passwd e30=\nunmounted /dev/sdc\nmounted /dev/sdb e30=")
	f.Fuzz(func(t *testing.T, output string) {
		for _, u := range ReadUnmounted(output) {
			if len(u.Device) <= 200 && ValidateDevice(u.Device) != nil || !strings.Contains(output, u.Device) {
				t.Errorf("device %q", u.Device)
			}
			again, err := ReadIdentity(string(u.Identity.Content()))
			if err != nil || !again.Same(u.Identity) {
				t.Errorf("%+v is read as %+v, %v", u.Identity, again, err)
			}
		}
	})
}
