package drill

import (
	"errors"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// TestFinish: whatever the clocks of those who run drills say, the record of one can be read.
func TestFinish(t *testing.T) {
	broken := errors.New("the disk is full")
	for name, c := range map[string]struct {
		last, now, finished, success int64
		err                          error
	}{
		"the first one fails":                 {0, 1010, 1010, 0, broken},
		"succeeds":                            {500, 1010, 1010, 1010, nil},
		"fails":                               {500, 1010, 1010, 500, broken},
		"fails, and the last one's was ahead": {2000, 1010, 1010, 1010, broken},
		"its clock is set back":               {500, 900, 1000, 500, broken},
	} {
		r := snapshot.Drill{Started: 1000, LastSuccess: c.last, Source: "newest"}
		finish(&r, c.now, c.err)
		if r.Finished != c.finished || r.LastSuccess != c.success || r.Succeeded != (c.err == nil) {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := snapshot.ReadDrill(string(r.File().Content)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
