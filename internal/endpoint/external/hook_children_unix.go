//go:build !windows

package external

import (
	"os/exec"
	"syscall"
)

// endWithChildren lets the programs that a hook has started end with it when its context ends.
func endWithChildren(hook *exec.Cmd) {
	hook.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hook.Cancel = func() error { return syscall.Kill(-hook.Process.Pid, syscall.SIGKILL) }
}
