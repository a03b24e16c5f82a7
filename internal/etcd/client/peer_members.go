package client

import (
	"context"
	"encoding/json"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// listedMember is a member in the answer of /members (server/etcdserver/api/etcdhttp/peer.go).
type listedMember struct {
	ID         uint64   `json:"id"`
	Name       string   `json:"name"`
	PeerURLs   []string `json:"peerURLs"`
	ClientURLs []string `json:"clientURLs"`
	Learner    bool     `json:"isLearner"`
}

// PeerMembers returns the member list that the member at an address has in memory, as it tells its peers. A member
// that was started without a quorum answers no client, and answers this. It is no proof of a quorum. The ID of the
// cluster is not part of it.
func (c *Clients) PeerMembers(ctx context.Context, address string) (membership.View, error) {
	text, err := c.get(ctx, address, membership.PeerURL(address)+"/members", maxAnswer)
	if err != nil {
		return membership.View{}, err
	}
	var listed []listedMember
	if err := json.Unmarshal(text, &listed); err != nil {
		return membership.View{}, fmt.Errorf("read the member list of the peer %s: %w", address, err)
	}
	var members []*pb.Member
	for _, m := range listed {
		members = append(members, &pb.Member{
			ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.Learner,
		})
	}
	return viewOf(0, members), nil
}
