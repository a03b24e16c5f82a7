package build

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// kind is the cache directory of a set.
type kind string

const (
	component kind = "components" // runs on machines
	tool      kind = "tools"      // runs on this computer
)

// set is the output of one pinned module: the components of a product, or a tool.
type set struct {
	name      string // the name that callers use: "etcd", "etcd-3.5"
	product   string // the product that it is a release of: "etcd"; for a tool, its name
	kind      kind
	folder    string // in tools/: the module that pins everything
	versionOf string // the required module whose version is the set's
	programs  []program
	stamp     func(version string) []string // linker flags that set the version in the programs
}

// program is one executable of a set.
type program struct {
	name string // its file name: "etcd"
	pkg  string // its main package: "go.etcd.io/etcd/server/v3"
	test bool   // it consists of the tests of the package
}

// catalogue returns every set. Versions are defined only in the go.mod of the set's folder. The
// set that has the product's name is the default; the others are the versions that upgrades
// start from or lead to.
func catalogue() []set {
	return append([]set{
		etcd("etcd", "etcd-3.6"),
		etcd("etcd-3.5", "etcd-3.5"),
		etcd("etcd-3.5-before", "etcd-3.5-before"),
		etcd("etcd-3.6-before", "etcd-3.6-before"),
		etcd("etcd-3.7", "etcd-3.7"),
		kubernetes("kubernetes", "kubernetes-1.36", "kubeadm", "kubectl"),
		kubernetes("kubernetes-1.32", "kubernetes-1.32"),
		kubernetesNode("kubernetes-1.32-node", "kubernetes-1.32"),
		kubernetes("kubernetes-1.33", "kubernetes-1.33"),
		kubernetesNode("kubernetes-1.33-node", "kubernetes-1.33"),
		kubernetes("kubernetes-1.34", "kubernetes-1.34"),
		kubernetesNode("kubernetes-1.34-node", "kubernetes-1.34"),
		kubernetes("kubernetes-1.35", "kubernetes-1.35"),
		kubernetesNode("kubernetes-1.35-node", "kubernetes-1.35"),
		kubernetesNode("kubernetes-1.36-node", "kubernetes-1.36"),
		kubernetesTests("kubernetes-1.36-e2e", "kubernetes-1.36-e2e"),
		kubernetes("kubernetes-1.36-before", "kubernetes-1.36-before"),
	}, append(tools(), servers()...)...)
}

// etcd returns the set of one release of etcd.
func etcd(name, folder string) set {
	return set{
		name: name, product: "etcd", kind: component, folder: folder, versionOf: "go.etcd.io/etcd/server/v3",
		programs: []program{
			{name: "etcd", pkg: "go.etcd.io/etcd/server/v3"},
			{name: "etcdctl", pkg: "go.etcd.io/etcd/etcdctl/v3"},
			{name: "etcdutl", pkg: "go.etcd.io/etcd/etcdutl/v3"},
		},
	}
}

// kubernetes returns the set of one release of Kubernetes: the components of a control plane,
// and more.
func kubernetes(name, folder string, more ...string) set {
	return kubernetesPrograms(name, folder,
		append([]string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}, more...))
}

// kubernetesNode returns the set of what a machine needs to join as a node. It is apart from the
// control plane's, and in the same directory, because few tests need it.
func kubernetesNode(name, folder string) set {
	return kubernetesPrograms(name, folder, []string{"kubeadm", "kubelet"})
}

// kubernetesTests returns the set of the end-to-end tests of a release, which run on this computer against any control
// plane, and of the program of the image that most of their Pods have. They import more than its components, so their
// module is a separate one.
func kubernetesTests(name, folder string) set {
	s := kubernetesPrograms(name, folder, nil)
	s.programs = []program{
		{name: "e2e.test", pkg: "k8s.io/kubernetes/test/e2e", test: true},
		{name: "agnhost", pkg: "k8s.io/kubernetes/test/images/agnhost"},
	}
	return s
}

func kubernetesPrograms(name, folder string, commands []string) set {
	s := set{
		name: name, product: "kubernetes", kind: component, folder: folder, versionOf: "k8s.io/kubernetes",
		stamp: kubernetesStamp,
	}
	for _, command := range commands {
		s.programs = append(s.programs, program{name: command, pkg: "k8s.io/kubernetes/cmd/" + command})
	}
	return s
}

// tools returns the sets that run on this computer.
func tools() []set {
	return []set{
		{
			name: "tofu", product: "tofu", kind: tool, folder: "opentofu", versionOf: "github.com/opentofu/opentofu",
			programs: []program{{name: "tofu", pkg: "github.com/opentofu/opentofu/cmd/tofu"}},
			// OpenTofu embeds its version; this removes the "-dev" suffix.
			stamp: func(string) []string { return []string{"-X", "github.com/opentofu/opentofu/version.dev=no"} },
		},
		{
			// Without its remote backends: see tools/terraform/go.mod.
			name: "terraform", product: "terraform", kind: tool, folder: "terraform",
			versionOf: "github.com/hashicorp/terraform",
			programs:  []program{{name: "terraform", pkg: "github.com/hashicorp/terraform"}},
			stamp:     func(string) []string { return []string{"-X", "github.com/hashicorp/terraform/version.dev=no"} },
		},
		{
			name: "terragrunt", product: "terragrunt", kind: tool, folder: "terragrunt",
			versionOf: "github.com/gruntwork-io/terragrunt",
			programs:  []program{{name: "terragrunt", pkg: "github.com/gruntwork-io/terragrunt"}},
			stamp: func(version string) []string {
				return []string{"-X", "github.com/gruntwork-io/terragrunt/internal/version.Version=v" + version}
			},
		},
		{
			name: "golangci-lint", product: "golangci-lint", kind: tool, folder: "lint",
			versionOf: "github.com/golangci/golangci-lint/v2",
			programs:  []program{{name: "golangci-lint", pkg: "github.com/golangci/golangci-lint/v2/cmd/golangci-lint"}},
			stamp:     func(version string) []string { return []string{"-X", "main.version=" + version} },
		},
		{
			name: "gofumpt", product: "gofumpt", kind: tool, folder: "lint", versionOf: "mvdan.cc/gofumpt",
			programs: []program{{name: "gofumpt", pkg: "mvdan.cc/gofumpt"}},
		},
		{
			name: "tfplugindocs", product: "tfplugindocs", kind: tool, folder: "docs",
			versionOf: "github.com/hashicorp/terraform-plugin-docs",
			programs:  []program{{name: "tfplugindocs", pkg: "github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs"}},
		},
		{
			name: "goreleaser", product: "goreleaser", kind: tool, folder: "goreleaser",
			versionOf: "github.com/goreleaser/goreleaser/v2",
			programs:  []program{{name: "goreleaser", pkg: "github.com/goreleaser/goreleaser/v2"}},
			stamp:     func(version string) []string { return []string{"-X", "main.version=" + version} },
		},
		{
			name: "cyclonedx-gomod", product: "cyclonedx-gomod", kind: tool, folder: "cyclonedx-gomod",
			versionOf: "github.com/CycloneDX/cyclonedx-gomod",
			programs:  []program{{name: "cyclonedx-gomod", pkg: "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod"}},
		},
		{
			name: "actionlint", product: "actionlint", kind: tool, folder: "actionlint",
			versionOf: "github.com/rhysd/actionlint",
			programs:  []program{{name: "actionlint", pkg: "github.com/rhysd/actionlint/cmd/actionlint"}},
		},
	}
}

// servers returns the sets that tests run beside a control plane, and what judges it.
func servers() []set {
	return []set{
		{
			name: "gobgpd", product: "gobgpd", kind: tool, folder: "gobgp", versionOf: "github.com/osrg/gobgp/v4",
			programs: []program{{name: "gobgpd", pkg: "github.com/osrg/gobgp/v4/cmd/gobgpd"}},
		},
		{
			name: "gobgp", product: "gobgp", kind: tool, folder: "gobgp", versionOf: "github.com/osrg/gobgp/v4",
			programs: []program{{name: "gobgp", pkg: "github.com/osrg/gobgp/v4/cmd/gobgp"}},
		},
		{
			name: "versitygw", product: "versitygw", kind: tool, folder: "versitygw", versionOf: "github.com/versity/versitygw",
			programs: []program{{name: "versitygw", pkg: "github.com/versity/versitygw/cmd/versitygw"}},
			stamp:    func(version string) []string { return []string{"-X", "main.Version=v" + version} },
		},
		{
			name: "kube-bench", product: "kube-bench", kind: tool, folder: "kube-bench",
			versionOf: "github.com/aquasecurity/kube-bench",
			programs:  []program{{name: "kube-bench", pkg: "github.com/aquasecurity/kube-bench"}},
			stamp: func(version string) []string {
				return []string{"-X", "github.com/aquasecurity/kube-bench/cmd.KubeBenchVersion=" + version}
			},
		},
		{
			name: "helm-provider", product: "helm-provider", kind: tool, folder: "helm-provider",
			versionOf: "github.com/hashicorp/terraform-provider-helm",
			programs: []program{{
				name: "terraform-provider-helm", pkg: "github.com/hashicorp/terraform-provider-helm",
			}},
		},
		{
			name: "coredns", product: "coredns", kind: tool, folder: "coredns", versionOf: "github.com/coredns/coredns",
			programs: []program{{name: "coredns", pkg: "github.com/coredns/coredns"}},
		},
	}
}

// kubernetesStamp sets what upstream's hack/lib/version.sh sets. Without it the components
// report v0.0.0 and reject each other because of version skew.
func kubernetesStamp(version string) []string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var flags []string
	for _, variable := range []string{
		"gitVersion=v" + version, "gitMajor=" + major, "gitMinor=" + minor, "gitTreeState=clean",
	} {
		flags = append(flags, "-X", "k8s.io/component-base/version."+variable)
	}
	return flags
}

// lookup returns a set by name.
func lookup(name string) (set, error) {
	for _, s := range catalogue() {
		if s.name == name {
			return s, nil
		}
	}
	return set{}, fmt.Errorf("there is nothing to build called %q; choose one of %s", name, strings.Join(Names(), ", "))
}

// Names returns what can be built: first the components, then the tools.
func Names() []string {
	var names []string
	for _, s := range catalogue() {
		names = append(names, s.name)
	}
	return names
}

// ComponentNames returns the default sets that run on machines: one of each product.
func ComponentNames() []string {
	var names []string
	for _, s := range catalogue() {
		if s.kind == component && s.name == s.product {
			names = append(names, s.name)
		}
	}
	return names
}

// directory returns the directory of the set's programs in the cache. For components,
// PRODUCT-vVERSION/NAME is the layout of the provider's local artifact source.
func (s set) directory(cache, version string) string {
	return path.Join(cache, string(s.kind), s.product+"-v"+version)
}

// requirement matches one requirement of a go.mod, in a block or on a line of its own.
var requirement = regexp.MustCompile(`(?m)^(?:require)?\s*(\S+) v(\S+)`)

// requiredVersion returns the version, without its "v", of a module in the text of a go.mod.
func requiredVersion(gomod, module string) (string, error) {
	for _, match := range requirement.FindAllStringSubmatch(gomod, -1) {
		if match[1] == module {
			return match[2], nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}

// majorSuffix matches the last path element of a module at version 2 or later.
var majorSuffix = regexp.MustCompile(`^v[0-9]+$`)

// executable returns the file name that the go command gives to a program in "-o DIR/" (cmd/go/internal/load,
// DefaultExecName and TestPackagesFor): the last path element that is not a major version.
func (p program) executable() string {
	name := path.Base(p.pkg)
	if majorSuffix.MatchString(name) {
		name = path.Base(path.Dir(p.pkg))
	}
	if p.test {
		return name + ".test"
	}
	return name
}
