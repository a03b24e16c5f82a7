package controlplane

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Scrape is a read of metrics.
type Scrape struct {
	User    string
	Address string
	At      time.Time
}

// The ports of components that serve little else than metrics.
var metricsPorts = map[string]int{release.ControllerManager: 10257, release.Scheduler: 10259}

//go:embed scrapes.sh
var scrapeFunctions host.Script

// scrapeScript prints who reads the metrics of the components on a machine: connections to
// controller-manager and scheduler, and what the audit log has of the API server. The functions of package pod must be
// defined.
func scrapeScript() host.Script {
	script := host.ClientFunctions + scrapeFunctions + "scraped " + host.Words(component.SystemMasters().CommonName) + "\n"
	for _, name := range []string{release.ControllerManager, release.Scheduler} {
		script += "clients $(port " + host.Words(name, strconv.Itoa(metricsPorts[name])) + ")\n"
	}
	return script
}

var errNoAuditLog = errors.New("the API server has no audit log, which says who reads its metrics")

// scrapersIn returns who is connected to controller-manager and scheduler.
func scrapersIn(output string, processes map[string]host.Process) (map[string][]host.Client, error) {
	all, known := host.ReadClients(output)
	if !known {
		return nil, host.ErrNoClients
	}
	scrapers := map[string][]host.Client{}
	for name, port := range metricsPorts {
		if n, err := strconv.Atoi(processes[name].Flags["secure-port"]); err == nil {
			port = n
		}
		for _, c := range all {
			if c.Port == port && !c.IsProbe() {
				scrapers[name] = append(scrapers[name], c)
			}
		}
	}
	return scrapers, nil
}

// scrapedIn parses the last request for metrics that the audit log has.
func scrapedIn(output string) (*Scrape, error) {
	for line := range strings.Lines(output) {
		text, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "scraped\t")
		switch {
		case !ok:
		case text == "none":
			return nil, errNoAuditLog
		case text == "":
			return nil, nil
		default:
			return parseAuditEvent(text)
		}
	}
	return nil, errNoAuditLog
}

// parseAuditEvent parses an event of audit.k8s.io/v1, in base64.
func parseAuditEvent(encoded string) (*Scrape, error) {
	text, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	var event struct {
		User struct {
			Username string `json:"username"`
		} `json:"user"`
		SourceIPs  []string  `json:"sourceIPs"`
		RequestURI string    `json:"requestURI"`
		Received   time.Time `json:"requestReceivedTimestamp"`
	}
	if err := json.Unmarshal(text, &event); err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	if event.RequestURI != "/metrics" || event.User.Username == "" || event.Received.IsZero() {
		return nil, fmt.Errorf("the audit log has an unexpected event, for %s", problem.Quote(event.RequestURI))
	}
	s := &Scrape{User: problem.Line(event.User.Username), At: event.Received}
	if len(event.SourceIPs) > 0 {
		if address, err := netip.ParseAddr(event.SourceIPs[0]); err == nil {
			s.Address = address.Unmap().String()
		}
	}
	return s, nil
}
