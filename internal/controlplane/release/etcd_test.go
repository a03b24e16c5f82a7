package release

import (
	"strings"
	"testing"
)

func TestValidateEtcd(t *testing.T) {
	for _, c := range []struct{ kubernetes, etcd, want string }{
		{"1.32.13", "3.5.24", ""},
		{"1.33.0", "3.5.35", ""},
		{"1.34.4", "3.5.35", ""},
		{"1.34.4", "3.6.16", ""},
		{"1.36.3", "3.5.24", ""},
		{"1.36.3", "3.6.8", ""},
		{"1.36.3", "3.7.3", ""},
		{"1.32.13", "3.5.23", "etcd 3.5.23 is too old for Kubernetes 1.32.13, which needs 3.5.24 or later"},
		{"1.36.3", "3.5.9", "upgrade etcd first"},
		{"1.34.4", "3.4.40", "3.5.24 or later"},
		{"1.34.4", "3.6", "malformed version"},
		{"1.34.4", "", "malformed version"},
		{"1.31.4", "3.6.16", "unknown Kubernetes version"},
		{"1.34", "3.6.16", "malformed Kubernetes version"},
	} {
		err := ValidateEtcd(c.kubernetes, c.etcd)
		if got := message(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("Kubernetes %s with etcd %s: %q, want %q", c.kubernetes, c.etcd, got, c.want)
		}
	}
}

func TestOldestEtcdOfEveryMinor(t *testing.T) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		if _, ok := oldestEtcd[minor]; !ok {
			t.Errorf("which etcd 1.%d needs is not known", minor)
		}
	}
}
