package host

import (
	"context"
	_ "embed"
)

// tokenVariable is set in the environment of every remote process of a command, so that the
// processes can be found when the command is cancelled. kill.sh defines which processes count.
const tokenVariable = "KUBE_COMMAND"

// leasesVariable contains the tokens of the leases under which a command runs, separated by commas. Whoever takes one
// of these leases next ends its processes first: see lease.sh.
const leasesVariable = "KUBE_LEASES"

//go:embed kill.sh
var killFunctions string

// killScript returns the script that ends the command with a token.
func killScript(token string) string {
	return string(Assignments(map[string]string{"token": token})) + withoutComments(killFunctions) +
		`kill_command "$token"` + "\n"
}

// killLeaseScript returns the script that ends the process of a lease, and the commands under it.
func killLeaseScript(token string) string {
	return killScript(token) + `kill_under_leases "$token"` + "\n"
}

// killStaleScript returns the script that ends commands whose connection was lost.
func killStaleScript() string { return withoutComments(killFunctions) + "kill_stale_commands\n" }

// killStaleCommands ensures, before the first change through a connection, that no command of a lost
// connection still runs. It is best effort: if it fails, the change that follows reports the
// cause.
func (c *connection) killStaleCommands(ctx context.Context) {
	c.staleMu.Lock()
	defer c.staleMu.Unlock()
	if c.staleKilled {
		return
	}
	c.staleKilled = c.run(ctx, invocation{line: c.rootLine("", killStaleScript(), nil)}) == nil
}
