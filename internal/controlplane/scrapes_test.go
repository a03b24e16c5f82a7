package controlplane

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestScrapersIn(t *testing.T) {
	flags := map[string]host.Process{
		release.ControllerManager: {Flags: map[string]string{"secure-port": "9000"}}, release.Scheduler: {},
	}
	got, err := scrapersIn("client\t9000\t0 0 10.0.0.11:9000 10.0.0.9:1 lastrcv:5\n"+
		"client\t10257\t0 0 10.0.0.11:10257 10.0.0.9:1 lastrcv:5\n"+
		"client\t10259\t0 0 127.0.0.1:10259 127.0.0.1:2 lastrcv:5\n"+
		`end	10259	0 0 127.0.0.1:2 127.0.0.1:10259 users:(("sshd",pid=1,fd=1))`+"\n", flags)
	if err != nil || len(got[release.ControllerManager]) != 1 || got[release.ControllerManager][0].Port != 9000 ||
		len(got[release.Scheduler]) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := scrapersIn("clients\tnone\n", flags); !errors.Is(err, errNoConnections) {
		t.Errorf("without ss: %v", err)
	}
}

func TestScrapedIn(t *testing.T) {
	line := func(event string) string {
		return "file\tx\ty\nscraped\t" + base64.StdEncoding.EncodeToString([]byte(event)) + "\n"
	}
	const event = `{"requestURI":"/metrics","user":{"username":"prometheus"},"sourceIPs":["::ffff:10.0.0.9"],` +
		`"requestReceivedTimestamp":"2026-11-24T23:00:00.123456Z"}`
	got, err := scrapedIn(line(event))
	want := Scrape{"prometheus", "10.0.0.9", time.Date(2026, 11, 24, 23, 0, 0, 123456000, time.UTC)}
	if err != nil || got == nil || *got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := scrapedIn("scraped\t\n"); got != nil || err != nil {
		t.Errorf("by nobody: %+v, %v", got, err)
	}
	got, err = scrapedIn(line(strings.Replace(event, "::ffff:10.0.0.9", "$(id)", 1)))
	if err != nil || got.Address != "" {
		t.Errorf("of no address: %+v, %v", got, err)
	}
	for name, output := range map[string]string{
		"no log": "scraped\tnone\n", "nothing": "", "no base64": "scraped\t!\n", "no event": line("{"),
		"another path": line(strings.Replace(event, "/metrics", "/livez", 1)),
		"no user":      line(strings.Replace(event, "prometheus", "", 1)),
		"no time":      line(strings.Replace(event, "requestReceivedTimestamp", "t", 1)),
		"a wrong time": line(strings.Replace(event, "2026-11-24T", "", 1)),
	} {
		if got, err := scrapedIn(output); err == nil || got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func FuzzScrapedIn(f *testing.F) {
	f.Add("scraped\teyJyZXF1ZXN0VVJJIjoiL21ldHJpY3MifQ==\n")
	f.Add("scraped\tnone\n")
	f.Fuzz(func(t *testing.T, output string) {
		got, err := scrapedIn(output)
		if got != nil && (err != nil || got.User == "" || strings.ContainsAny(got.User, "\x1b\n")) {
			t.Errorf("%+v, %v", got, err)
		}
	})
}
