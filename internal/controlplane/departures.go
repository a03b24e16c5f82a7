package controlplane

import (
	"context"
	"sync"
)

// departures are the replicas of one control plane whose Delete is under way in
// this process and which have not left the endpoint yet. One that is refused
// may wait for another; one that waits is nobody's reason to wait.
type departures struct {
	mu     sync.Mutex
	active int           // those that do not wait
	left   chan struct{} // closed, and made anew, when one has left or given up
}

func (d *departures) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active++
}

func (d *departures) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active--
	close(d.left)
	d.left = make(chan struct{})
}

// awaitOther is called by one that has begun. It returns true when another one
// has ended, false when there is none to wait for or ctx has ended.
func (d *departures) awaitOther(ctx context.Context) bool {
	d.mu.Lock()
	if d.active == 1 {
		d.mu.Unlock()
		return false
	}
	d.active--
	left := d.left
	d.mu.Unlock()
	select {
	case <-left:
	case <-ctx.Done():
	}
	d.begin()
	return ctx.Err() == nil
}
