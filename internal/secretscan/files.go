package secretscan

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Files returns all regular files of a directory by their names within it, and the contents of zip
// archives, such as plan files. skip reports files and directories that may contain secrets, or
// that are programs.
func Files(dir string, skip func(name string) bool) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case skip(name) && entry.IsDir():
			return fs.SkipDir
		case !entry.Type().IsRegular() || skip(name):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all[name] = data
		return Unzip(name, data, all)
	})
	return all, err
}

// Unzip adds the files of a zip archive, such as a plan file, to all. Other data adds nothing.
func Unzip(name string, data []byte, all map[string][]byte) error {
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return nil
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	for _, file := range archive.File {
		reader, err := file.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			return err
		}
		all[name+" → "+file.Name] = text
		if err := reader.Close(); err != nil {
			return err
		}
	}
	return nil
}
