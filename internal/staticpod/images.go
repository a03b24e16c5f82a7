package staticpod

import (
	"context"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Image is an image that a machine needs, and the archive that a source's directory may have of it.
type Image struct {
	Reference string
	Archive   host.Artifact
}

// Machine is what Provide needs of a machine.
type Machine interface {
	Install(ctx context.Context, src host.Source, artifacts []host.Artifact) ([]host.Artifact, error)
	Run(ctx context.Context, c host.Command) (string, error)
}

// Provide gives a machine those images that it does not have. An image whose archive is in the source's directory is
// uploaded and imported, and the machine pulls the others.
func Provide(ctx context.Context, m Machine, src host.Source, images []Image) error {
	uploads, err := missingUploads(ctx, m, src, images)
	if err != nil {
		return err
	}
	script := Functions()
	var archives []host.Artifact
	for _, image := range images {
		if !uploads[image.Reference] {
			script += pull(image.Reference)
			continue
		}
		problem.Progress(ctx, "importing %s", image.Reference)
		archives = append(archives, image.Archive)
		script += importArchive(image.Reference, image.Archive.Path())
	}
	if len(archives) > 0 {
		if _, err := m.Install(ctx, src, archives); err != nil {
			return err //nolint:wrapcheck // it names the archive and the machine
		}
	}
	_, err = m.Run(ctx, host.Command{Script: script})
	return err //nolint:wrapcheck // it says what failed
}

// ProvideForStart is Provide for pods that are about to start: the image of sandboxes, as the container runtime is
// configured, must be there too.
func ProvideForStart(ctx context.Context, m Machine, src host.Source, images []Image) error {
	if err := Provide(ctx, m, src, images); err != nil {
		return err
	}
	_, err := m.Run(ctx, host.Command{Script: Functions() + "pod_sandbox\n"})
	return err //nolint:wrapcheck // it says what failed
}

// missingUploads returns the images with an archive that the machine does not have. It is not asked without archives.
func missingUploads(ctx context.Context, m Machine, src host.Source, images []Image) (map[string]bool, error) {
	script := Functions()
	uploads := map[string]bool{}
	for _, image := range images {
		if src.Has(image.Archive) {
			uploads[image.Reference] = false
			script += "pod_lacks " + host.Words(image.Reference) + "\n"
		}
	}
	if len(uploads) == 0 {
		return nil, nil
	}
	out, err := m.Run(ctx, host.Command{Script: script})
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what failed
	}
	for line := range strings.Lines(out) {
		reference := strings.TrimSuffix(line, "\n")
		if _, known := uploads[reference]; known {
			uploads[reference] = true
		}
	}
	return uploads, nil
}

// pull returns a line of a script, after Functions, that pulls an image that the machine does not have.
func pull(image string) host.Script { return "pod_pull " + host.Words(image) + "\n" }

// importArchive returns a line of a script, after Functions, that imports an image from an archive on the machine, and
// removes the archive.
func importArchive(image, archive string) host.Script {
	return "pod_import " + host.Words(image, archive) + "\n"
}
