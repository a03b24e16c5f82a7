package controlplane

import (
	"context"
	"testing"
	"testing/synctest"
)

func TestDepartures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewReplicas().departures("cluster")
		d.begin()
		if d.awaitOther(t.Context()) {
			t.Error("waited although nobody else leaves")
		}
		d.begin()
		results := make(chan bool, 2)
		go func() { results <- d.awaitOther(t.Context()) }()
		synctest.Wait()
		if d.awaitOther(t.Context()) {
			t.Error("waited for one that waits")
		}
		d.end()
		if !<-results {
			t.Error("was not told that the other one has ended")
		}
		if d.awaitOther(t.Context()) {
			t.Error("waited for one that has left")
		}
		d.begin()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if d.awaitOther(ctx) {
			t.Error("waited beyond the end of the context")
		}
	})
}
