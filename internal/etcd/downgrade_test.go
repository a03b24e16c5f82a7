package etcd

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
)

func TestNotConverted(t *testing.T) {
	v := membershiptest.ClusterOf("Lhhh")
	v.Members[0].Storage, v.Members[1].Storage, v.Members[2].Storage = "3.6", "3.5", "3.6"
	for agreed, want := range map[string]string{
		"3.6": "the cluster version is still 3.6, wanted 3.5",
		"3.5": "members have not converted their data to version 3.5: cp1 has data of version 3.6, " +
			"cp3 has data of version 3.6",
	} {
		if got := notConverted(v, agreed, "3.5").Error(); got != want {
			t.Errorf("%s: %s", agreed, got)
		}
	}
}
