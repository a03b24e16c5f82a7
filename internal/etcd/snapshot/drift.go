// Package snapshot saves and verifies snapshots of etcd on a member's machine: at once, or
// on a schedule by a systemd timer. It decides what is to be written and what differs; the
// caller observes and changes the machine.
package snapshot

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Job returns the timer of the scheduled snapshots of m, with its files.
func (m Member) Job() timer.Job {
	return timer.Job{Name: jobName, Files: m.Files(), Paths: Paths, UserFiles: []string{UploadPath, StorePath}}
}

// Problems lists what keeps the scheduled snapshots of m from being set up on the
// machine. It includes the answers of the machine only if files must be written: a later
// problem must not keep a member from being repaired.
func (m Member) Problems(facts host.Facts) []string {
	problems, changes := m.Job().Foreign(facts)
	if changes {
		problems = append(problems, m.answers(facts.Output)...)
	}
	return problems
}

// Output of questions.sh for a schedule, an environment file and a credentials file that the
// machine cannot use.
const (
	BadCalendar   = "calendar"
	NoEnvironment = "environment"
	NoCredentials = "credentials"
	OpenToOthers  = "credentials-mode"
)

//go:embed questions.sh
var questionsScript host.Script

// Questions returns the script that checks on a machine what only the machine
// knows about the scheduled snapshots of m, with the variables of the script.
func (m Member) Questions() (script host.Script, vars map[string]string) {
	if m.Settings == nil {
		return "", nil
	}
	credentials := ""
	if m.Settings.S3 != nil {
		credentials = m.Settings.S3.CredentialsFile
	}
	return questionsScript, map[string]string{
		"schedule": m.Settings.Schedule, "environment": m.Settings.EnvironmentFile, "credentials": credentials,
	}
}

// answers returns the problems in the output of the script of Questions.
func (m Member) answers(output string) []string {
	var problems []string
	reported := strings.Fields(output)
	if slices.Contains(reported, BadCalendar) {
		problems = append(problems, fmt.Sprintf("its systemd rejects the schedule %q of snapshots (run systemd-analyze "+
			"calendar '%s' for the reason)", m.Settings.Schedule, m.Settings.Schedule))
	}
	if slices.Contains(reported, NoEnvironment) {
		problems = append(problems, fmt.Sprintf("environment_file %s of snapshots does not exist: "+
			"create it on the machine first", m.Settings.EnvironmentFile))
	}
	if m.Settings.S3 == nil {
		return problems
	}
	if slices.Contains(reported, NoCredentials) {
		problems = append(problems, fmt.Sprintf("s3.credentials_file %s of snapshots does not exist: "+
			"create it on the machine first, with mode 0600", m.Settings.S3.CredentialsFile))
	}
	if slices.Contains(reported, OpenToOthers) {
		problems = append(problems, fmt.Sprintf("s3.credentials_file %s of snapshots is open to other users: "+
			"give it mode 0600 and the owner root, and replace the credentials if others have had access",
			m.Settings.S3.CredentialsFile))
	}
	return problems
}
