// Package release knows the releases of Kubernetes: their versions, what flags and
// feature gates each of their components has, and which of them may run beside each
// other.
package release

// The three components. The name is also that of the program, the unit and the user.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Components lists the three in the order in which they are started and reported.
func Components() []string { return []string{APIServer, ControllerManager, Scheduler} }
