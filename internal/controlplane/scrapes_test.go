package controlplane

import (
	"encoding/base64"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
		`end	10259	0 0 127.0.0.1:2 127.0.0.1:10259 users:(("sshd",pid=1,fd=1))`+"\n"+
		"client\t10259\t0 0 127.0.0.1:10259 127.0.0.1:3 lastrcv:5\n"+
		`end	10259	0 0 127.0.0.1:3 127.0.0.1:10259 users:(("kubelet",pid=1,fd=1))`+"\n", flags)
	if err != nil || len(got[release.ControllerManager]) != 1 || got[release.ControllerManager][0].Port != 9000 ||
		len(got[release.Scheduler]) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := scrapersIn("clients\tnone\n", flags); !errors.Is(err, host.ErrNoClients) {
		t.Errorf("without ss: %v", err)
	}
}

// TestScrapesOfStaticPods: the audit log and the ports of static pods are those of their processes.
func TestScrapesOfStaticPods(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	const event = `{"requestURI":"/metrics","responseStatus":{"code":200},"user":{"username":"prometheus"}}`
	if err := os.WriteFile(log, []byte(event+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), "sh", "-c", "read -r _", "--audit-log-path="+log, "--secure-port=9000")
	input, err := process.StdinPipe() // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	pid := strconv.Itoa(process.Process.Pid)
	for name, c := range map[string]struct{ unit, pod, want string }{
		"a unit":       {pid, "", "scraped\t" + base64.StdEncoding.EncodeToString([]byte(event+"\n")) + "\n9000\n"},
		"a static pod": {"0", pid, "scraped\t" + base64.StdEncoding.EncodeToString([]byte(event+"\n")) + "\n9000\n"},
		"neither":      {"0", "", "scraped\tnone\n10259\n"},
	} {
		script := scrapeFunctions + host.Script("systemctl() { echo "+c.unit+"; }\nreplica_pid() { echo "+c.pod+"; }\n") +
			"scraped admin\nport kube-scheduler 10259\n"
		out, err := exec.CommandContext(t.Context(), "sh", "-c", string(script)).CombinedOutput()
		if err != nil || string(out) != c.want {
			t.Errorf("%s: %q, want %q, %v", name, out, c.want, err)
		}
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

// FuzzParseReview verifies that a review of any machine has no process without a name, and no file that is not of it.
func FuzzParseReview(f *testing.F) {
	f.Add("file\t/etc/kubernetes/audit.yaml\teA==\nscraped\tnone\n")
	f.Add("file\tx\tno base64\nfile\n\t\t\n")
	f.Fuzz(func(t *testing.T, output string) {
		got := parseReview(Health{}, output)
		for name := range got.Files {
			if !strings.Contains(output, "file\t"+name+"\t") {
				t.Errorf("%q: file %q", output, name)
			}
		}
		if got.Scrapers != nil && got.ScrapersErr != nil || got.Scraped != nil && got.ScrapedErr != nil {
			t.Errorf("%q: a value and an error: %+v", output, got)
		}
	})
}
