package client

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseAlerts(t *testing.T) {
	got, err := parseAlerts(strings.NewReader(`{"items":[{"spec":{"groups":[{"rules":[
		{"alert":"A","expr":"up == 0"},{"record":"r","expr":"x"},{"alert":"N\u001b[2J","expr":1}]}]}},{"spec":{}},{}]}`))
	want := []Alert{{"A", "up == 0"}, {got[1].Name, "1"}}
	if err != nil || !reflect.DeepEqual(got, want) || strings.Contains(got[1].Name, "\x1b") {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "[]", `{"items":[{"spec":{"groups":"many"}}]}`} {
		if got, err := parseAlerts(strings.NewReader(text)); err == nil {
			t.Errorf("%q has %v", text, got)
		}
	}
	many := `{"items":[{"spec":{"groups":[{"rules":[` + strings.Repeat(`{"alert":"A","expr":"1"},`, mostAlerts+5) +
		`{"alert":"B"}]}]}}]}`
	if got, err := parseAlerts(strings.NewReader(many)); err != nil || len(got) != mostAlerts {
		t.Errorf("%d alerts, %v", len(got), err)
	}
}
