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
	// start is a script that has every component run now and after a boot,
	// those in restart anew. It does not wait for them.
	start(restart []string) string
	// stop is a script that ends the components and waits for that. It may be
	// repeated, and run where none ever was.
	stop() string
	// parse reads a definition back: executable and flags.
	parse(definition string) (program string, flags map[string]string, err error)
}
