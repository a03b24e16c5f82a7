// Package jsonfile writes files of JSON that people read too.
package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write writes v, indented, to the file at path. Whoever reads it meanwhile, or after a power cut, has the earlier file
// or the whole new one.
func Write(path string, v any, mode fs.FileMode) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = replace(path, append(text, '\n'), mode)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// replace renames a new file to path, with the owner of the earlier one: root measures in the checkout of somebody
// else. Something else than a file, such as /dev/stdout, is written to.
func replace(path string, text []byte, mode fs.FileMode) error {
	earlier, err := os.Lstat(path)
	switch {
	case err == nil && !earlier.Mode().IsRegular():
		return os.WriteFile(path, text, mode)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // it is renamed if all went well
	if earlier != nil {
		owner := earlier.Sys().(*syscall.Stat_t)
		err = file.Chown(int(owner.Uid), int(owner.Gid))
	}
	_, failure := file.Write(text)
	if err = errors.Join(err, failure, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
