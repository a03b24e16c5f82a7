package etcd

import "context"

// Outage is told of the time in which a member does not serve, so that what
// depends on this member alone can step aside. Both calls may be repeated.
type Outage interface {
	// Begins comes before the member stops. An error means that it may not.
	Begins(ctx context.Context) error
	// Ended comes when the member serves, after an outage of this run or of an
	// earlier one that was cut off.
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
