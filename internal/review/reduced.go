package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// reducedVersion is the version of the reduced format.
const reducedVersion = "1"

// reduced is a plan with the values that a comment may show, and no other. Read takes it in
// place of a plan, so that the jobs of a pipeline can hand on plans without their secrets.
type reduced struct {
	Version string `json:"kube_review_plan"`
	Plan    Plan   `json:"plan"`
}

// Reduce writes a plan in the reduced format. An unreadable plan is an error.
func Reduce(p NamedPlan) ([]byte, error) {
	if p.Err != nil {
		return nil, p.Err
	}
	text, err := json.Marshal(reduced{reducedVersion, p.Plan})
	if err != nil {
		return nil, fmt.Errorf("write the reduced plan: %w", err)
	}
	return append(text, '\n'), nil
}

// errReduced is the error for a reduced plan that Reduce did not write.
var errReduced = errors.New("the reduced plan is not of this version of kube-review")

// parseReduced reads a plan in the reduced format. It reports false for any other text.
func parseReduced(text []byte) (Plan, bool, error) {
	var read reduced
	if err := json.Unmarshal(text, &struct {
		Version *string `json:"kube_review_plan"`
	}{&read.Version}); err != nil || read.Version == "" {
		return Plan{}, false, nil //nolint:nilerr // it is not this format
	}
	if err := json.Unmarshal(text, &read); err != nil || read.Version != reducedVersion || !read.Plan.valid() {
		return Plan{}, true, errReduced
	}
	return read.Plan, true, nil
}

var (
	kindName = regexp.MustCompile(`^kube_[a-z_]+$`)
	actions  = []Action{
		Keep, Create, Update, Delete, Replace, CreateFirst, Forget, Import, ForgetFirst, ForgetLast, Unknown,
	}
)

// valid reports whether actions and types are those of a plan. A comment does not escape them.
func (p Plan) valid() bool {
	for _, r := range p.resources() {
		if !slices.Contains(actions, r.Action) || !kindName.MatchString(r.Kind) {
			return false
		}
	}
	return !slices.ContainsFunc(p.Others, func(o OtherResource) bool { return !slices.Contains(actions, o.Action) })
}
