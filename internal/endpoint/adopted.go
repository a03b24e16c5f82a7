package endpoint

import "errors"

// ErrAdopted means that a failed Create leaves no state: replicas may have been in rotation at the endpoint before, and
// a resource that is tainted would be deleted by the next apply, which is refused.
var ErrAdopted = errors.New("the endpoint was there before")

// adoption marks a failure as ErrAdopted without changing its text.
type adoption struct{ error }

func (a *adoption) Unwrap() []error { return []error{a.error, ErrAdopted} }

// Adopted marks a failure as ErrAdopted. nil stays nil.
func Adopted(err error) error {
	if err == nil {
		return nil
	}
	return &adoption{err}
}
