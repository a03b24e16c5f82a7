package client

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
)

// TestViaVoter verifies that a promotion or a removal is never sent to a learner, to a
// dead member, or to the member that it concerns, and that the leader comes first.
func TestViaVoter(t *testing.T) {
	silent := status.Error(codes.Unavailable, "no connection")
	refusal := errors.New("refused")
	for _, c := range []struct {
		name    string
		letters string
		not     uint64
		answers map[string]error // by address; the others accept the call
		want    []string         // addresses that receive the call
		err     error
	}{
		{name: "the leader takes it", letters: "hLhl", not: 4, want: []string{"10.0.0.2"}},
		{
			name: "the leader is silent", letters: "hLhl", not: 4, answers: map[string]error{"10.0.0.2": silent},
			want: []string{"10.0.0.2", "10.0.0.1"},
		},
		{
			name: "the leader refuses", letters: "hLhl", not: 4, answers: map[string]error{"10.0.0.2": refusal},
			want: []string{"10.0.0.2"}, err: refusal,
		},
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
