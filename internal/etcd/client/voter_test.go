package client

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
)

// TestViaVoter: a promotion or a removal is never asked of a learner, of a dead
// member, or of the one that it is about; the leader comes first.
func TestViaVoter(t *testing.T) {
	silent := status.Error(codes.Unavailable, "no connection")
	refusal := errors.New("refused")
	for _, c := range []struct {
		name    string
		letters string
		not     uint64
		answers map[string]error // of the addresses; the others take it
		want    []string         // addresses that are asked
		err     error
	}{
		{name: "the leader takes it", letters: "hLhl", not: 4, want: []string{"10.0.0.2"}},
		{name: "the leader is silent", letters: "hLhl", not: 4, answers: map[string]error{"10.0.0.2": silent}, want: []string{"10.0.0.2", "10.0.0.1"}},
		{name: "the leader refuses", letters: "hLhl", not: 4, answers: map[string]error{"10.0.0.2": refusal}, want: []string{"10.0.0.2"}, err: refusal},
		{name: "the leader is the one", letters: "hLd", not: 2, want: []string{"10.0.0.1"}},
		{name: "nobody is left", letters: "Ldl", not: 1, err: ErrNoAnswer},
	} {
		var asked []string
		err := new(Clients).ViaVoter(t.Context(), membershiptest.ClusterOf(c.letters), c.not, func(address string) error {
			asked = append(asked, address)
			return c.answers[address]
		})
		if !slices.Equal(asked, c.want) || !errors.Is(err, c.err) {
			t.Errorf("%s: asked %q, %v; want %q, %v", c.name, asked, err, c.want, c.err)
		}
	}
}
