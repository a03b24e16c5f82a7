package lab

import (
	"context"
	_ "embed"
	"slices"
	"strings"
)

//go:embed fingerprint.sh
var fingerprintScript string

// Fingerprint is what an operator would call the state of the machine, a line
// for each thing. Two that are equal have nothing between them to clean up.
func (m *Machine) Fingerprint(ctx context.Context) ([]string, error) {
	out, err := m.Run(ctx, fingerprintScript)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\n"), nil
}

// Differences describes what was added and removed between two fingerprints.
func Differences(before, after []string) []string {
	var all []string
	for _, line := range after {
		if !slices.Contains(before, line) {
			all = append(all, "left: "+line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			all = append(all, "lost: "+line)
		}
	}
	return all
}
