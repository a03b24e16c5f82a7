package etcdtest

import "slices"

// RestoreCell is one of the restores that TestRestoreMatrixOnMachines makes.
type RestoreCell struct {
	Etcd   string `json:"etcd"` // minor version
	Loss   string `json:"loss"`
	Source string `json:"source"`
}

// MeasuredRestore is what became of it.
type MeasuredRestore struct {
	RestoreCell
	Refused       bool    `json:"refused"`        // and nothing was changed
	Seconds       float64 `json:"seconds"`        // until three members served again, of a restore that was not refused
	LostRevisions int64   `json:"lost_revisions"` // that were served before and are gone
	Informer      float64 `json:"informer"`       // seconds after that until an informer from before had the new data
}

// The ways to lose a cluster of three, and what it is restored from.
const (
	NoneSurvives = "none survives"
	OneSurvives  = "one survives"
	TwoSurvive   = "two of different age survive"

	GoodSnapshot      = "a snapshot"
	TruncatedSnapshot = "a snapshot, truncated"
	FlippedSnapshot   = "a snapshot, a bit flipped"
	BareSnapshot      = "a snapshot without its hash"
	Survivor          = "the survivor that has most"
)

// RestoreCells returns all cells of the matrix, in the order of the table.
func RestoreCells() []RestoreCell {
	var cells []RestoreCell
	for _, etcd := range []string{"3.5", "3.6"} {
		for _, loss := range []string{NoneSurvives, OneSurvives, TwoSurvive} {
			sources := []string{GoodSnapshot, TruncatedSnapshot, FlippedSnapshot, BareSnapshot}
			if loss != NoneSurvives {
				sources = slices.Insert(sources, 1, Survivor)
			}
			for _, source := range sources {
				cells = append(cells, RestoreCell{Etcd: etcd, Loss: loss, Source: source})
			}
		}
	}
	return cells
}
