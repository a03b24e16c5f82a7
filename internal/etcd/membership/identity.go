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

// NewToken is the initial-cluster-token of a cluster that is founded. Member ids
// and the cluster id follow from it (membership.computeMemberID, RaftCluster.genID),
// so a cluster that is founded again under the same bundle shares no identity with
// the earlier one: its members refuse each other.
func NewToken(clusterID string) string {
	nonce := make([]byte, 8)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	return clusterID + "-" + hex.EncodeToString(nonce)
}

// StaticMemberID is the id that etcd gives a member of a static bootstrap: a
// hash of its peer URL and the cluster token (server/etcdserver/api/membership
// computeMemberID, with no time mixed in).
func StaticMemberID(peerURL, token string) uint64 {
	sum := sha1.Sum([]byte(peerURL + token)) //nolint:gosec // etcd's choice
	return binary.BigEndian.Uint64(sum[:8])
}

// StaticClusterID is the id that etcd gives a cluster of a static bootstrap: a hash
// of its members' ids (RaftCluster.genID).
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

// ErrSplit: members under one bundle serve different clusters.
var ErrSplit = errors.New("the members do not belong to one etcd cluster")

// DescribeSplit says in words which addresses serve which cluster, where there is more
// than one, or "".
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

// ParseID reads an id of etcd in hexadecimal; 0 where it is none.
func ParseID(text string) uint64 {
	id, err := strconv.ParseUint(text, 16, 64)
	if err != nil {
		return 0
	}
	return id
}

// RequireOneCluster refuses to go on where more than one cluster is served under the bundle.
func RequireOneCluster(ids map[string]uint64) error {
	cause := DescribeSplit(ids)
	if cause == "" {
		return nil
	}
	return &problem.Problem{
		Summary: "Two etcd clusters under one PKI bundle", Err: ErrSplit, Unchanged: problem.Nothing, Cause: cause,
		Next: "find out which of them the API servers use and which holds what is needed (etcdctl endpoint status, etcdctl snapshot save on each); " +
			"then stop etcd on the machines of the other one, move their data directories and /etc/etcd away, and apply again",
	}
}
