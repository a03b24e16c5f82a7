package client

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
)

func TestDiffering(t *testing.T) {
	members := membershiptest.ClusterOf("Lhh").Members
	if text := differences(members, []dataHash{{4, 7}, {4, 7}, {4, 7}}); text != "" {
		t.Errorf("equal data differs: %s", text)
	}
	if text := differences(members, []dataHash{{4, 7}, {4, 7}, {4, 8}}); !strings.Contains(text, "cp3 has hash 8") {
		t.Errorf("differing data: %q", text)
	}
}
