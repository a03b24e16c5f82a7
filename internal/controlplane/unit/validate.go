package unit

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Validate returns why the components of a valid replica cannot run as units.
func Validate(s component.Replica) error {
	for _, name := range slices.Sorted(maps.Keys(s.Limits)) {
		if err := systemd.Limits(s.Limits[name]).Validate(); err != nil {
			return invalid(s, "resources", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Environment)) {
		if err := systemd.ValidateEnvironment(s.Environment[name]); err != nil {
			return invalid(s, "environment", err)
		}
	}
	if err := ValidateAuditLog(s.ExtraArgs[release.APIServer]); err != nil {
		return invalid(s, "extra_args", err)
	}
	for _, socket := range s.Sockets() {
		if err := checkVisible(socket); err != nil {
			return invalid(s, "pki", err)
		}
	}
	return nil
}

func invalid(s component.Replica, attribute string, err error) error {
	return &problem.Problem{
		Summary: "Invalid control-plane replica", Attribute: attribute, Host: s.Machine(),
		Cause: err.Error(), Unchanged: problem.Nothing, Err: err,
	}
}

// ValidateAuditLog returns why the API server's unit, with these extra arguments, could not write its audit log: it has
// one directory that it may write to.
func ValidateAuditLog(args map[string]string) error {
	file := args[component.AuditLogFlag]
	if file == "" || file == "-" || path.Dir(path.Clean(file)) == component.AuditLogDir {
		return nil
	}
	return fmt.Errorf("flag %q: the API server's unit may write below %s only", component.AuditLogFlag,
		component.AuditLogDir)
}

// hidden are directories that the API server's unit does not see, or sees as a private copy (see
// systemd.Sandbox).
var hidden = []string{"/tmp", "/var/tmp", "/home", "/root", "/run/user", "/dev", "/proc", "/sys"}

// ValidateSocket returns why the API server's unit could not open the socket of a KMS plugin at an
// endpoint such as "unix:///run/kms.sock".
func ValidateSocket(endpoint string) error {
	if err := component.ValidateSocket(endpoint); err != nil {
		return err
	}
	return checkVisible(strings.TrimPrefix(endpoint, "unix://"))
}

// checkVisible returns why the API server's unit does not see a socket. An abstract socket
// ("@name") is not a file.
func checkVisible(socket string) error {
	at := path.Clean(socket)
	for _, dir := range hidden {
		if strings.HasPrefix(at, dir+"/") {
			return fmt.Errorf("the socket %s is not seen by the API server, whose unit has no %s but its own: have the "+
				"plugin listen below /run", at, dir)
		}
	}
	return nil
}
