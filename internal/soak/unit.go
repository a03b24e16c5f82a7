package soak

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// partFiles are the configurations of a cluster that several states describe: the shared part
// (base), and a part of its members and replicas (unit).
//
//go:embed parts/base/*.tf parts/unit/*.tf
var partFiles embed.FS

// unit is one Terraform directory with its own state.
type unit struct {
	name      string
	work      *workspace.Workspace
	variables map[string]any
}

// newUnit creates the directory of a unit from one of the two configurations. program is the
// provider's, as in workspace.Workspace.
func newUnit(ctx context.Context, e *Env, name, configuration, program string) (*unit, error) {
	files, err := fs.Sub(partFiles, "parts/"+configuration)
	if err != nil {
		return nil, err
	}
	w, err := workspace.Open(ctx, e.Lab, filepath.Join(e.Dir, name), "")
	if err != nil {
		return nil, err
	}
	w.Program = program
	return &unit{name: name, work: w, variables: map[string]any{}}, w.MakeFrom(ctx, files, io.Discard)
}

// write writes the unit's variables.
func (u *unit) write() error { return u.work.WriteJSON("terraform.tfvars.json", u.variables) }

// share passes the base's outputs to the unit.
func (u *unit) share(ctx context.Context, base *unit) error {
	text, err := base.work.Run(ctx, "output", "-json")
	if err != nil {
		return err
	}
	var outputs map[string]struct{ Value json.RawMessage }
	if err := json.Unmarshal([]byte(text), &outputs); err != nil {
		return fmt.Errorf("read outputs: %w", err)
	}
	for _, name := range []string{"pki", "registration"} {
		if value := outputs[name].Value; value != nil {
			u.variables[name] = value
		}
	}
	return nil
}

// applyOutcome is how an apply ended.
type applyOutcome string

const (
	applied applyOutcome = "applied"
	refused applyOutcome = "refused" // before it changed anything
	stopped applyOutcome = "stopped" // after a part of it; the rest was refused before it changed anything
	cutOff  applyOutcome = "cut off" // the provider was killed
	failing applyOutcome = "failed"  // in the middle of a change
)

// outcomeOf derives how an apply ended from its changes and its errors.
func outcomeOf(done []workspace.Timing, err error) applyOutcome {
	if err == nil {
		return applied
	}
	var failure *workspace.FailedError
	if !errors.As(err, &failure) || len(failure.Errors()) == 0 {
		return failing
	}
	touched := func(d workspace.Diagnostic) bool { return !strings.Contains(d.Detail, "Unchanged: "+problem.Nothing) }
	switch {
	case slices.ContainsFunc(failure.Errors(), touched):
		return failing
	case len(done) > 0:
		return stopped
	}
	return refused
}

// errorsOf joins the errors of an apply on one line, for a detail.
func errorsOf(err error) string {
	var failure *workspace.FailedError
	if !errors.As(err, &failure) || len(failure.Errors()) == 0 {
		return strings.Join(strings.Fields(fmt.Sprint(err)), " ")
	}
	var all []string
	for _, d := range failure.Errors() {
		all = append(all, strings.Join(strings.Fields(d.Summary+": "+d.Detail), " "))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " | ")
}
