package load

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestSummary: the figures that are kept in a file, written and read again.
func TestSummary(t *testing.T) {
	r := good()
	r.Clients[0].All.Failed, r.Clients[0].All.Refused, r.Clients[1].All.Repeated = 3, 2, 1
	r.Late = time.Millisecond
	r.Clients[1].Lost = []string{"x"}
	r.Etcd.Writes = Requests{Tried: 50, Failed: 4, Excused: 4}
	r.Watches[0].Openings = Requests{Tried: 3, Failed: 1, Refused: 1}
	r.Watches[0].Missed, r.Watches[0].Failed, r.Watches[0].Gap.Length = []string{"x"}, 2, time.Second
	s := r.Summary()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read Summary
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, s) {
		t.Errorf("%v: %+v, want %+v", err, read, s)
	}
	if got := s.Requests(); got.Tried != 200 || got.Failed != 3 || got.Refused != 2 || got.Repeated != 1 {
		t.Errorf("requests: %s", got)
	}
	if s.Late != r.Late || s.Acknowledged != 150 || s.Lost != 1 || s.WrongEvents != 1 || s.WatchErrors != 2 ||
		s.WatchGap.Length != time.Second || s.EtcdWrites.Excused != 4 || s.WatchOpenings.Refused != 1 || !s.MembersAgree {
		t.Errorf("%+v", s)
	}
	for _, key := range []string{`"tried":`, `"failed":`, `"excused":`, `"repeated":`, `"refused":`, `"etcd_writes":`} {
		if !strings.Contains(string(text), key) {
			t.Errorf("the JSON has no %s:\n%s", key, text)
		}
	}
}
