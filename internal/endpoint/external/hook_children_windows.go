package external

import (
	"context"
	"os/exec"
	"strconv"
)

// endWithChildren lets the programs that a hook has started end with it when its context ends.
func endWithChildren(hook *exec.Cmd) {
	hook.Cancel = func() error {
		pid := strconv.Itoa(hook.Process.Pid)
		tree := exec.CommandContext(context.Background(), "taskkill", "/T", "/F", "/PID", pid)
		if tree.Run() == nil {
			return nil
		}
		return hook.Process.Kill()
	}
}
