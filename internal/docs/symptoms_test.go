package docs

import (
	"regexp"
	"strings"
	"testing"
)

// TestSymptoms checks that each symptom of the guide on troubleshooting begins with its alerts and has commands that a
// test runs. TestAlertNames checks that these alerts exist.
func TestSymptoms(t *testing.T) {
	guide := documents(t)["templates/guides/troubleshooting.md"]
	_, symptoms, _ := strings.Cut(guide, "\n## Symptoms\n")
	symptoms, _, cut := strings.Cut(symptoms, "\n## ")
	if !cut {
		t.Fatal("the guide has another form")
	}
	alerts := regexp.MustCompile("^\nAlerts: `(?:Etcd|Kube|HAProxy)[A-Za-z]+`")
	sections := strings.Split(symptoms, "\n### ")[1:]
	if len(sections) < 9 {
		t.Errorf("there are %d symptoms", len(sections))
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		if !alerts.MatchString(text) {
			t.Errorf("%s: no alert is named first", title)
		}
		if !strings.Contains(text, "<!-- run by TestTroubleshooting -->") {
			t.Errorf("%s: no command is run by a test", title)
		}
	}
}
