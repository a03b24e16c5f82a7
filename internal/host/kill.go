package host

import (
	"context"
	_ "embed"
)

// tokenVariable is in the environment of every remote process of a command, by
// which they are found again when it is cancelled. See kill.sh for whose counts.
const tokenVariable = "KUBE_COMMAND"

//go:embed kill.sh
var killFunctions string

// killScript ends the command with a token.
func killScript(token string) string {
	return string(Assignments(map[string]string{"token": token})) + withoutComments(killFunctions) + `kill_command "$token"` + "\n"
}

// orphansScript ends commands whose connection was lost.
func orphansScript() string { return withoutComments(killFunctions) + "kill_orphans\n" }

// endOrphans makes sure, before the first change through a connection, that no
// command of a lost one is still at work. It is best effort: where it fails, the
// change that follows has more to say about why.
func (c *connection) endOrphans(ctx context.Context) {
	c.orphansMu.Lock()
	defer c.orphansMu.Unlock()
	if c.orphansEnded {
		return
	}
	c.orphansEnded = c.run(ctx, invocation{line: c.rootLine("", orphansScript())}) == nil
}
