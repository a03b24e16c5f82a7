package membership

import (
	"errors"
	"fmt"
)

// Defragmentation is what a requested defragmentation requires.
type Defragmentation struct {
	// MinFree is the share of the database, in percent, that must be free pages.
	MinFree int
	// Force defragments whatever the share is, and although clients notice it.
	Force bool
}

// DefaultMinFree is the share from which etcd's own alert, etcdDatabaseHighFragmentationRatio,
// recommends a defragmentation.
const DefaultMinFree = 50

// errFewVoters means that a member's pause is a pause of the cluster.
var errFewVoters = errors.New("every write would wait for it, because the cluster has fewer than three voters")

// FreeShare returns the share of the member's database, in percent, that a defragmentation would
// release.
func (m Member) FreeShare() int {
	if m.DBSize <= 0 || m.DBInUse < 0 || m.DBInUse > m.DBSize {
		return 0
	}
	return int(100 * float64(m.DBSize-m.DBInUse) / float64(m.DBSize))
}

// NextDefragmentStep decides what a requested defragmentation of the member with the given ID does
// next. It is stricter than a restart, because nothing is lost if it never happens: every member
// must be healthy. SpaceNone means that it is done, or not worth it.
func NextDefragmentStep(v View, id uint64, d Defragmentation, done SpaceAttempts) SpaceStep {
	me, listed := v.Member(id)
	switch {
	case !listed:
		return SpaceStep{Kind: SpaceRefuse, Cause: errNotListed}
	case done.Defragmented[id]:
		return SpaceStep{}
	}
	if err := RequireAllHealthy(v); err != nil {
		return SpaceStep{Kind: SpaceWait, ID: id, Cause: err}
	}
	switch {
	case !d.Force && me.FreeShare() < d.MinFree:
		return SpaceStep{}
	case !d.Force && !me.Learner && len(v.Voters()) < 3:
		return SpaceStep{Kind: SpaceRefuse, ID: id, Cause: errFewVoters}
	}
	return defragmentStep(v, me)
}

// MayLead returns why leadership may not move to the member with the given ID now, or nil.
func MayLead(v View, id uint64) error {
	if err := RequireStable(v); err != nil {
		return err
	}
	switch m, listed := v.Member(id); {
	case !listed:
		return errNotListed
	case m.Learner:
		return fmt.Errorf("%s is a learner, which cannot lead", m.Label())
	case !m.Healthy:
		return fmt.Errorf("%s %s", m.Label(), m.Trouble)
	}
	return nil
}
