package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// PeerPort is the port at which members talk to each other.
const PeerPort = "2380"

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
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(RequestTimeout))
	defer cancel()
	config := c.TLS.Clone()
	config.ServerName = address
	through := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: config,
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return c.Dial(ctx, addr) },
	}}
	at := "https://" + net.JoinHostPort(address, PeerPort) + "/members"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return membership.View{}, err
	}
	answer, err := through.Do(request)
	if err != nil {
		return membership.View{}, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return membership.View{}, fmt.Errorf("%s: status %d", at, answer.StatusCode)
	}
	var listed []listedMember
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&listed); err != nil {
		return membership.View{}, fmt.Errorf("%s: %w", at, err)
	}
	var members []*pb.Member
	for _, m := range listed {
		members = append(members, &pb.Member{
			ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.Learner,
		})
	}
	return viewOf(0, members), nil
}
