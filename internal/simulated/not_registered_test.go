package simulated

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// refusing is an endpoint that puts no replica into rotation.
type refusing struct {
	controlplane.Registrar
	err error
}

func (r refusing) Register(context.Context, string, string) error { return r.err }

// TestNotRegistered: a replica that runs, and that its endpoint did not take into rotation, is in the state, so that it
// can be deleted: its error never says that nothing was changed. It says how to keep the replica, because Terraform
// marks it as tainted. One that ran before is adopted again by the next Create, so there is nothing to untaint.
func TestNotRegistered(t *testing.T) {
	failures := map[string]func() error{
		"a problem": func() error { return &problem.Problem{Cause: "no answer", Next: "check it, then apply again"} },
		"a refusal": func() error {
			return fmt.Errorf("wrapped: %w", &problem.Problem{Cause: "no answer", Unchanged: problem.Nothing})
		},
		"an error": func() error { return errors.New("no answer") },
	}
	for name, failure := range failures {
		_, p := bareOn(t, 1)
		s := p.servers[0]
		p.servers = nil
		p.create(t)
		at := s.Registrar
		for _, adopted := range []bool{false, true} {
			s.Registrar = refusing{at, failure()}
			_, err := p.replicas.Create(t.Context(), s)
			if err == nil {
				t.Fatalf("%s: no error", name)
			}
			text := err.Error()
			if p := (*problem.Problem)(nil); errors.As(err, &p) {
				text = p.Error()
			}
			if errors.Is(err, controlplane.ErrAdopted) != adopted || problem.Untouched(err) && !adopted ||
				strings.Contains(text, "terraform untaint ADDRESS") == adopted || !strings.Contains(text, "no answer") {
				t.Errorf("%s, adopted %t: %s", name, adopted, text)
			}
		}
	}
}
