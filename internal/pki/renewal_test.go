package pki

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRenewal(t *testing.T) {
	const day = 24 * time.Hour
	b := bundle(t)
	year := issue(t, b, apiServer(), now, 0).Certificate
	short := issue(t, b, apiServer(), now, 9*day).Certificate
	brief, err := Generate(Options{ClusterName: "prod", Validity: 90 * day, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	capped := issue(t, *brief, apiServer(), now, 0).Certificate // expires with its authority
	due := func(certificate string) []string {
		info := mustInspect(t, certificate)
		return []string{"apiserver certificate expires on " + info.NotAfter.Format(time.DateOnly) + ": it is due for renewal"}
	}
	for name, test := range map[string]struct {
		bundle      Bundle
		certificate string
		early       time.Duration
		after       time.Duration
		want        []string
	}{
		"new":                           {b, year, 0, 0, nil},
		"two thirds are not over":       {b, year, 0, 243 * day, nil},
		"two thirds are over":           {b, year, 0, 244 * day, due(year)},
		"a third of a short life":       {b, short, 0, 6*day + time.Hour, due(short)},
		"not yet as early as that":      {b, year, 30 * day, 334 * day, nil},
		"as early as that":              {b, year, 30 * day, 335 * day, due(year)},
		"at once":                       {b, year, leafValidity - time.Second, time.Second, due(year)},
		"at its last moment":            {b, year, time.Hour, leafValidity - time.Second, due(year)},
		"expired: Check says so":        {b, year, 0, leafValidity, nil},
		"it ends with its authority":    {*brief, capped, 0, 89 * day, nil},
		"no certificate: Check says so": {b, "nonsense", 0, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.bundle.Renewal(apiServer(), test.certificate, test.early, now.Add(test.after)); !slices.Equal(got,
				test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestValidateEarlyRenewal(t *testing.T) {
	for early, want := range map[time.Duration]string{
		time.Second: "", leafValidity - time.Second: "", leafValidity: "is not between", 0: "is not between",
		-time.Hour: "is not between",
	} {
		if err := ValidateEarlyRenewal(early); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", early, err, want)
		}
	}
}
