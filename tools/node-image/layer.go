package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layerOf returns a layer with the program in a directory. Nothing in it depends on the time or on this computer.
func layerOf(program, directory string) (v1.Layer, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{
		Name: strings.TrimPrefix(path.Join(directory, filepath.Base(program)), "/"),
		Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg,
	}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}
