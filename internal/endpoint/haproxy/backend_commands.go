package haproxy

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed running.sh
	runningScript host.Script
	//go:embed backends.sh
	backendsScript host.Script
	//go:embed register.sh
	registerScript host.Script
	//go:embed drain.sh
	drainScript host.Script
	//go:embed undrain.sh
	undrainScript host.Script
	//go:embed wait.sh
	waitScript host.Script
	//go:embed deregister.sh
	deregisterScript host.Script
)

// The answers of the rotation scripts: the first word of their output.
const (
	answerAbsent  = "absent"  // nothing of the endpoint is on the machine
	answerStopped = "stopped" // HAProxy does not run; its file is up to date
	answerUp      = "up"
	answerDown    = "down" // registered, but its check does not pass; statistics follow
	answerUnknown = "unknown"
	answerLast    = "last"    // refused: no other server would serve; statistics follow
	answerAnother = "another" // refused: another server does not serve; statistics follow
	answerDrained = "drained"
	answerIdle    = "idle"  // drained; its checks fail, so it gets no new connections anyway
	answerReady   = "ready" // as it was before the drain
	answerGone    = "gone"
)

// backendCommand returns the command of one script, which does what to a replica. Registrar.runOn adds the owner of the
// endpoint.
func backendCommand(what string, script host.Script, at server, seconds int) host.Command {
	vars := map[string]string{"name": at.Name, "address": "", "seconds": strconv.Itoa(seconds), "header": backendsHeader}
	if at.Address.IsValid() {
		vars["address"] = at.Address.String()
	}
	return host.Command{
		What: what + " replica " + at.Name, Script: withOwner(runningScript + backendsScript + script), Vars: vars,
	}
}

// answer splits the output of a script into its first word and the rest.
func answer(output string) (word, rest string) {
	word, rest, _ = strings.Cut(output, "\n")
	return strings.TrimSpace(word), rest
}
