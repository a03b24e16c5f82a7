// Package release describes the releases of Kubernetes: their versions, the flags and feature
// gates of each component, and which versions may run together.
package release

// The three components. The name is also that of the program, the unit and the user.
const (
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

// Components returns the three components in the order in which they are started and reported.
func Components() []string { return []string{APIServer, ControllerManager, Scheduler} }
