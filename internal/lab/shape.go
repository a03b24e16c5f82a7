package lab

import (
	"context"
	"errors"
	"fmt"
)

// Shape limits the rate at which the machine receives ("50mbit", in tc's notation).
// "" removes the limit.
func (m *Machine) Shape(ctx context.Context, rate string) error {
	args := []string{"qdisc", "replace", "dev", m.Name, "root", "tbf", "rate", rate, "burst", "128kb", "latency", "100ms"}
	if rate == "" {
		args = []string{"qdisc", "delete", "dev", m.Name, "root"}
	}
	out, err := m.lab.Command(ctx, "tc", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("shape the cable of %s: %w", m.Name, errors.Join(err, errors.New(string(out))))
	}
	return nil
}
