package etcd

import "context"

// Outage is notified of the time in which a member does not serve, so that components that
// depend on this member alone can be drained. Both calls may be repeated.
type Outage interface {
	// Begins is called before the member stops. An error means that it must not stop.
	Begins(ctx context.Context) error
	// Ended is called when the member serves again, after an outage of this run or of an
	// earlier one that was interrupted.
	Ended(ctx context.Context) error
}

func (s Spec) outageBegins(ctx context.Context) error {
	if s.Outage == nil {
		return nil
	}
	return s.Outage.Begins(ctx)
}

func (s Spec) outageEnded(ctx context.Context) error {
	if s.Outage == nil {
		return nil
	}
	return s.Outage.Ended(ctx)
}
