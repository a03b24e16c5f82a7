package host

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// parseListeners parses the listeners of ports, from ss or, if it is missing, from the kernel's
// table.
func parseListeners(r report, ports []int) map[int]Listener {
	listeners := map[int]Listener{}
	add := func(port int, address, process string) {
		if !slices.Contains(ports, port) {
			return
		}
		l := listeners[port]
		if !slices.Contains(l.Addresses, address) {
			l.Addresses = append(l.Addresses, address)
		}
		if l.Process == "" {
			l.Process = process
		}
		listeners[port] = l
	}
	for _, line := range r["ss"] {
		if port, address, process, ok := parseSocket(line); ok {
			add(port, address, process)
		}
	}
	for _, line := range r["tcp"] {
		if port, address, ok := parseKernelSocket(line); ok {
			add(port, address, "")
		}
	}
	return listeners
}

// parseSocket parses one line of `ss -ltnp`:
//
//	LISTEN 0 4096 127.0.0.1%lo:53 0.0.0.0:* users:(("sshd",pid=1,fd=3))
func parseSocket(line string) (port int, address, process string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "LISTEN" {
		return 0, "", "", false
	}
	colon := strings.LastIndex(fields[3], ":")
	if colon < 0 {
		return 0, "", "", false
	}
	number, err := strconv.ParseUint(fields[3][colon+1:], 10, 16)
	if err != nil {
		return 0, "", "", false
	}
	port = int(number)
	address = strings.Trim(fields[3][:colon], "[]")
	address, _, _ = strings.Cut(address, "%")
	address = strings.Trim(address, "[]")
	if address == "*" {
		address = "::" // a dual-stack socket
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return 0, "", "", false
	}
	if _, users, ok := strings.Cut(line, `users:(("`); ok {
		process, _, _ = strings.Cut(users, `"`)
		process = matchingOrUnnamed(processPattern, process) // any process can choose its name (prctl(2), PR_SET_NAME)
	}
	return port, ip.String(), process, true
}

// parseKernelSocket parses one line of /proc/net/tcp or tcp6 (proc(5)): the local address is
// hexadecimal, each 32-bit word in the machine's byte order, and 0A is LISTEN. Every GOARCH
// supported here is little-endian except s390x, which has ss.
func parseKernelSocket(line string) (port int, address string, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[3] != "0A" {
		return 0, "", false
	}
	hexAddress, hexPort, ok := strings.Cut(fields[1], ":")
	raw, err := hex.DecodeString(hexAddress)
	number, portErr := strconv.ParseUint(hexPort, 16, 16)
	if !ok || err != nil || portErr != nil || len(raw)%4 != 0 {
		return 0, "", false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	ip, valid := netip.AddrFromSlice(raw)
	if !valid {
		return 0, "", false
	}
	return int(number), ip.Unmap().String(), true
}
