package host

import (
	"encoding/base64"
	"reflect"
	"testing"
)

func TestReadProcesses(t *testing.T) {
	line := base64.StdEncoding.EncodeToString(
		[]byte("/opt/kube/etcd/3.6.16/etcd\x00--name=cp1\x00--client-cert-auth\x00--experimental=a=b\x00"))
	got := ReadProcesses("something else\n" +
		"process\tetcd.service\t4294967296\tinfinity\t" + line +
		"\tMemoryMin=0 MemoryLow=1048576 CPUWeight=200 IOWeight=[not set] \n" +
		"process\tkube-scheduler.service\tinfinity\t1.500000s\t\tMemoryMin=-1 MemoryLow=$(id) CPUWeight=007 IOWeight=50\n" +
		"process\tcut off\n")
	want := map[string]Process{
		"etcd.service": {
			Running: true, MemoryMax: "4294967296", MemoryMin: "1048576", CPUWeight: "200",
			Flags: map[string]string{"name": "cp1", "client-cert-auth": "", "experimental": "a=b"},
		},
		"kube-scheduler.service": {Flags: map[string]string{}, CPUQuota: "1.500000s", IOWeight: "50"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
