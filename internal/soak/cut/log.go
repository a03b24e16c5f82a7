package cut

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// hasCut marks the last line of a log if the process was ended there.
const hasCut = "cut"

// record is the log entry of one command.
type record struct {
	command          int
	address, summary string
}

func (r record) line(what string) string {
	return fmt.Sprintf("%d\t%s\t%s\t%s", r.command, what, r.address, r.summary)
}

// Log is the parsed log of a provider process.
type Log struct {
	Commands int    // started commands
	Cut      bool   // the process was ended
	At       string // the command at which it was ended: machine and summary
}

// ReadLog parses the log of one process. If the file is missing, the process ran no command.
func ReadLog(path string) (Log, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return Log{}, nil
	} else if err != nil {
		return Log{}, fmt.Errorf("read log of commands: %w", err)
	}
	var log Log
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), "\t", 4)
		if len(fields) != 4 {
			return Log{}, fmt.Errorf("read log of commands: malformed line %q", line)
		}
		command, err := strconv.Atoi(fields[0])
		if err != nil {
			return Log{}, fmt.Errorf("read log of commands: malformed line %q", line)
		}
		log.Commands = max(log.Commands, command)
		if fields[1] == hasCut {
			log.Cut, log.At = true, fields[2]+": "+fields[3]
		}
	}
	return log, nil
}
