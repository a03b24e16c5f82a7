package monitoring

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// dashboard is a dashboard of Grafana. Only what its import needs is set: the rest has defaults.
// https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/
type dashboard struct {
	UID           string     `json:"uid"`
	Title         string     `json:"title"`
	Tags          []string   `json:"tags"`
	SchemaVersion int        `json:"schemaVersion"`
	Refresh       string     `json:"refresh"`
	Time          timeRange  `json:"time"`
	Templating    templating `json:"templating"`
	Panels        []panel    `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

// variable is the choice of the data source, so that the same text serves every Grafana.
type variable struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Type  string `json:"type"`
	Query string `json:"query"`
}

type panel struct {
	ID          int               `json:"id"`
	Title       string            `json:"title"`
	Description string            `json:"description,omitempty"`
	Type        string            `json:"type"`
	Datasource  map[string]string `json:"datasource"`
	GridPos     gridPos           `json:"gridPos"`
	Targets     []query           `json:"targets"`
	FieldConfig fieldConfig       `json:"fieldConfig"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type query struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

type fieldConfig struct {
	Defaults fieldDefaults `json:"defaults"`
}

type fieldDefaults struct {
	Unit       string         `json:"unit,omitempty"`
	Thresholds *thresholds    `json:"thresholds,omitempty"`
	Custom     map[string]any `json:"custom,omitempty"`
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step is a color from a value on. The first has no value.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

// The units of Grafana.
const (
	seconds   = "s"
	bytesUnit = "bytes"
	perSecond = "reqps"
	percent   = "percentunit"
)

// The width of Grafana's grid, and of a panel: three stand side by side.
const (
	gridWidth   = 24
	panelWidth  = 8
	panelHeight = 7
)

// graph returns a panel of lines over time.
func graph(title, unit, expr, legend string) panel {
	return panel{
		Title: title, Type: "timeseries", Targets: []query{{"A", expr, legend}},
		FieldConfig: fieldConfig{fieldDefaults{Unit: unit}},
	}
}

// and returns the panel with one more query.
func (p panel) and(expr, legend string) panel {
	p.Targets = append(p.Targets, query{string(rune('A' + len(p.Targets))), expr, legend})
	return p
}

// above returns the panel with a line at the value from which on an alert fires.
func (p panel) above(value float64) panel {
	p.FieldConfig.Defaults.Thresholds = &thresholds{
		Mode: "absolute", Steps: []step{{"green", nil}, {"red", &value}},
	}
	p.FieldConfig.Defaults.Custom = map[string]any{"thresholdsStyle": map[string]string{"mode": "line"}}
	return p
}

// stat returns a panel with the last value, green from a value on, and red below.
func stat(title, expr, legend string, good float64) panel {
	p := graph(title, "", expr, legend)
	p.Type = "stat"
	p.FieldConfig.Defaults.Thresholds = &thresholds{
		Mode: "absolute", Steps: []step{{"red", nil}, {"green", &good}},
	}
	return p
}

// newDashboard lays the panels out, three in a row.
func (f Facts) newDashboard(kind, title string, panels []panel) dashboard {
	for i := range panels {
		const columns = gridWidth / panelWidth
		panels[i].ID = i + 1
		panels[i].GridPos = gridPos{panelHeight, panelWidth, i % columns * panelWidth, i / columns * panelHeight}
		panels[i].Datasource = map[string]string{"type": "prometheus", "uid": "${datasource}"}
	}
	return dashboard{
		UID: f.uid(kind), Title: fmt.Sprintf("%s / %s", f.Cluster, title),
		Tags: []string{"control-plane", f.Cluster}, SchemaVersion: 39, Refresh: "30s",
		Time:       timeRange{"now-3h", "now"},
		Templating: templating{[]variable{{"datasource", "Data source", "datasource", "prometheus"}}},
		Panels:     panels,
	}
}

// uid returns what Grafana knows a dashboard by: at most 40 characters, the same at each import.
func (f Facts) uid(kind string) string {
	return fmt.Sprintf("kube-%.8x", sha256.Sum256([]byte(f.Cluster+"/"+kind)))
}

// DashboardETCD returns the dashboard of etcd as JSON. It is empty without members.
func DashboardETCD(f Facts) (string, error) {
	if len(f.Members) == 0 {
		return "", nil
	}
	return render(f.newDashboard("etcd", "etcd", f.etcdPanels()))
}

// DashboardKubernetes returns the dashboard of API servers, controllers and schedulers as JSON. It is
// empty without replicas.
func DashboardKubernetes(f Facts) (string, error) {
	if len(f.Replicas) == 0 {
		return "", nil
	}
	return render(f.newDashboard("kubernetes", "Kubernetes control plane", f.kubernetesPanels()))
}

// DashboardOperations returns the dashboard of balancers and of what only the provider knows, as JSON. It
// is empty without both.
func DashboardOperations(f Facts) (string, error) {
	panels := f.operationsPanels()
	if len(panels) == 0 {
		return "", nil
	}
	return render(f.newDashboard("operations", "Operations", panels))
}

func render(d dashboard) (string, error) {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return "", fmt.Errorf("render the dashboard %s: %w", d.Title, err)
	}
	return string(text), nil
}
