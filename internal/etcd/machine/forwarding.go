package machine

import "net"

// AskedAt returns the addresses at which the member on the machine with an address is asked, through sshd there.
func AskedAt(address string) []string {
	return []string{net.JoinHostPort(address, "2379"), healthAddress}
}
