package soak

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// elections are how long after a machine has lost its power the others have elected: zero if they have not.
type elections struct {
	address time.Duration // another machine has the virtual IP
	etcd    time.Duration // the first member knows another leader
}

// electionsAfter reads the journals of the machines that survive the loss of another one at a time.
func (s *site) electionsAfter(ctx context.Context, cut time.Time, victim string) (elections, error) {
	three := slices.DeleteFunc(s.three(), func(m *lab.Machine) bool { return m.Name == victim })
	since := strconv.FormatInt(cut.Unix(), 10)
	printed, err := three.each(ctx, with(map[string]string{"since": since}, electionsScript))
	if err != nil {
		return elections{}, err
	}
	var all elections
	for name, text := range printed {
		one, err := parseElections(cut, text)
		if err != nil {
			return elections{}, fmt.Errorf("read the elections on %s: %w", name, err)
		}
		all.address, all.etcd = earlier(all.address, one.address), earlier(all.etcd, one.etcd)
	}
	return all, nil
}

// parseElections parses the output of elections.sh. What is older than the cut, which has a fraction of a second,
// does not count.
func parseElections(cut time.Time, text string) (elections, error) {
	var e elections
	for line := range strings.Lines(text) {
		word, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			return elections{}, err
		}
		after := time.UnixMicro(int64(seconds * 1e6)).Sub(cut)
		switch {
		case after <= 0:
		case word == "address":
			e.address = earlier(e.address, after)
		case word == "etcd":
			e.etcd = earlier(e.etcd, after)
		default:
			return elections{}, fmt.Errorf("unexpected line %q", line)
		}
	}
	return e, nil
}

// earlier returns the shorter of two times, of which zero means that there is none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
