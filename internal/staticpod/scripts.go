package staticpod

import (
	_ "embed"
	"strconv"

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

// The steps of a change of the kubelet's program. What it was is kept first, so that the change can be taken back, also
// by whoever lets a pod run after the change was cut off.
const (
	KeepKubelet  host.Script = "pod_kubelet_keep\n"
	KubeletBack  host.Script = "pod_kubelet_back\n" // starts the former kubelet
	KubeletStays host.Script = "pod_kubelet_done\n"
)

// Report returns a line of a script, after Functions, whose output Read parses. image is "" or an image of which it is
// reported whether the machine has it.
func Report(name, image string) host.Script { return "pod_report " + host.Words(name, image) + "\n" }

// Log returns a line of a script, after Functions, that prints the last lines of the newest container's log.
func Log(name string, lines int) host.Script {
	return "pod_log " + host.Words(name, strconv.Itoa(lines)) + "\n"
}
