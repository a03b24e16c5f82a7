package endpoint

// Where things are on a machine. Every path is the endpoint's own.
const (
	configDir    = "/etc/haproxy/kube"
	endpointPath = configDir + "/10-endpoint.cfg"
	backendsPath = configDir + "/20-backends.cfg"
	caPath       = configDir + "/ca.crt"

	keepalivedDir  = "/etc/keepalived"
	keepalivedPath = keepalivedDir + "/kube.conf"

	programDir = "/opt/kube/endpoint"
	askPath    = programDir + "/ask"
	reloadPath = programDir + "/reload"

	// packagesDir remembers what the package manager brought for the endpoint,
	// so that Delete takes away that and nothing else.
	packagesDir = "/var/lib/kube-endpoint"
	// installingPath is there while packages are installed, and after that was cut off.
	installingPath = packagesDir + "/installing"

	// The directories below /run that the units make and remove.
	runName           = "kube-endpoint"
	keepalivedRunName = "kube-endpoint-keepalived"

	runDir       = "/run/" + runName
	adminSocket  = runDir + "/haproxy.sock"
	masterSocket = runDir + "/master.sock"
	statePath    = runDir + "/servers.state"

	// stoppedPath holds 1 after HAProxy ended and 0 while it runs.
	stoppedPath = "/run/kube-endpoint-haproxy.stopped"

	haproxyUnit    = "kube-endpoint-haproxy.service"
	keepalivedUnit = "kube-endpoint-keepalived.service"
	unitDir        = "/etc/systemd/system/"

	// proxyName names HAProxy's frontend and backend.
	proxyName = "kube-apiserver"
)
