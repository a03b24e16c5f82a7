package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Size is the size of a database: the bytes of the values in it.
type Size int64

const (
	megabyte Size = 1_000_000
	gigabyte Size = 1_000_000_000
)

var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,5}) ?(MB|GB)$`)

// ParseSizes parses a list like "10MB,1GB".
func ParseSizes(text string) ([]Size, error) {
	var sizes []Size
	for word := range strings.SplitSeq(text, ",") {
		parts := sizeForm.FindStringSubmatch(strings.TrimSpace(word))
		if parts == nil {
			return nil, fmt.Errorf("size %q is not valid: use a list like 10MB,1GB", word)
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("size %q: %w", word, err)
		}
		unit := megabyte
		if parts[2] == "GB" {
			unit = gigabyte
		}
		sizes = append(sizes, Size(n)*unit)
	}
	return sizes, nil
}

// String returns the size as it is in the names of results, and ParseSizes parses it again.
func (s Size) String() string {
	if s%gigabyte == 0 {
		return fmt.Sprintf("%d GB", s/gigabyte)
	}
	return fmt.Sprintf("%d MB", s/megabyte)
}

// rounds returns how often a database is measured: a round of more than 1 GB takes many minutes.
func (s Size) rounds() int {
	if s > gigabyte {
		return 3
	}
	return rounds
}
