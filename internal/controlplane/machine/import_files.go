package machine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ReadConfigFiles reads the files of the user, by the list of those that the provider has
// written. It reads no write-only content: the digest is enough to compare.
func ReadConfigFiles(ctx context.Context, h *host.Host, facts host.Facts) (map[string]component.ConfigFile, error) {
	written := ReadWrittenFiles(facts.Files[FilesListPath].Content)
	if len(written) == 0 {
		return nil, nil
	}
	var query host.Query
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if at := component.ConfigFilePath(name); written[name].WriteOnly {
			query.Files = append(query.Files, at)
		} else {
			query.Contents = append(query.Contents, at)
		}
	}
	observed, err := h.Observe(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read the files in %s of %s: %w", component.FilesDir, h.Address(), err)
	}
	return observedConfigFiles(written, observed.Files), nil
}

// observedConfigFiles returns the files as they are on the machine. One that was removed there is
// not part of the replica that is imported.
func observedConfigFiles(
	written map[string]WrittenFile, files map[string]host.FileState,
) map[string]component.ConfigFile {
	observed := map[string]component.ConfigFile{}
	for name := range written {
		state, there := files[component.ConfigFilePath(name)]
		if !there || state.SHA256 == "" || state.Size > component.MaxConfigFileSize {
			continue
		}
		observed[name] = component.ConfigFile{
			Content: state.Content, SHA256: state.SHA256, Mode: state.Mode.Perm(), Owner: state.Owner,
			WriteOnly: written[name].WriteOnly,
		}
	}
	return observed
}
