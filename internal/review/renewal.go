package review

import "time"

// backdate is how long before it is issued a certificate is valid already (pki.Bundle.Issue).
const backdate = 5 * time.Minute

// kubeconfig judges the update of a kubeconfig, which contacts no machine. It is a renewal if its
// time has come, which Judge decides. Otherwise its authority, its name or its seal changes.
func (s *scrutiny) kubeconfig(r planResource) {
	if s.arguments(r) {
		return
	}
	due, ok := renewalOf(attributes(r.Change.Before))
	if !ok {
		s.object(code(r.Address), "its lifetime cannot be read")
		return
	}
	s.changes = append(s.changes, scrutinized{address: r.Address, kind: r.Type, class: ClassRenewal, due: due})
}

// renewalOf returns from when on a kubeconfig is renewed, by its values. Without early_renewal it is
// renewed in the last third of its life (pki.Info.Due).
func renewalOf(values map[string]any) (time.Time, bool) {
	expires, err := time.Parse(time.RFC3339, textOf(values, "expires_at"))
	if err != nil {
		return time.Time{}, false
	}
	if textOf(values, "early_renewal") != "" {
		early, err := time.ParseDuration(textOf(values, "early_renewal"))
		return expires.Add(-early), err == nil
	}
	validity, err := time.ParseDuration(textOf(values, "validity"))
	return expires.Add(-(validity + backdate) / 3), err == nil
}

// drill judges the update of a restore drill, which changes no argument and nothing that serves: the drill runs
// again. It is due if the last one is older than it may be, which Judge decides.
func (s *scrutiny) drill(r planResource) {
	if s.arguments(r) {
		return
	}
	before := attributes(r.Change.Before)
	last, err := time.Parse(time.RFC3339, textOf(before, "completed_at"))
	every, err2 := time.ParseDuration(textOf(before, "every"))
	if err != nil || err2 != nil || every <= 0 {
		s.object(code(r.Address), "when it runs again cannot be read")
		return
	}
	s.changes = append(s.changes, scrutinized{address: r.Address, kind: r.Type, class: ClassDrill, due: last.Add(every)})
}

// textOf returns a text of values, "" if there is none.
func textOf(values map[string]any, name string) string {
	text, _ := values[name].(string)
	return text
}

// untimely returns why the change is not due at this time, or "".
func (c scrutinized) untimely(now time.Time) string {
	switch {
	case !c.due.After(now): // also without a time
		return ""
	case c.class == ClassDrill:
		return "runs again before its time"
	}
	return "is issued again before its time"
}
