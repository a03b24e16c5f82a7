package acceptance

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// recordFigures records what clients observed, under the name of the test.
func recordFigures(t *testing.T, r load.Report, c load.Criteria) {
	t.Helper()
	testrun.Record(t, r.Observation(t.Name(), c))
}
