package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errCondition = errors.New("broken")

func TestUntil(t *testing.T) {
	for name, c := range map[string]struct {
		takes     time.Duration // of one call
		met, fail int           // the call that meets the condition, or fails; 0: none
		cancel    int           // the call during which the context ends
		want      bool
		err       error
		calls     int
		after     time.Duration
	}{
		"met at once":                        {met: 1, want: true, calls: 1},
		"met later":                          {met: 3, want: true, calls: 3, after: 2 * time.Second},
		"never met":                          {calls: 11, after: 10 * time.Second},
		"an error ends it":                   {fail: 2, err: errCondition, calls: 2, after: time.Second},
		"the context ends":                   {cancel: 2, err: context.Canceled, calls: 2, after: time.Second},
		"met while the context ends":         {cancel: 2, met: 2, want: true, calls: 2, after: time.Second},
		"the interval begins after the call": {takes: 2 * time.Second, met: 3, want: true, calls: 3, after: 8 * time.Second},
		"a long call is not cut off":         {takes: time.Minute, met: 1, want: true, calls: 1, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				begun, calls := time.Now(), 0
				got, err := Until(ctx, time.Second, 10*time.Second, func() (bool, error) {
					calls++
					time.Sleep(c.takes) // of the test's own clock
					if calls == c.cancel {
						cancel()
					}
					if calls == c.fail {
						return false, errCondition
					}
					return calls == c.met, nil
				})
				if got != c.want || !errors.Is(err, c.err) || calls != c.calls || time.Since(begun) != c.after {
					t.Errorf("%t, %v, %d calls in %s, want %+v", got, err, calls, time.Since(begun), c)
				}
			})
		})
	}
}

func TestSucceed(t *testing.T) {
	for name, c := range map[string]struct {
		succeeds, cancel int // calls; 0: none
		err              []error
		calls            int
	}{
		"at once":                      {succeeds: 1, calls: 1},
		"later":                        {succeeds: 3, calls: 3},
		"the last error at the limit":  {err: []error{errCondition}, calls: 11},
		"the context ends during it":   {cancel: 2, err: []error{errCondition}, calls: 2},
		"success as the context ends":  {cancel: 2, succeeds: 2, calls: 2},
		"the context ends in between":  {cancel: -2, err: []error{errCondition, context.Canceled}, calls: 2},
		"the context has ended before": {cancel: 1, err: []error{errCondition}, calls: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				calls := 0
				err := Succeed(ctx, time.Second, 10*time.Second, func(context.Context) error {
					calls++
					switch calls {
					case c.cancel:
						cancel()
					case -c.cancel:
						time.AfterFunc(time.Millisecond, cancel)
					}
					if calls == c.succeeds {
						return nil
					}
					return errCondition
				})
				if (err == nil) != (len(c.err) == 0) || calls != c.calls {
					t.Errorf("%v after %d calls, want %+v", err, calls, c)
				}
				for _, want := range c.err {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
			})
		})
	}
}
