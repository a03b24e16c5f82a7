package etcd

import (
	"net/netip"
	"os"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

func TestLabUp(t *testing.T) {
	if _, err := lab.Up(t.Context(), lab.Config{Name: "etcdlab", Subnet: netip.MustParsePrefix("10.93.0.0/24"), Machines: []string{"cp1", "cp2", "cp3"}}, os.Stderr); err != nil {
		t.Fatal(err)
	}
}
