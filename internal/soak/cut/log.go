package cut

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hasCut marks the last line of a log if the process was ended there.
const hasCut = "cut"

// record is one line of the log: a side of a step, or that the process was ended there.
type record struct {
	number int
	what   string
	took   time.Duration // from the start on the machine to the end of the step
	key    Key
}

func (r record) String() string {
	return strings.Join([]string{
		strconv.Itoa(r.number), r.what, r.took.String(), r.key.Machine, strconv.Itoa(r.key.Occurrence), r.key.Command,
	}, "\t")
}

func parseRecord(line string) (record, error) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 6)
	if len(fields) != 6 {
		return record{}, fmt.Errorf("malformed line %q", line)
	}
	number, err := strconv.Atoi(fields[0])
	if err != nil {
		return record{}, fmt.Errorf("malformed line %q", line)
	}
	took, err := time.ParseDuration(fields[2])
	if err != nil {
		return record{}, fmt.Errorf("malformed line %q", line)
	}
	occurrence, err := strconv.Atoi(fields[4])
	if err != nil {
		return record{}, fmt.Errorf("malformed line %q", line)
	}
	return record{number, fields[1], took, Key{Machine: fields[3], Occurrence: occurrence, Command: fields[5]}}, nil
}

// Step is a remote command or a changing request of a run.
type Step struct {
	Key   Key
	Sides []Side        // that the run reached
	Took  time.Duration // from the start on the machine to the end; 0 if it did not reach both
}

// Log is the parsed log of a provider process.
type Log struct {
	Commands int    // steps that began
	Cut      bool   // the process was ended
	At       string // the step at which it was ended: machine and summary
	Steps    []Step // in the order in which they began
}

// ReadLog parses the log of one process. If the file is missing, the process did no step.
func ReadLog(path string) (Log, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return Log{}, nil
	} else if err != nil {
		return Log{}, fmt.Errorf("read log of commands: %w", err)
	}
	var log Log
	for line := range strings.Lines(string(text)) {
		r, err := parseRecord(line)
		if err != nil {
			return Log{}, fmt.Errorf("read log of commands: %w", err)
		}
		log.add(r)
	}
	return log, nil
}

func (l *Log) add(r record) {
	l.Commands = max(l.Commands, r.number)
	if r.what == hasCut {
		l.Cut, l.At = true, r.key.Machine+": "+r.key.Command
		return
	}
	i := slices.IndexFunc(l.Steps, func(s Step) bool { return s.Key == r.key })
	if i < 0 {
		i = len(l.Steps)
		l.Steps = append(l.Steps, Step{Key: r.key})
	}
	l.Steps[i].Sides = append(l.Steps[i].Sides, Side(r.what))
	l.Steps[i].Took = max(l.Steps[i].Took, r.took)
}
