package endpoint

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// balancer is one machine of the endpoint as it was observed.
type balancer struct {
	unreachable error // not nil: nothing else is known
	facts       host.Facts
	device      string       // interface of the VIP; "" when none was found
	local       []netip.Addr // the machine's addresses
	neighbour   string       // who answers for the VIP on the network; "" unless probed
	servers     []server     // of 20-backends.cfg
	foreign     []string     // lines there that registration does not write
	stats       []stat       // of the running HAProxy; nil when it does not answer
	answers     bool         // HAProxy's socket does
}

// stat is one server as HAProxy sees it.
type stat struct {
	Name     string
	Status   string // "UP", "UP 1/3", "DOWN", "DRAIN", "MAINT", …
	Check    string // "L7OK", "L4CON", …
	Last     string // the last check's outcome in words
	Address  string
	Sessions int
}

func (b balancer) holds(vip string) bool {
	for _, ip := range b.local {
		if ip.String() == vip {
			return true
		}
	}
	return false
}

// present: something of the endpoint is on the machine.
func (b balancer) present() bool {
	for _, path := range []string{endpointPath, backendsPath, keepalivedPath, unitDir + haproxyUnit, unitDir + keepalivedUnit} {
		if _, found := b.facts.Files[path]; found {
			return true
		}
	}
	return b.unitActive(haproxyUnit) || b.unitActive(keepalivedUnit)
}

func (b balancer) unitActive(unit string) bool {
	switch b.facts.Units[unit].Active {
	case "active", "reloading":
		return true
	}
	return false
}

const section = "--"

// question asks all about one balancer. With probe it also asks the network
// who has the VIP, by a datagram to the discard port that makes the kernel
// resolve it; the wait is what a machine on the same network needs to answer.
func question(s Spec, probe bool) host.Query {
	script := "ip -o address show\necho " + section + "\n"
	if probe {
		script += fmt.Sprintf(`device=$(ip -o route get %[1]s | sed -n 's/.* dev \([^ ]*\).*/\1/p')
ip neighbour delete %[1]s dev "$device" 2>/dev/null
bash -c 'echo >/dev/udp/%[1]s/9' 2>/dev/null
sleep 0.2
ip neighbour show %[1]s
`, s.Address)
	}
	script += "echo " + section + "\n" + askStats + "\n"
	return host.Query{
		Files:    []string{askPath, reloadPath, caPath, installingPath},
		Contents: []string{endpointPath, backendsPath, keepalivedPath, unitDir + haproxyUnit, unitDir + keepalivedUnit},
		Units:    []string{haproxyUnit, keepalivedUnit},
		Ports:    []int{s.port()},
		Commands: append([]string{"haproxy", "keepalived", "perl", "socat"}, installers()...),
		Script:   script,
	}
}

// askStats prints HAProxy's statistics of the servers.
const askStats = askPath + " " + adminSocket + " 'show stat -1 4 -1'"

// rotationOnly asks one balancer no more than which replicas are in rotation.
func rotationOnly() host.Query {
	return host.Query{
		Contents: []string{backendsPath},
		Script:   "echo " + section + "\necho " + section + "\n" + askStats,
	}
}

// observe looks at every host in parallel. An unreachable one is no error.
func observe(ctx context.Context, s Spec, q host.Query) (map[string]balancer, error) {
	seen := look(ctx, s, q)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var failed []error
	for _, name := range names(seen) {
		if err := seen[name].unreachable; err != nil && !errors.Is(err, host.ErrUnreachable) {
			failed = append(failed, fmt.Errorf("observe endpoint host %s: %w", name, err))
			delete(seen, name)
		}
	}
	return seen, errors.Join(failed...)
}

// look looks at every host in parallel. Whatever keeps one from being seen is
// put into its place.
func look(ctx context.Context, s Spec, q host.Query) map[string]balancer {
	var (
		mu   sync.Mutex
		seen = make(map[string]balancer, len(s.Hosts))
		all  sync.WaitGroup
	)
	for name, machine := range s.Hosts {
		all.Go(func() {
			facts, err := machine.Observe(ctx, q)
			b := balancer{unreachable: err}
			if err == nil {
				b = newBalancer(facts, s.Interface, machine.Address())
			}
			mu.Lock()
			defer mu.Unlock()
			seen[name] = b
		})
	}
	all.Wait()
	return seen
}

// newBalancer reads what question's script printed.
func newBalancer(facts host.Facts, device, address string) balancer {
	parts := append(strings.Split(facts.Output, section+"\n"), "", "")
	b := balancer{facts: facts, neighbour: answeredBy(parts[1])}
	b.local, b.device = parseAddresses(parts[0], device, address)
	b.servers, b.foreign = parseBackends(facts.Files[backendsPath].Content)
	b.stats = parseStats(parts[2])
	b.answers = strings.HasPrefix(parts[2], "# pxname")
	return b
}

// parseAddresses reads `ip -o address show`; device is the wanted interface or,
// for "", the one that holds address. The result is "" where there is none.
func parseAddresses(text, wanted, address string) (local []netip.Addr, device string) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || (fields[2] != "inet" && fields[2] != "inet6") {
			continue
		}
		prefix, err := netip.ParsePrefix(fields[3])
		if err != nil {
			continue // a peer address: point to point, never the one looked for
		}
		local = append(local, prefix.Addr())
		name, _, _ := strings.Cut(fields[1], "@")
		if name == wanted || (wanted == "" && prefix.Addr().String() == address) {
			device = name
		}
	}
	return local, device
}

// answeredBy gives the hardware address in `ip neighbour show`. The entry was
// deleted before the probe, so one with an address is an answer.
func answeredBy(text string) string {
	fields := strings.Fields(text)
	for i, field := range fields {
		if field == "lladdr" && i+1 < len(fields) && !strings.Contains(text, "FAILED") {
			return fields[i+1]
		}
	}
	return ""
}

// parseStats reads HAProxy's `show stat` for the endpoint's servers.
func parseStats(text string) []stat {
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# ")))
	reader.FieldsPerRecord = -1
	rows, err := reader.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil // cut off or no HAProxy: nothing is known
	}
	column := map[string]int{}
	for i, title := range rows[0] {
		column[title] = i
	}
	cell := func(row []string, title string) string {
		if i, found := column[title]; found && i < len(row) {
			return row[i]
		}
		return ""
	}
	var stats []stat
	for _, row := range rows[1:] {
		if cell(row, "pxname") != proxyName {
			continue
		}
		sessions, _ := strconv.Atoi(cell(row, "scur")) // empty means none
		stats = append(stats, stat{
			Name: cell(row, "svname"), Status: cell(row, "status"), Address: cell(row, "addr"), Sessions: sessions,
			Check: strings.TrimPrefix(cell(row, "check_status"), "* "), Last: strings.TrimSpace(cell(row, "check_desc") + " " + cell(row, "last_chk")),
		})
	}
	return stats
}
