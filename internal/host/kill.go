package host

import "context"

// tokenVariable is in the environment of every remote process of a command, by
// which they are found again when it is cancelled.
const tokenVariable = "KUBE_COMMAND"

// killFunction kills whatever carries a token in its environment, or still on
// its command line, as the login shell does before it becomes the command. It
// looks again until nothing is left, for a process may have forked meanwhile,
// and a little longer where nothing was found at all: sshd's child may not have
// become the login shell yet. The pattern comes on standard input, so that the
// search does not find itself.
const killFunction = `kill_command() {
  found='' tries=0
  while [ $tries -lt 3 ]; do
    tries=$((tries + 1))
    again=''
    for file in $(echo ` + tokenVariable + `''="$1" | grep -laFsf - /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true); do
      process=${file#/proc/}
      kill -KILL "${process%/*}" 2>/dev/null && again=yes found=yes
    done
    if [ -n "$again" ]; then tries=0; elif [ -n "$found" ]; then return 0; else sleep 0.1; fi
  done
}
`

// killScript ends the command with a token.
func killScript(token string) string { return killFunction + "kill_command " + token }

// orphansScript ends commands whose connection was lost. They go on as children
// of process 1, for sshd does not end what it has started, and could undo what
// is going to be done. Every command may be cut off at any point, so they are not
// waited for.
const orphansScript = killFunction + `for file in $(grep -laFs ` + tokenVariable + `= /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true); do
  process=${file%/*}
  grep -qs '^PPid:[[:space:]]*1$' "$process/status" || continue
  token=$(cat "$process/environ" "$process/cmdline" 2>/dev/null | tr '\0' '\n' | sed -n 's/^` + tokenVariable + `=\([0-9a-f]*\)$/\1/p' | head -n 1)
  [ -z "$token" ] || kill_command "$token"
done`

// endOrphans makes sure, before the first change through a connection, that no
// command of a lost one is still at work. It is best effort: where it fails, the
// change that follows has more to say about why.
func (c *connection) endOrphans(ctx context.Context) {
	c.orphansMu.Lock()
	defer c.orphansMu.Unlock()
	if c.orphansEnded {
		return
	}
	c.orphansEnded = c.run(ctx, invocation{line: c.rootLine("", orphansScript)}) == nil
}
