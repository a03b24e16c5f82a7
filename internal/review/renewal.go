package review

import "time"

// kubeconfigLife is when a kubeconfig expires, and how long before that it is renewed.
type kubeconfigLife struct {
	expires time.Time
	early   time.Duration
}

// backdate is how long before it is issued a certificate is valid already (pki.Bundle.Issue).
const backdate = 5 * time.Minute

// kubeconfig judges the update of a kubeconfig, which contacts no machine. It is a renewal if its
// time has come, which Judge decides. Otherwise its authority, its name or its seal changes.
func (s *scrutiny) kubeconfig(r planResource) {
	if s.arguments(r) {
		return
	}
	life, ok := lifeOf(attributes(r.Change.Before))
	if !ok {
		s.object(code(r.Address), "its lifetime cannot be read")
		return
	}
	s.changes = append(s.changes, scrutinized{address: r.Address, class: ClassRenewal, kubeconfig: &life})
}

// lifeOf reads the lifetime of a kubeconfig from its values. Without early_renewal it is renewed
// in the last third of it (pki.Info.Due).
func lifeOf(values map[string]any) (kubeconfigLife, bool) {
	text := func(name string) string {
		value, _ := values[name].(string)
		return value
	}
	expires, err := time.Parse(time.RFC3339, text("expires_at"))
	if err != nil {
		return kubeconfigLife{}, false
	}
	if text("early_renewal") != "" {
		early, err := time.ParseDuration(text("early_renewal"))
		return kubeconfigLife{expires, early}, err == nil
	}
	validity, err := time.ParseDuration(text("validity"))
	return kubeconfigLife{expires, (validity + backdate) / 3}, err == nil
}

// untimely returns why the change is no renewal at this time, or "".
func (c scrutinized) untimely(now time.Time) string {
	if c.kubeconfig != nil && c.kubeconfig.expires.Sub(now) > c.kubeconfig.early {
		return "is issued again before its time"
	}
	return ""
}
