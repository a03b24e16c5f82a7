package load

// Observation is what clients observed during one change.
type Observation struct {
	Name string `json:"name"` // of the change
	// Criteria are what must hold, and Violated those that do not, in words.
	Criteria []string `json:"criteria"`
	Violated []string `json:"violated,omitempty"`
	Observed Summary  `json:"observed"`
}

// Observation returns what r says of the named change.
func (r Report) Observation(name string, c Criteria) Observation {
	return Observation{Name: name, Criteria: c.Words(r.Etcd != nil), Violated: Verdict(r, c), Observed: r.Summary()}
}
