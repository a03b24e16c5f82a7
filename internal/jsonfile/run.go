package jsonfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Run is what one run of a test or benchmark writes: its results, and what they are the results of.
type Run[T any] struct {
	// Commit is the hash of the commit, with "-dirty" if the checkout differed from it; "" in files
	// that were written before it was recorded.
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"` // when the run began
	Results []T       `json:"results"`
}

// ReadRun reads a run from the file at path. Older files are the list of results alone.
func ReadRun[T any](path string) (Run[T], error) {
	var r Run[T]
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	into := any(&r)
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		into = &r.Results
	}
	if err := json.Unmarshal(text, into); err != nil {
		return r, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}
