package host

import (
	_ "embed"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client is a process that is connected to a port of a machine.
type Client struct {
	Port    int
	Address string        // of its machine
	Process string        // its name, if it is on the same machine; "" otherwise
	Ago     time.Duration // since it has last sent something
}

// probes are the processes that connect to a component and scrape nothing: the provider's connections through SSH, and
// probes, also those of a kubelet.
var probes = []string{"sshd", "sshd-session", "curl", "kubelet"}

// IsProbe reports whether the process does not read metrics, although it connects to the component.
func (c Client) IsProbe() bool { return slices.Contains(probes, c.Process) }

// ErrNoClients means that the machine cannot say who is connected: see ReadClients.
var ErrNoClients = errors.New("ss is not installed on the machine")

// ClientFunctions defines the function clients, which prints who is connected to the ports that are
// its arguments. ReadClients parses its output.
//
//go:embed clients.sh
var ClientFunctions Script

var (
	lastReceived = regexp.MustCompile(` lastrcv:([0-9]{1,12})\b`)
	processName  = regexp.MustCompile(`users:\(\(\"([A-Za-z0-9_.:-]{1,32})\"`)
)

// mostClients limits how many clients of a machine are read.
const mostClients = 2000

// ReadClients parses the lines of the function clients. known is false if the machine cannot say who
// is connected. Other lines are ignored.
func ReadClients(output string) (all []Client, known bool) {
	known = true
	ends := map[string]string{} // process by the address of its end
	peers := map[int]netip.AddrPort{}
	for line := range strings.Lines(output) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		port, socket, _ := strings.Cut(rest, "\t")
		fields := strings.Fields(socket)
		if kind == "clients" {
			known = false
		}
		if len(fields) < 4 || len(all)+len(ends) >= mostClients {
			continue
		}
		local, localErr := netip.ParseAddrPort(plainSocket(fields[2]))
		peer, peerErr := netip.ParseAddrPort(plainSocket(fields[3]))
		number, portErr := strconv.ParseUint(port, 10, 16)
		switch {
		case localErr != nil || peerErr != nil || portErr != nil:
		case kind == "end":
			if name := processName.FindStringSubmatch(socket); name != nil {
				ends[unmapped(local)] = name[1]
			}
		case kind == "client" && uint64(local.Port()) == number:
			c := Client{Port: int(number), Address: peer.Addr().Unmap().String()}
			if ms := lastReceived.FindStringSubmatch(socket); ms != nil {
				n, _ := strconv.Atoi(ms[1]) // twelve digits fit
				c.Ago = time.Duration(n) * time.Millisecond
			}
			peers[len(all)] = peer
			all = append(all, c)
		}
	}
	for i := range all {
		all[i].Process = ends[unmapped(peers[i])]
	}
	return all, known
}

// interfaceName matches the interface that ss adds to an address: "127.0.0.1%lo:53".
var interfaceName = regexp.MustCompile(`%[^\]:]*`)

func plainSocket(text string) string { return interfaceName.ReplaceAllString(text, "") }

func unmapped(socket netip.AddrPort) string {
	return netip.AddrPortFrom(socket.Addr().Unmap(), socket.Port()).String()
}
