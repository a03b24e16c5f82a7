package host

import (
	"reflect"
	"testing"
	"time"
)

func TestReadClients(t *testing.T) {
	got, known := ReadClients("something else\n" +
		"client\t10259\t0      0      [::ffff:127.0.0.1]:10259 [::ffff:127.0.0.1]:40000 " +
		`users:(("kube-scheduler",pid=7,fd=8)) cubic lastsnd:8 lastrcv:1500 lastack:8` + "\n" +
		"client\t10259\t0 0 10.0.0.11:10259 10.0.0.9:40001 users:((\"kube-scheduler\",pid=7,fd=9)) cubic\n" +
		"client\t10259\t0 0 127.0.0.1%lo:10259 127.0.0.1:40002 cubic lastrcv:61000\n" +
		"client\t10259\t0 0 [fd00::11]:10259 [fd00::9]:40003 lastrcv:2\n" +
		"client\t10259\t0 0 10.0.0.11:6443 10.0.0.9:40001 lastrcv:5\n" +
		"client\tmany\t0 0 10.0.0.11:6443 10.0.0.9:40001 lastrcv:5\n" +
		"client\t10259\t0 0 $(id):10259 10.0.0.9:1 lastrcv:5\nclient\t10259\tcut off\nclient\n" +
		"end\t10259\t0 0 127.0.0.1:40000 127.0.0.1:10259 " + `users:(("prometheus",pid=9,fd=1))` + "\n" +
		"end\t10259\t0 0 127.0.0.1:40002 127.0.0.1:10259 " + `users:(("$(id)",pid=9,fd=1))` + "\n")
	want := []Client{
		{Port: 10259, Address: "127.0.0.1", Process: "prometheus", Ago: 1500 * time.Millisecond},
		{Port: 10259, Address: "10.0.0.9"},
		{Port: 10259, Address: "127.0.0.1", Ago: 61 * time.Second},
		{Port: 10259, Address: "fd00::9", Ago: 2 * time.Millisecond},
	}
	if !known || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %+v, want %+v", known, got, want)
	}
	if _, known := ReadClients("clients\tnone\n"); known {
		t.Error("a machine without ss knows who is connected")
	}
}

func FuzzReadClients(f *testing.F) {
	f.Add("client\t1\t0 0 [::1]:1 [::1]:2 lastrcv:999999999999\nend\t1\t0 0 [::1]:2 [::1]:1 users:((\"a\"\n")
	f.Add("client\t1\t0 0 [fe80::1%lo]:1 fe80::1%lo:2 lastrcv:9\n")
	f.Fuzz(func(t *testing.T, output string) {
		all, _ := ReadClients(output)
		if len(all) > mostClients {
			t.Errorf("%d clients", len(all))
		}
		for _, c := range all {
			if c.Ago < 0 || c.Port < 0 || c.Port > 65535 || c.Address == "" {
				t.Errorf("%+v", c)
			}
		}
	})
}
