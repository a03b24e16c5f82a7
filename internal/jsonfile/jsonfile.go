// Package jsonfile writes files of JSON that people read too.
package jsonfile

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
)

// Write writes v, indented, to the file at path.
func Write(path string, v any, mode fs.FileMode) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.WriteFile(path, append(text, '\n'), mode)
}
