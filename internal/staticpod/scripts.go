package staticpod

import (
	_ "embed"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed pod.sh
var functions host.Script

//go:embed kubelet_change.sh
var kubeletFunctions host.Script

// Functions are the shell functions of static pods: see pod.sh and kubelet_change.sh.
func Functions() host.Script {
	return host.FlushFunction() + kubeletFunctions.WithoutComments() + functions.WithoutComments()
}

// stopTimeout is how long Stop waits: longer than the grace period of a pod and the kubelet's own delays.
const stopTimeout = 2 * time.Minute

// The steps of a change of the kubelet's program. What it was is kept first, so that the change can be taken back, also
// by whoever lets a pod run after the change was cut off.
const (
	KeepKubelet  host.Script = "pod_kubelet_keep\n"
	KubeletBack  host.Script = "pod_kubelet_back\n" // starts the former kubelet
	KubeletStays host.Script = "pod_kubelet_done\n"
)

// Place returns a line of a script, after Functions, that lets the kubelet run the pod of a definition: a manifest that
// is kept elsewhere. The script does not wait for the start.
func Place(name, definition string) host.Script {
	return "pod_place " + host.Words(name, definition) + "\n"
}

// Stop returns a line of a script, after Functions, that takes the manifest of the pod away and waits until its
// containers have ended and nothing listens on the ports. The definition stays where it is. Other manifests of the
// same pod are moved to the directory moved, because one of them would run next. It fails if that does not happen.
func Stop(name, moved string, ports ...int) host.Script {
	words := []string{name, moved, strconv.Itoa(int(stopTimeout.Seconds()))}
	for _, port := range ports {
		words = append(words, strconv.Itoa(port))
	}
	return "pod_stop " + host.Words(words...) + "\n"
}

// Report returns a line of a script, after Functions, whose output Read parses. image is "" or an image of which it is
// reported whether the machine has it.
func Report(name, image string) host.Script { return "pod_report " + host.Words(name, image) + "\n" }

// Log returns a line of a script, after Functions, that prints the last lines of the newest container's log.
func Log(name string, lines int) host.Script {
	return "pod_log " + host.Words(name, strconv.Itoa(lines)) + "\n"
}
