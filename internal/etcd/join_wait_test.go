package etcd

import (
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// TestJoinWaits: each condition has the whole waiting time, and no more.
func TestJoinWaits(t *testing.T) {
	const limit = 200 * time.Millisecond
	begin := func(t *testing.T) *joining {
		cl, specs, _ := reimagedCluster(t)
		j := &joining{cl: cl, s: specs["cp1"], turn: cl.turns.Enter()}
		if err := j.turn.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		return j
	}
	noAnswer := func(t *testing.T, j *joining) error {
		return j.waitOrRefuse(t.Context(), nil, limit, client.ErrNoAnswer)
	}
	catchUp := func(t *testing.T, j *joining) {
		if err := j.wait(t.Context(), membership.View{Members: []membership.Member{{ID: 1, Learner: true}}}, 1); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a condition that has cleared", func(t *testing.T) {
		j := begin(t)
		if err := noAnswer(t, j); err != nil {
			t.Fatal(err)
		}
		catchUp(t, j)
		time.Sleep(2 * limit)
		catchUp(t, j)
		if err := noAnswer(t, j); err != nil {
			t.Errorf("refused at once: %v", err)
		}
	})
	t.Run("programs were installed", func(t *testing.T) {
		j := begin(t)
		if err := noAnswer(t, j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * limit)
		if err := j.install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := noAnswer(t, j); err != nil {
			t.Errorf("refused at once: %v", err)
		}
	})
	t.Run("a condition that stays", func(t *testing.T) {
		j := begin(t)
		catchUp(t, j)
		var err error
		for begun := time.Now(); err == nil && time.Since(begun) < 20*limit; {
			err = noAnswer(t, j)
		}
		if !errors.Is(err, client.ErrNoAnswer) {
			t.Errorf("not refused: %v", err)
		}
	})
}
