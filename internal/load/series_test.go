package load

import (
	"reflect"
	"testing"
	"time"
)

func TestSeries(t *testing.T) {
	var s Series
	var last time.Duration
	for _, request := range []struct {
		at time.Duration
		ok bool
	}{
		{400 * time.Millisecond, true}, // the time before the first success is not a gap
		{450 * time.Millisecond, true},
		{500 * time.Millisecond, false},
		{1700 * time.Millisecond, true},
		{1800 * time.Millisecond, true},
	} {
		s.count(request.at, last, request.ok)
		if request.ok {
			last = request.at
		}
	}
	want := Series{
		Succeeded: []int{2, 0, 0, 2}, Failed: []int{0, 1, 0, 0},
		Gaps: []Gap{{At: 450 * time.Millisecond, Length: 1250 * time.Millisecond}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want %+v", s, want)
	}
}
