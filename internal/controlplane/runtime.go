package controlplane

import "github.com/kubequorum/terraform-provider-kube/internal/host"

// runtime is what keeps the components running on a machine. The one there is
// now is systemd; static pods fit the same questions.
type runtime interface {
	// definition is the file that makes the runtime run c.
	definition(c component) host.File
	// borrowed is where component name reads a key that is another's.
	borrowed(name, key string) string
	// started is the file in which the runtime notes, at each start of
	// component name, the digests of its definition and inputs: the evidence
	// of whether what runs is what is on disk.
	started(name string) string
	// enable is a script that has every component run after a boot.
	enable() host.Script
	// start is a script that restarts the named components. It waits for their
	// old processes to end, not for the new ones to be ready.
	start(names []string) host.Script
	// stop is a script that ends the components and waits for that. It may be
	// repeated, and run where none ever was.
	stop() host.Script
	// pause is a script that ends the named components and waits for that; they
	// run again after start, or after a boot.
	pause(names []string) host.Script
	// overrides is the directory of files by which a person may change how
	// component name runs, past its definition.
	overrides(name string) string
	// parse reads a definition back: executable and flags.
	parse(definition string) (program string, flags map[string]string, err error)
}
