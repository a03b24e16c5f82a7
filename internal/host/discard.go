package host

import (
	"path"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Discard is a line of a Script that removes files together with what an Apply
// of them left beside them when the machine lost its power: nothing tidies up
// then, and part of a private key may be in it. What is not there is no error.
func Discard(paths ...string) Script {
	var words []string
	for _, p := range paths {
		words = append(words, shellescape.Quote(p), shellescape.Quote(path.Dir(p)+"/."+path.Base(p)+".kube-")+"*")
	}
	return Script("rm -f -- " + strings.Join(words, " ") + "\n")
}
