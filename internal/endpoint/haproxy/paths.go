package haproxy

// Paths on a machine. The endpoint shares none of them.
const (
	configDir    = "/etc/haproxy/kube"
	endpointPath = configDir + "/10-endpoint.cfg"
	backendsPath = configDir + "/20-backends.cfg"
	caPath       = configDir + "/ca.crt"
	// waitingPath keeps keepalived from having the address: it holds 1 then, and 0 or nothing otherwise.
	waitingPath = configDir + "/waiting"

	keepalivedDir  = "/etc/keepalived"
	keepalivedPath = keepalivedDir + "/kube.conf"

	programDir = "/opt/kube/endpoint"
	askPath    = programDir + "/ask"
	reloadPath = programDir + "/reload"
	watchPath  = programDir + "/watch"

	// The directories below /run that the units create and remove.
	runName           = "kube-endpoint"
	keepalivedRunName = "kube-endpoint-keepalived"

	runDir       = "/run/" + runName
	adminSocket  = runDir + "/haproxy.sock"
	masterSocket = runDir + "/master.sock"
	statePath    = runDir + "/servers.state"

	// stoppedPath holds 1 after HAProxy ended and 0 while it runs.
	stoppedPath = "/run/kube-endpoint-haproxy.stopped"

	// vrrpPID names the process of keepalived that sends and receives advertisements.
	vrrpPID = "/run/" + keepalivedRunName + "/vrrp.pid"

	haproxyUnit    = "kube-endpoint-haproxy.service"
	keepalivedUnit = "kube-endpoint-keepalived.service"
	watchUnit      = "kube-endpoint-watch.service"
	unitDir        = "/etc/systemd/system/"

	// proxyName names HAProxy's frontend and backend.
	proxyName = "kube-apiserver"
)
