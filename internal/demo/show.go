package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// show refreshes the state, asks the API through the virtual IP, and draws.
func show(
	ctx context.Context, w *workspace.Workspace, out io.Writer, timings []workspace.Timing, total time.Duration,
) error {
	if _, err := w.Run(ctx, "apply", "-refresh-only", "-auto-approve", "-input=false", "-no-color"); err != nil {
		return err
	}
	resources, err := w.State(ctx)
	if err != nil {
		return err
	}
	state, err := stateOf(resources)
	if err != nil {
		return err
	}
	answer, err := ask(ctx, w)
	if err != nil {
		return err
	}
	screen := screen{State: state, answer: answer, Timings: timings, Total: total, Now: time.Now()}
	_, err = io.WriteString(out, screen.Text())
	return err
}

// ask uses the API as an administrator does: kubectl through the virtual IP.
func ask(ctx context.Context, w *workspace.Workspace) (answer, error) {
	kubeconfig, err := w.Run(ctx, "output", "-raw", "kubeconfig")
	if err != nil {
		return answer{}, err
	}
	file := filepath.Join(w.Dir, kubeconfigName)
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		return answer{}, fmt.Errorf("write kubeconfig: %w", err)
	}
	kubernetes, err := build.Set(ctx, "kubernetes")
	if err != nil {
		return answer{}, err
	}
	get := func(path string) (string, error) {
		cmd := w.InLab(ctx, filepath.Join(kubernetes, "kubectl"), "--kubeconfig", file, "get", "--raw", path)
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("ask the API for %s through the virtual IP: %w", path, err)
		}
		return string(out), nil
	}
	ready, err := get("/readyz")
	if err != nil {
		return answer{}, err
	}
	text, err := get("/version")
	if err != nil {
		return answer{}, err
	}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal([]byte(text), &version); err != nil {
		return answer{}, fmt.Errorf("read the API's version: %w", err)
	}
	return answer{Ready: strings.TrimSpace(ready), Version: version.GitVersion}, nil
}
