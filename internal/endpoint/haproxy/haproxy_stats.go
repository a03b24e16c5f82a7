package haproxy

import (
	"encoding/csv"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// stat is the state of one server in HAProxy.
type stat struct {
	Name     string
	Status   string // "UP", "UP 1/3", "DOWN", "DRAIN", "MAINT", …
	Check    string // "L7OK", "L4CON", …; "" before the first one
	Last     string // describes the result of the last check
	Address  netip.AddrPort
	Sessions int
}

func (s stat) up() bool { return strings.HasPrefix(s.Status, "UP") }

// serverStatus matches the states of a server that HAProxy prints (srv_hlt_st and its additions
// in src/stats.c).
var serverStatus = regexp.MustCompile(
	`^(UP|DOWN|NOLB|MAINT|DRAIN|no check)( [0-9]{1,3}/[0-9]{1,3})?( \((agent|resolution|via [A-Za-z0-9_.:/-]{1,128})\))?$`)

// checkStatuses are the outcomes of a check (enum chk_result, in src/check.c).
var checkStatuses = []string{
	"", "UNK", "INI", "SOCKERR", "L4OK", "L4TOUT", "L4CON", "L6OK", "L6TOUT", "L6RSP", "L7TOUT", "L7RSP", "L7OK", "L7OKC",
	"L7STS",
	"PROCERR", "PROCTOUT", "PROCOK",
}

// parseStats parses HAProxy's `show stat` and returns the endpoint's servers.
func parseStats(text string) []stat {
	stats, _ := readStats(text)
	return stats
}

// readStats returns the valid rows, and the names in the others.
func readStats(text string) (stats []stat, odd []string) {
	reader := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "# ")))
	reader.FieldsPerRecord = -1
	rows, err := reader.ReadAll()
	if err != nil || len(rows) == 0 {
		return nil, nil // incomplete, or not from HAProxy: nothing is known
	}
	column := map[string]int{}
	for i, title := range rows[0] {
		column[title] = i
	}
	for _, row := range rows[1:] {
		cell := func(title string) string {
			if i, ok := column[title]; ok && i < len(row) {
				return row[i]
			}
			return ""
		}
		if cell("pxname") != proxyName {
			continue
		}
		if parsed, ok := parseStat(cell); ok {
			stats = append(stats, parsed)
		} else {
			odd = append(odd, cell("svname"))
		}
	}
	return stats, odd
}

func parseStat(cell func(title string) string) (stat, bool) {
	running, err := parseServer(cell("svname"), cell("addr"))
	sessions, number := strconv.Atoi(cell("scur"))
	if cell("scur") == "" {
		sessions, number = 0, nil
	}
	check := strings.TrimPrefix(cell("check_status"), "* ")
	if err != nil || number != nil || sessions < 0 || !serverStatus.MatchString(cell("status")) ||
		!slices.Contains(checkStatuses, check) {
		return stat{}, false
	}
	return stat{
		Name: running.Name, Address: running.Address, Status: cell("status"), Sessions: sessions, Check: check,
		Last: printable(strings.TrimSpace(cell("check_desc") + " " + cell("last_chk"))),
	}, true
}
