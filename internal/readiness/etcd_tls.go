package readiness

import (
	"strings"
)

func judgeEtcdTLS(e Evidence) verdict {
	return everyMember(e, func(m Member) verdict {
		if !m.Process.Running {
			return unknown("etcd is not running")
		}
		flags := m.Process.Flags
		var lacks []string
		for _, flag := range []string{
			"cert-file", "key-file", "trusted-ca-file", "peer-cert-file", "peer-key-file",
			"peer-trusted-ca-file",
		} {
			if flags[flag] == "" {
				lacks = append(lacks, "--"+flag)
			}
		}
		for _, flag := range []string{"client-cert-auth", "peer-client-cert-auth"} {
			if !isOn(flags, flag, false) {
				lacks = append(lacks, "--"+flag)
			}
		}
		if len(lacks) > 0 {
			return fail("not set: %s", strings.Join(lacks, ", "))
		}
		return m.TLS.judge()
	})
}

// judge judges the contents of the files.
func (t TLS) judge() verdict {
	if t.Unread != "" {
		return unknown("its certificates cannot be read: %s", t.Unread)
	}
	var refused []string
	for _, side := range []struct {
		name string
		Side
	}{{"clients", t.Clients}, {"peers", t.Peers}} {
		if side.Key == "" {
			return unknown("the certificate for %s cannot be read", side.name)
		}
		if side.Refused != "" {
			refused = append(refused, "the certificate for "+side.name+" is refused: "+side.Refused)
		}
		if len(side.Foreign) > 0 {
			refused = append(refused, "whoever has a certificate of the CA "+strings.Join(side.Foreign, ", ")+
				" is accepted among "+side.name)
		}
	}
	switch {
	case len(refused) > 0:
		return fail("%s", strings.Join(refused, "; "))
	case t.Clients.Key == t.Peers.Key:
		return warn("peers and clients get certificates of the same key")
	}
	return pass("client certificates are required; peers and clients get certificates of two keys, which verify")
}
