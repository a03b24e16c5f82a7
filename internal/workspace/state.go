package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
)

// Resource is one resource instance of the state.
type Resource struct {
	Address string          `json:"address"`
	Type    string          `json:"type"`
	Tainted bool            `json:"tainted"`
	Values  json.RawMessage `json:"values"`
}

// State lists the resources of the root module.
func (w *Workspace) State(ctx context.Context) ([]Resource, error) {
	text, err := w.Run(ctx, "show", "-json")
	if err != nil {
		return nil, err
	}
	var document struct {
		Values struct {
			Root struct {
				Resources []Resource `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return document.Values.Root.Resources, nil
}

// Plan runs a plan and returns what it says, and whether it has changes.
func (w *Workspace) Plan(ctx context.Context, args ...string) (text string, changes bool, err error) {
	text, err = w.Run(ctx, append([]string{"plan", "-input=false", "-no-color", "-detailed-exitcode"}, args...)...)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 2 {
		return text, true, nil
	}
	return text, false, err
}
