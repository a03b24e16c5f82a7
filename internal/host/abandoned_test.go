package host

import (
	"errors"
	"fmt"
	"testing"
)

func TestAbandoned(t *testing.T) {
	lost := fmt.Errorf("dial: %w", ErrUnreachable)
	abandoned := AbandonedAt("10.0.0.12", "fd00::12")
	for _, c := range []struct {
		name    string
		address string
		err     error
		want    bool
	}{
		{"unreachable", "10.0.0.12", lost, true},
		{"unreachable, IPv6", "fd00::12", lost, true},
		{"another machine", "10.0.0.1", lost, false},
		{"reached", "10.0.0.12", nil, false},
		{"host key", "10.0.0.12", &HostKeyError{Address: "10.0.0.12"}, false},
		{"authentication", "10.0.0.12", fmt.Errorf("dial: %w", ErrAuth), false},
		{"no root", "10.0.0.12", fmt.Errorf("dial: %w", ErrNotRoot), false},
		{"settings that are not known yet", "10.0.0.12", fmt.Errorf("dial: %w", ErrPending), false},
		{"a lease of a machine that hangs", "10.0.0.12", fmt.Errorf("%w: %w", errLeaseTimeout, ErrNoAnswer), false},
		{"a lease without a connection", "10.0.0.12", errLeaseTimeout, true},
		{"a failed command", "10.0.0.12", &ExitError{Code: 1}, false},
		{"unreachable, and a host key on the way", "10.0.0.12", errors.Join(lost, &HostKeyError{Address: "jump"}), false},
	} {
		if got := abandoned.Covers(c.address, c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if Abandoned(nil).Covers("10.0.0.12", lost) {
		t.Error("nothing is given up where nothing is named")
	}
	if got, want := AbandonRemedy("10.0.0.12", "10.0.0.13"),
		`add "10.0.0.12", "10.0.0.13" to abandon_unreachable_hosts of the provider`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
