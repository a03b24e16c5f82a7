package soak

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// restart is the time during which one member is out of service: from when it was told to stop,
// or ended, until it served again.
type restart struct {
	machine  string
	from, to float64 // seconds since the epoch: machines of a lab share one clock
}

func (r restart) String() string {
	return fmt.Sprintf("%s for %.1f s", r.machine, r.to-r.from)
}

// restarts returns every restart of a member, from the journals of the machines. A restart
// requires the same member before and after. since is a time before the first start of any
// member.
func (f fleet) restarts(ctx context.Context, since time.Time) ([]restart, error) {
	printed, err := f.each(ctx, with(map[string]string{"since": strconv.FormatInt(since.Unix(), 10)}, restartsScript))
	if err != nil {
		return nil, fmt.Errorf("read the journals of etcd: %w", err)
	}
	var all []restart
	for _, m := range f {
		parsed, err := parseRestarts(m.Name, printed[m.Name])
		if err != nil {
			return nil, fmt.Errorf("read the journal of etcd on %s: %w", m.Name, err)
		}
		all = append(all, parsed...)
	}
	slices.SortFunc(all, func(a, b restart) int { return cmp.Compare(a.from, b.from) })
	return all, nil
}

var memberID = regexp.MustCompile(`"local-member-id":"([0-9a-f]+)"`)

// parseRestarts parses one machine's journal. If a member left for good and another one later
// joined on the same machine, that is not a restart: their IDs differ, or the first one started
// before the journal was read.
func parseRestarts(machine, journal string) ([]restart, error) {
	var all []restart
	var down float64         // when the member stopped; 0: it serves
	var before, after string // IDs, as far as the journal contains them
	for lines := bufio.NewScanner(strings.NewReader(journal)); lines.Scan(); {
		text, rest, _ := strings.Cut(lines.Text(), " ")
		at, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("malformed line %q", lines.Text())
		}
		id := memberID.FindStringSubmatch(rest)
		switch {
		case id != nil:
			after = id[1]
		case !strings.Contains(rest, ": Started "):
			if down == 0 {
				down, before = at, after
			}
		case down > 0:
			if before == "" || before == after {
				all = append(all, restart{machine, down, at})
			}
			down = 0
		}
	}
	return all, nil
}

// overlaps describes the restarts that began before another machine's restart had ended.
func overlaps(all []restart) []string {
	var texts []string
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.machine != b.machine && b.from < a.to {
				texts = append(texts, fmt.Sprintf("%s and %s, %.1f s at once", a, b, min(a.to, b.to)-b.from))
			}
		}
	}
	return texts
}
