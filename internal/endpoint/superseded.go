package endpoint

import "errors"

// ErrSuperseded means that a Create of the same endpoint has begun, so there is nothing left to delete.
var ErrSuperseded = errors.New("superseded by a create of the same endpoint")

// Superseded reports whether a Create of the same endpoint has begun in this run. nil means that none has.
type Superseded func() bool

// Err returns ErrSuperseded if a Create has begun. A Delete asks before each step: Terraform runs the two in any order,
// so the Create may begin while the Delete waits for replicas that stay.
func (s Superseded) Err() error {
	if s != nil && s() {
		return ErrSuperseded
	}
	return nil
}
