package prometheus

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// TestPlanMetrics: Prometheus reads what kube-review writes as OpenMetrics, and as the format of a Pushgateway and of
// node_exporter's textfile collector.
func TestPlanMetrics(t *testing.T) {
	dir := t.TempDir()
	program, file := filepath.Join(dir, "kube-review"), filepath.Join(dir, "plan.prom")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/kube-review")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plan := filepath.Join("..", "..", "internal", "review", "testdata", "drift.plan.json")
	run := exec.CommandContext(t.Context(), program, "-metrics", file, "prod="+plan)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	textParser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := textParser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil || len(families["kube_plan_drift_findings"].GetMetric()) != 4 {
		t.Errorf("%v\n%s", err, text)
	}
	parser := textparse.NewOpenMetricsParser(text, labels.NewSymbolTable())
	series := map[string]int{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if entry == textparse.EntrySeries {
			var l labels.Labels
			parser.Labels(&l)
			series[l.Get("__name__")]++
			if l.Get("cluster") != "prod" || strings.Contains(l.Get("address"), `\`) {
				t.Errorf("a series has the labels %s", l)
			}
		}
	}
	if series["kube_plan_drift_findings"] != 4 || series["kube_plan_timestamp_seconds"] != 1 {
		t.Errorf("the series are %v", series)
	}
}
