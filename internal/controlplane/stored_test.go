package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// pages is a store with the values of each prefix. It ends as etcd's client does when its context
// ends.
type pages map[string][]string

func (p pages) Scan(ctx context.Context, prefix string, see func(key string, value []byte)) error {
	values, known := p[prefix]
	if !known {
		return fmt.Errorf("no prefix %s", prefix)
	}
	for i, value := range values {
		if err := ctx.Err(); err != nil && i%500 == 0 {
			return err
		}
		see(fmt.Sprint(i), []byte(value))
	}
	return nil
}

func TestCountStored(t *testing.T) {
	e := cptest.Secretbox("key1", "secrets")
	store := pages{"/registry/secrets/": {
		"k8s:enc:secretbox:v1:key1:xx", "k8s:enc:secretbox:v1:key1:yy", "k8s:enc:secretbox:v1:key0:xx", "k8s\x00xx",
		"k8s:enc:aescbc:v1:key1:xx",
	}}
	got, err := CountStored(t.Context(), store, e, nil)
	if want := (Stored{Objects: 5, Clear: 1, Other: 2}); err != nil || len(got) != 1 || got["secrets"] != want {
		t.Errorf("%+v, %v", got, err)
	}
	elsewhere := []MachineReview{{Processes: map[string]host.Process{
		release.APIServer: {Flags: map[string]string{"etcd-prefix": "/other/../prod"}},
	}}, {}}
	got, err = CountStored(t.Context(), pages{"/prod/secrets/": {"in the clear"}}, e, elsewhere)
	if err != nil || got["secrets"].Clear != 1 {
		t.Errorf("below another prefix: %+v, %v", got, err)
	}
	_, err = CountStored(t.Context(), pages{}, e, nil)
	if err == nil || !strings.Contains(err.Error(), "how etcd stores secrets") {
		t.Errorf("a store that does not answer: %v", err)
	}
	many := make([]string, mostStored+600)
	got, err = CountStored(t.Context(), pages{"/registry/secrets/": many}, e, nil)
	if err != nil || got["secrets"].Objects != mostStored || !got["secrets"].Partly {
		t.Errorf("of many: %+v, %v", got, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := CountStored(ended, store, e, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
}
