package cut

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hasCut is what the last line of a log says when the process was ended there.
const hasCut = "cut"

// record is one command as a log has it.
type record struct {
	command          int
	address, summary string
}

func (r record) line(what string) string {
	return fmt.Sprintf("%d\t%s\t%s\t%s", r.command, what, r.address, r.summary)
}

// Log is what a provider process has written of itself.
type Log struct {
	Commands int    // that were begun
	Cut      bool   // the process was ended
	At       string // the command that it was ended at: machine and summary
}

// ReadLog reads the log of one process. One that is not there is of a process
// that came to no command.
func ReadLog(path string) (Log, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return Log{}, nil
	} else if err != nil {
		return Log{}, fmt.Errorf("read log of commands: %w", err)
	}
	var log Log
	for line := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSpace(line), "\t", 4)
		if len(words) != 4 {
			return Log{}, fmt.Errorf("read log of commands: malformed line %q", line)
		}
		command, err := strconv.Atoi(words[0])
		if err != nil {
			return Log{}, fmt.Errorf("read log of commands: malformed line %q", line)
		}
		log.Commands = max(log.Commands, command)
		if words[1] == hasCut {
			log.Cut, log.At = true, words[2]+": "+words[3]
		}
	}
	return log, nil
}
