// node-image writes a container image with one static program and nothing else, as an archive that
// "ctr images import" reads, so that nodes of a lab need no registry.
package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	reference := flag.String("reference", "", "the name of the image, as Pods refer to it")
	program := flag.String("program", "", "the file of the static program; its name is the program's name in /")
	directory := flag.String("directory", "/", "the directory of the program in the image")
	output := flag.String("output", "", "the archive to write")
	flag.Parse()
	if err := write(*reference, *program, *directory, *output); err != nil {
		fmt.Fprintln(os.Stderr, "node-image:", err)
		os.Exit(1)
	}
}

// write makes the image and writes it to output.
func write(reference, program, directory, output string) error {
	tag, err := name.NewTag(reference, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("parse reference: %w", err)
	}
	image, err := imageOf(program, directory)
	if err != nil {
		return fmt.Errorf("make image of %s: %w", program, err)
	}
	if err := tarball.WriteToFile(output, tag, image); err != nil {
		return fmt.Errorf("write image of %s: %w", program, err)
	}
	return nil
}

// imageOf returns an image that runs the program.
func imageOf(program, directory string) (v1.Image, error) {
	layer, err := layerOf(program, directory)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{path.Join(directory, filepath.Base(program))}
	return mutate.ConfigFile(image, config)
}
