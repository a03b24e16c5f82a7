package lab

import (
	"context"
	"errors"
	"fmt"
)

// Shape makes the machine's cable a slow one: what comes to it comes at a rate
// ("50mbit", as tc writes it). "" makes it a fast one again.
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
