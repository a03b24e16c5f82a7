package membership

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// NewToken returns the initial-cluster-token of a cluster that is being bootstrapped. etcd
// derives member IDs and the cluster ID from it (membership.computeMemberID,
// RaftCluster.genID), so a cluster that is bootstrapped again under the same bundle shares
// no identity with the earlier one: their members refuse each other.
func NewToken(clusterID string) string {
	nonce := make([]byte, 8)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return clusterID + "-" + hex.EncodeToString(nonce)
}

// StaticMemberID returns the ID that etcd assigns to a member of a static bootstrap: a
// hash of its peer URL and the cluster token (server/etcdserver/api/membership
// computeMemberID, without a time).
func StaticMemberID(peerURL, token string) uint64 {
	sum := sha1.Sum([]byte(peerURL + token)) //nolint:gosec // etcd's choice
	return binary.BigEndian.Uint64(sum[:8])
}

// StaticClusterID returns the ID that etcd assigns to a cluster of a static bootstrap: a
// hash of its members' IDs (RaftCluster.genID).
func StaticClusterID(peerURLs []string, token string) uint64 {
	var ids []uint64
	for _, u := range peerURLs {
		ids = append(ids, StaticMemberID(u, token))
	}
	slices.Sort(ids)
	var b []byte
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	sum := sha1.Sum(b) //nolint:gosec // etcd's choice
	return binary.BigEndian.Uint64(sum[:8])
}

// ErrSplit means that members under one bundle serve different clusters.
var ErrSplit = errors.New("the members do not belong to one etcd cluster")

// DescribeSplit describes which addresses serve which cluster, if there is more than one.
// Otherwise it returns "".
func DescribeSplit(ids map[string]uint64) string {
	byID := map[uint64][]string{}
	for _, address := range slices.Sorted(maps.Keys(ids)) {
		byID[ids[address]] = append(byID[ids[address]], address)
	}
	if len(byID) < 2 {
		return ""
	}
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		parts = append(parts, fmt.Sprintf("cluster %x is served at %s", id, strings.Join(byID[id], ", ")))
	}
	return ErrSplit.Error() + ": " + strings.Join(parts, "; ")
}

// ParseID parses an ID of etcd in hexadecimal; it returns 0 for an invalid one.
func ParseID(text string) uint64 {
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return id
}

// RequireOneCluster returns an error if more than one cluster is served under the bundle.
func RequireOneCluster(ids map[string]uint64) error {
	cause := DescribeSplit(ids)
	if cause == "" {
		return nil
	}
	return &problem.Problem{
		Summary: "Two etcd clusters under one PKI bundle", Err: ErrSplit, Unchanged: problem.Nothing, Cause: cause,
		Next: "determine which cluster the API servers use and which one has the data that you need (run etcdctl endpoint " +
			"status and etcdctl snapshot save on each); then stop etcd on the machines of the other cluster, " +
			"move their data directories and /etc/etcd away, and apply again",
	}
}
