package prometheus

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// sli returns requests of a verb and scope, of which fast ones of 100 take less than a bound.
func sli(verb, scope, bound string, fast float64) string {
	labels := fmt.Sprintf("verb=%q,scope=%q,resource=%q", verb, scope, "pods")
	bucket := func(le string, count float64) string {
		return apiserver("apiserver_request_sli_duration_seconds_bucket", fmt.Sprintf("%s,le=%q", labels, le),
			fmt.Sprintf("0+%g", count))
	}
	return bucket(bound, fast) + bucket("+Inf", 100) +
		apiserver("apiserver_request_sli_duration_seconds_count", labels, "0+100")
}

// TestBurnRates: what is recorded of the error budget counts requests that fail, and requests that
// are slow for their scope, as a part of all.
func TestBurnRates(t *testing.T) {
	total := func(verb, code string, count float64) string {
		return apiserver("apiserver_request_total", fmt.Sprintf("verb=%q,code=%q,resource=%q", verb, code, "pods"),
			fmt.Sprintf("0+%g", count))
	}
	for name, c := range map[string]struct {
		load, verb string
		want       float64
	}{
		"good":             {total("GET", "200", 100) + sli("GET", "resource", "1", 100), "read", 0},
		"slow object":      {total("GET", "200", 100) + sli("GET", "resource", "1.0", 90), "read", 0.1},
		"list of a minute": {total("LIST", "200", 100) + sli("LIST", "cluster", "30", 80), "read", 0.2},
		"namespace":        {total("LIST", "200", 100) + sli("LIST", "namespace", "5", 95), "read", 0.05},
		"errors": {
			total("GET", "200", 96) + total("GET", "503", 4) + sli("GET", "resource", "1", 100), "read", 0.04,
		},
		"health checks of a replica out of rotation": {
			total("GET", "200", 100) + sli("GET", "resource", "1", 100) +
				apiserver("apiserver_request_total", `verb="GET",code="500"`, "0+300"), "read", 0,
		},
		"a watch": {
			total("GET", "200", 100) + sli("GET", "resource", "1", 100) + sli("WATCH", "cluster", "30", 0), "read", 0,
		},
		"slow write": {total("POST", "201", 100) + sli("POST", "resource", "1", 70), "write", 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			for _, rule := range recordings(t, c.verb) {
				if got := valueOf(t, rule.Expr, c.load); math.Abs(got-c.want) > 1e-6 {
					t.Errorf("%s: %g, want %g", rule.Record, got, c.want)
				}
			}
		})
	}
}

// TestBurnRateWindows: each pair of windows alerts at its own rate, and only if both are over it: the
// short one says that it still goes on.
func TestBurnRateWindows(t *testing.T) {
	for _, pair := range []struct {
		long, short string
		rate        float64
	}{{"1h", "5m", 0.144}, {"6h", "30m", 0.06}, {"1d", "2h", 0.03}, {"3d", "6h", 0.01}} {
		var rules []monitoring.Rule
		for _, group := range monitoring.Groups(facts) {
			for _, rule := range group.Rules {
				if rule.Labels["long"] == pair.long && rule.Labels["short"] == pair.short {
					rules = append(rules, rule)
				}
			}
		}
		if len(rules) != 1 {
			t.Fatalf("%d alerts for %s and %s", len(rules), pair.long, pair.short)
		}
		over, under := pair.rate*1.01, pair.rate*0.99
		for want, rates := range map[bool][]map[string]float64{
			true:  {{pair.long: over, pair.short: over}},
			false: {{pair.long: over, pair.short: under}, {pair.long: under, pair.short: over}, {}},
		} {
			for _, byWindow := range rates {
				if anyFires(t, rules, burnRates(byWindow)) != want {
					t.Errorf("%v: fires %t, want %t", byWindow, !want, want)
				}
			}
		}
	}
}

// recordings returns the recording rules for reads or writes, one for each window.
func recordings(t *testing.T, verb string) []monitoring.Rule {
	t.Helper()
	var rules []monitoring.Rule
	for _, group := range monitoring.Groups(facts) {
		for _, rule := range group.Rules {
			if rule.Record != "" && rule.Labels["verb"] == verb {
				rules = append(rules, rule)
			}
		}
	}
	if len(rules) != 7 {
		t.Fatalf("%d recording rules for %s, want 7", len(rules), verb)
	}
	return rules
}

// valueOf returns the only value of an expression, six hours after the first sample.
func valueOf(t *testing.T, expr, load string) float64 {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 30s\n"+load)
	t.Cleanup(func() { _ = storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	query, err := engine.NewInstantQuery(context.Background(), storage, nil, expr, time.Unix(6*60*60, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	result := query.Exec(context.Background())
	vector, ok := result.Value.(promql.Vector)
	if result.Err != nil || !ok || len(vector) != 1 {
		t.Fatalf("%s: %v, %v", expr, result.Value, result.Err)
	}
	return vector[0].F
}
