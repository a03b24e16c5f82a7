package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
)

// status is the status of a member, as etcdctl prints it.
type status struct {
	Endpoint string
	Status   struct {
		Header struct {
			MemberID uint64 `json:"member_id"`
		} `json:"header"`
		Leader uint64 `json:"leader"`
	}
}

// statuses returns the status of each member, in the order of the machines, and the index of
// the leader. Every machine must have a member.
func (f fleet) statuses(ctx context.Context) (all []status, leader int, err error) {
	out, err := f[0].Run(ctx, etcdctl+"etcdctl endpoint status --cluster --write-out=json")
	if err != nil {
		return nil, 0, fmt.Errorf("find the leader: %w", err)
	}
	var answers []status
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		return nil, 0, fmt.Errorf("find the leader: %w", err)
	}
	for _, m := range f {
		at := slices.IndexFunc(answers, func(a status) bool {
			return a.Endpoint == fmt.Sprintf("https://%s:2379",
				m.Address)
		})
		if at < 0 {
			return nil, 0, fmt.Errorf("find the leader: %s does not answer", m.Name)
		}
		all = append(all, answers[at])
	}
	leader = slices.IndexFunc(all, func(a status) bool { return a.Status.Leader == a.Status.Header.MemberID })
	if leader < 0 {
		return nil, 0, fmt.Errorf("find the leader: there is none")
	}
	return all, leader, nil
}

// leader returns the name of the machine whose member is the leader.
func (f fleet) leader(ctx context.Context) (string, error) {
	_, leader, err := f.statuses(ctx)
	if err != nil {
		return "", err
	}
	return f[leader].Name, nil
}

// lead makes the member on the n-th machine the leader.
func (f fleet) lead(ctx context.Context, n int) error {
	all, leader, err := f.statuses(ctx)
	if err != nil || leader == n {
		return err
	}
	script := fmt.Sprintf("%sETCDCTL_ENDPOINTS=%s etcdctl move-leader %x", etcdctl, all[leader].Endpoint,
		all[n].Status.Header.MemberID)
	if _, err := f[0].Run(ctx, script); err != nil {
		return fmt.Errorf("make %s the leader: %w", f[n].Name, err)
	}
	return nil
}
