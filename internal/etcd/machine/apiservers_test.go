package machine

import (
	"slices"
	"testing"
)

func TestReadAPIServers(t *testing.T) {
	const prefix = "/registry/masterleases/"
	got := ReadAPIServers(""+
		"/registry/masterleases/10.0.0.11\n\n/registry/masterleases/fd00::0011\n"+
		"/registry/masterleases/$(reboot)\n/registry/other/10.0.0.12\n/registry/masterleases/fe80::1%eth0\n"+
		"10.0.0.13\n", prefix)
	if want := []string{"10.0.0.11", "fd00::11"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := ReadAPIServers("", prefix); len(got) > 0 {
		t.Errorf("no answer gives %v", got)
	}
}
