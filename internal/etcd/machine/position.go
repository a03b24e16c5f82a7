package machine

import (
	"context"
	"errors"
	"regexp"
	"strconv"
)

// longestMetrics is about ten times what etcd prints.
const longestMetrics = 4 << 20

// The gauges of etcd that say how much of the cluster's log a member has (server/etcdserver/metrics.go and
// server/storage/mvcc/metrics.go).
var (
	indexGauge    = regexp.MustCompile(`(?m)^etcd_server_proposals_(?:committed|applied)_total (\S{1,30})$`)
	revisionGauge = regexp.MustCompile(`(?m)^etcd_debugging_mvcc_current_revision (\S{1,30})$`)
)

// LocalPosition returns the index of the last entry that the member on a machine knows to be committed, and its
// revision, as its metrics say on the machine itself. A member that was started without a quorum answers no client
// before it has one (StartEtcd in server/embed), but prints these.
func LocalPosition(ctx context.Context, m Machine) (index uint64, revision int64, err error) {
	text, err := getLocally(ctx, m, "/metrics", longestMetrics)
	if err != nil {
		return 0, 0, err
	}
	return readPosition(string(text))
}

// readPosition reads the gauges. After a start, one of the two indexes may be 0 until the cluster goes on.
func readPosition(text string) (index uint64, revision int64, err error) {
	for _, gauge := range indexGauge.FindAllStringSubmatch(text, -1) {
		index = max(index, wholeNumber(gauge[1]))
	}
	if gauge := revisionGauge.FindStringSubmatch(text); gauge != nil {
		revision = int64(wholeNumber(gauge[1]))
	}
	if index == 0 || revision == 0 {
		return 0, 0, errors.New("its metrics do not say how much of the log it has")
	}
	return index, revision, nil
}

// wholeNumber returns a value as Prometheus prints it; 0 if it is not a whole number that a float64 holds exactly.
func wholeNumber(text string) uint64 {
	const most = 1 << 53
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0 && value < most) || value != float64(uint64(value)) {
		return 0
	}
	return uint64(value)
}
