package acceptance

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// reportedFailure is why a test failed, in a JUnit report.
type reportedFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (f *reportedFailure) String() string {
	return strings.TrimSpace(cmp.Or(f.Message, strings.TrimSpace(f.Text), "without a reason"))
}

// parseReport reads a JUnit report: of each test that ran, why it failed.
func parseReport(text []byte) (map[string]string, error) {
	var report struct {
		Suites []struct {
			Cases []struct {
				Name    string           `xml:"name,attr"`
				Skipped *struct{}        `xml:"skipped"`
				Failure *reportedFailure `xml:"failure"`
				Error   *reportedFailure `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		return nil, fmt.Errorf("parse the report of the tests: %w", err)
	}
	results := map[string]string{}
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			name, isTest := strings.CutPrefix(c.Name, "[It] ")
			if !isTest || c.Skipped != nil {
				continue
			}
			results[name] = ""
			if failure := cmp.Or(c.Failure, c.Error); failure != nil {
				results[name] = failure.String()
			}
		}
	}
	return results, nil
}

func TestParseReport(t *testing.T) {
	got, err := parseReport([]byte(`<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="Kubernetes e2e suite">
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] passes" status="passed"></testcase>
<testcase name="[It] is skipped" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] fails" status="failed"><failure type="failed">no answer
</failure></testcase>
<testcase name="[It] panics" status="panicked"><error message="nil map" type="panicked">stack</error></testcase>
</testsuite></testsuites>`))
	if want := map[string]string{"passes": "", "fails": "no answer", "panics": "nil map"}; err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("parsed %v, %v; want %v", got, err, want)
	}
	if _, err := parseReport([]byte("Ran 82 of 7579 Specs")); err == nil {
		t.Error("a text that is no report is one")
	}
}
