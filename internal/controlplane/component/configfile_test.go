package component

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestValidateConfigFiles(t *testing.T) {
	admission := ConfigFilePath("a.yaml")
	flag := func(component, name, value string) map[string]map[string]string {
		return cptest.Args(component, name, value)
	}
	both := flag(release.APIServer, "admission-control-config-file", admission)
	both[release.Scheduler] = map[string]string{"config": admission}
	many := map[string]ConfigFile{}
	for i := range MaxConfigFiles + 1 {
		many[strings.Repeat("a", i+1)] = ConfigFile{}
	}
	for _, c := range []struct {
		name  string
		files map[string]ConfigFile
		extra map[string]map[string]string
		cause string // "" means valid
	}{
		{"nothing", nil, nil, ""},
		{
			"named by a flag",
			map[string]ConfigFile{"a.yaml": {Content: "x"}},
			flag(release.APIServer, "admission-control-config-file", admission), "",
		},
		{"named by no flag", map[string]ConfigFile{"a.yaml": {Content: "x"}}, nil, ""},
		{"content unknown", map[string]ConfigFile{"a.yaml": {}}, nil, ""},
		{
			"a flag names what is not there", nil,
			flag(release.APIServer, "egress-selector-config-file", ConfigFilePath("egress.yaml")),
			`there is no file "egress.yaml"`,
		},
		{
			"below a directory", nil, flag(release.APIServer, "egress-selector-config-file", FilesDir+"/sub/egress.yaml"),
			`there is no file "sub/egress.yaml"`,
		},
		{
			"in a list of paths",
			map[string]ConfigFile{"a.crt": {Content: "x"}},
			flag(release.Scheduler, "tls-sni-cert-key", ConfigFilePath("a.crt")+","+ConfigFilePath("a.key")),
			`there is no file "a.key"`,
		},
		{"elsewhere", nil, flag(release.APIServer, "egress-selector-config-file", "/etc/kubernetes/filesystem/x"), ""},
		{"out of the directory", nil, flag(release.APIServer, "egress-selector-config-file", FilesDir+"/../pki/ca.crt"), ""},
		{"escapes", map[string]ConfigFile{"../pki/ca.key": {}}, nil, "malformed file name"},
		{"absolute", map[string]ConfigFile{"/etc/passwd": {}}, nil, "malformed file name"},
		{"hidden", map[string]ConfigFile{".a": {}}, nil, "malformed file name"},
		{"empty name", map[string]ConfigFile{"": {}}, nil, "malformed file name"},
		{"empty", map[string]ConfigFile{"a": {SHA256: ContentDigest("")}}, nil, "it is empty"},
		{"NUL", map[string]ConfigFile{"a": {Content: "a\x00"}}, nil, "NUL"},
		{"largest", map[string]ConfigFile{"a": {Content: strings.Repeat("x", MaxConfigFileSize)}}, nil, ""},
		{"too large", map[string]ConfigFile{"a": {Content: strings.Repeat("x", MaxConfigFileSize+1)}}, nil, "at most 262144"},
		{"too many", many, nil, "at most 64"},
		{"mode", map[string]ConfigFile{"a": {Mode: 0o666}}, nil, "mode 0666"},
		{"owner", map[string]ConfigFile{"a": {Owner: "nobody"}}, nil, `owner "nobody"`},
		{
			"another's",
			map[string]ConfigFile{"a.yaml": {Owner: release.Scheduler}},
			flag(release.APIServer, "tracing-config-file", admission), `set owner = "kube-apiserver"`,
		},
		{
			"another's, readable",
			map[string]ConfigFile{"a.yaml": {Owner: release.Scheduler, Mode: PublicMode}},
			flag(release.APIServer, "tracing-config-file", admission), "",
		},
		{"root's", map[string]ConfigFile{"a.yaml": {Owner: "root"}}, nil, "cannot with owner root"},
		{"two readers", map[string]ConfigFile{"a.yaml": {}}, both, "kube-scheduler reads it"},
		{"two readers, readable", map[string]ConfigFile{"a.yaml": {Mode: 0o444}}, both, ""},
		{
			"reloaded",
			map[string]ConfigFile{"a.yaml": {NoRestart: true}},
			flag(release.APIServer, "authorization-config", admission), "",
		},
		{
			"not reloaded",
			map[string]ConfigFile{"a.yaml": {NoRestart: true}},
			flag(release.APIServer, "admission-control-config-file", admission), "at its start only",
		},
		{
			"not reloaded by the scheduler",
			map[string]ConfigFile{"a.yaml": {NoRestart: true}},
			flag(release.Scheduler, "config", admission), "at its start only",
		},
	} {
		err := ValidateConfigFiles(c.files, c.extra)
		if text := cptest.Text(err); (err == nil) != (c.cause == "") || !strings.Contains(text, c.cause) {
			t.Errorf("%s: %q, want %q", c.name, text, c.cause)
		}
	}
}

func TestParseConfigFileMode(t *testing.T) {
	for text, want := range map[string]uint32{
		"0600": 0o600, "0640": 0o640, "0644": 0o644, "0400": 0o400, "0440": 0o440, "0444": 0o444,
	} {
		if mode, err := ParseConfigFileMode(text); err != nil || uint32(mode) != want {
			t.Errorf("%s: %o, %v", text, mode, err)
		}
	}
	for _, text := range []string{
		"", "600", "0666", "0700", "0755", "04600", "4600", "0604", "0660", "06", "o600", "0200",
	} {
		if mode, err := ParseConfigFileMode(text); err == nil {
			t.Errorf("%q is mode %o", text, mode)
		}
	}
}

// TestPlacedFiles: the first component whose flags name a file owns it.
func TestPlacedFiles(t *testing.T) {
	s := testReplica(t)
	s.ExtraArgs = map[string]map[string]string{
		release.Scheduler:         {"config": ConfigFilePath("scheduler.yaml")},
		release.ControllerManager: {"cloud-config": ConfigFilePath("cloud.conf")},
	}
	s.ConfigFiles = map[string]ConfigFile{
		"scheduler.yaml": {Content: "a"}, "cloud.conf": {Content: "b", Owner: "root", Mode: PublicMode},
		"webhook.conf": {SHA256: ContentDigest("c")},
	}
	placed := PlacedFiles(s)
	for i, want := range []PlacedFile{
		{"cloud.conf", FilesDir + "/cloud.conf", ContentDigest("b"), PublicMode, "root", []byte("b")},
		{"scheduler.yaml", FilesDir + "/scheduler.yaml", ContentDigest("a"), SecretMode, release.Scheduler, []byte("a")},
		{"webhook.conf", FilesDir + "/webhook.conf", ContentDigest("c"), SecretMode, release.APIServer, nil},
	} {
		have := placed[i]
		if have.Name != want.Name || have.Path != want.Path || have.SHA256 != want.SHA256 || have.Mode != want.Mode ||
			have.Owner != want.Owner || string(have.Content) != string(want.Content) {
			t.Errorf("%+v, want %+v", have, want)
		}
	}
}

// TestConfigInputs: a change restarts the components whose flags name the file. One that no
// flag names is its owner's.
func TestConfigInputs(t *testing.T) {
	s := testReplica(t)
	both := map[string]string{"tls-sni-cert-key": ConfigFilePath("both")}
	s.ExtraArgs = map[string]map[string]string{release.APIServer: both, release.ControllerManager: both}
	s.ExtraArgs[release.APIServer]["authorization-config"] = ConfigFilePath("reloaded")
	s.ConfigFiles = map[string]ConfigFile{
		"both": {Mode: PublicMode}, "reloaded": {NoRestart: true}, "schedulers": {Owner: release.Scheduler},
		"roots": {Owner: "root", Mode: PublicMode}, "nobodys": {},
	}
	for component, want := range map[string][]string{
		release.APIServer:         {ConfigFilePath("both"), ConfigFilePath("nobodys"), ConfigFilePath("roots")},
		release.ControllerManager: {ConfigFilePath("both")},
		release.Scheduler:         {ConfigFilePath("schedulers")},
	} {
		all := Of(s)
		c := all[slices.IndexFunc(all, func(c Component) bool { return c.Name == component })]
		var have []string
		for _, input := range c.Inputs {
			if strings.HasPrefix(input, FilesDir+"/") {
				have = append(have, input)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s reads %q, want %q", component, have, want)
		}
	}
}

func TestUnusedConfigFiles(t *testing.T) {
	named := cptest.Args(release.APIServer, "admission-control-config-file", ConfigFilePath("a"))
	for _, c := range []struct {
		name  string
		files map[string]ConfigFile
		want  []string
	}{
		{"by a flag", map[string]ConfigFile{"a": {Content: "x"}}, nil},
		{"by a file", map[string]ConfigFile{"a": {Content: "path: " + ConfigFilePath("b") + "\n"}, "b": {Content: "x"}}, nil},
		{
			"at the end of a sentence",
			map[string]ConfigFile{"a": {Content: "# " + ConfigFilePath("b.yaml") + "."}, "b.yaml": {Content: "x"}},
			nil,
		},
		{"by itself", map[string]ConfigFile{"b": {Content: ConfigFilePath("b")}}, []string{"b"}},
		{"by nothing", map[string]ConfigFile{"a": {Content: "x"}, "b": {Content: "x"}}, []string{"b"}},
		{"not known", map[string]ConfigFile{"a": {}, "b": {Content: "x"}}, nil},
	} {
		if have := UnusedConfigFiles(c.files, named); !slices.Equal(have, c.want) {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
	missing := MissingConfigFiles(map[string]ConfigFile{"a": {Content: ConfigFilePath("b") + " " + ConfigFilePath("a")}})
	if len(missing) != 1 || !slices.Equal(missing["a"], []string{"b"}) {
		t.Errorf("missing: %v", missing)
	}
}

func TestHoldsSecret(t *testing.T) {
	for text, want := range map[string]bool{
		"-----BEGIN EC PRIVATE KEY-----": true, "users:\n- user:\n    client-key-data: LS0t\n": true, "    token: abc": true,
		"- token: abc": true, "password: x": true,
		"kind: AdmissionConfiguration": false, "# a token: is needed": false, "tokenFile: /x": false, "token:\n": false,
	} {
		if have := HoldsSecret(text); have != want {
			t.Errorf("%q: %t", text, have)
		}
	}
}
