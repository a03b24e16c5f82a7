// Package systemd reads and writes the parts of unit files that all programs of a
// control plane share: the command of ExecStart=, the [Unit] section, resource
// limits, the sandbox, and the note of what a start has read. It knows nothing of
// the programs and touches no machine.
package systemd
