package readiness

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func judgeEncryption(e Evidence) verdict {
	switch {
	case e.Encryption.Unread != "":
		return unknown("%s", e.Encryption.Unread)
	case e.Encryption.Provider == "" || e.Encryption.Provider == "identity":
		return fail("encryption is not set on the bundle: Secrets are stored unencrypted")
	case len(e.Encryption.Resources) > 0 && !slices.Contains(e.Encryption.Resources, "secrets"):
		return fail("%s is encrypted with %s, but secrets are not encrypted", strings.Join(e.Encryption.Resources, ", "),
			e.Encryption.Provider)
	}
	servers := everyAPIServer(e, func(flags, _ map[string]string) verdict {
		if flags["encryption-provider-config"] == "" {
			return fail("the API server runs without --encryption-provider-config")
		}
		return pass("%s", e.Encryption.Provider)
	})
	return worst(servers, e.Encryption.judgeStored())
}

// judgeStored judges what etcd has. An API server that encrypts rewrites nothing by itself, so
// what was stored before stays as it is.
func (e Encryption) judgeStored() verdict {
	switch {
	case e.StoredUnread != "":
		return unknown("%s", e.StoredUnread)
	case len(e.Stored) == 0:
		return unknown("what is stored is not known")
	}
	out := verdict{status: Pass}
	var words []string
	for _, resource := range slices.Sorted(maps.Keys(e.Stored)) {
		v := e.Stored[resource].judge(resource)
		out.status = worse(out.status, v.status)
		words = append(words, v.evidence)
	}
	out.evidence = strings.Join(words, ", ")
	return out
}

func (s Stored) judge(resource string) verdict {
	of := fmt.Sprintf("of %d %s", s.Objects, resource)
	if s.Partly {
		of = fmt.Sprintf("of the first %d %s", s.Objects, resource)
	}
	switch {
	case s.Clear > 0:
		return fail("%d %s are stored unencrypted", s.Clear, of)
	case s.Other > 0:
		return warn("%d %s are stored with another key", s.Other, of)
	case s.Partly:
		return notShown("all %s are stored encrypted, and more were not looked at", of)
	case s.Objects == 0:
		return pass("no %s are stored", resource)
	}
	return pass("all %s are stored encrypted", of)
}
