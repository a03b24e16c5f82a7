// Package systemd reads and writes the parts of unit files that all programs of a control plane
// share: the command in ExecStart=, the [Unit] section, resource limits, the sandbox, and the
// start note that records which files a process has read. It does not depend on the programs
// and accesses no machine.
package systemd
