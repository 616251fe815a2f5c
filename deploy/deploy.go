// Package deploy holds the manifests of the scheduler on a real cluster: a Helm chart, and its rendering by
// Helm's own engine for those who do not use Helm.
//
// second.yaml and replacement.yaml are the chart's output for the default values. A test holds them equal to
// the chart, so that there is one source.
package deploy

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/strvals"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/component-base/version"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/exit"
	"gnnsched/internal/files"
)

//go:embed all:chart
var embedded embed.FS

const chartFolder = "chart"

// kubeVersion is the Kubernetes version of the scheduler. It satisfies the chart's kubeVersion.
const kubeVersion = "v" + version.DefaultKubeBinaryVersion + ".0"

// modes are the values of the chart's mode.
func modes() []string { return []string{"second", "replacement"} }

// Options select the rendered objects and their values.
type Options struct {
	Mode       string   // second or replacement; empty: as the values say
	Name       string   // of the release, and so of every object
	Namespace  string   // of the scheduler's pods; it is rendered too
	ValueFiles []string // YAML files that replace values of the chart, the last one first
	Set        string   // values as Helm's --set takes them, such as a=1,b.c=2; they win over files
}

// Render renders the manifests in the order in which they can be applied. Errors have the exit code
// exit.Usage and name the value at fault.
func Render(o Options) ([]byte, error) {
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return nil, exit.New(exit.Usage, fmt.Errorf("--namespace %q: %s", o.Namespace, problems[0]), "")
	}
	if problems := validation.IsDNS1035Label(o.Name); len(problems) > 0 || len(o.Name) > maxName { // a Service has it
		return nil, exit.New(exit.Usage,
			fmt.Errorf("--name %q is not a name of at most %d lower-case letters, digits and dashes that begins with a letter", o.Name, maxName),
			"for example gnnsched")
	}
	values, err := o.values()
	if err != nil {
		return nil, err
	}
	c, err := load()
	if err != nil {
		return nil, err
	}
	out, err := render(c, values, chartutil.ReleaseOptions{Name: o.Name, Namespace: o.Namespace, Revision: 1, IsInstall: true})
	if err != nil {
		return nil, exit.New(exit.Usage, err, "deploy/chart/values.yaml lists the values; `gnnsched deploy --print-values` prints it")
	}
	return out, nil
}

// maxName is the length of a release's name to which Helm holds itself.
const maxName = 53

// Values returns the chart's values with their comments.
func Values() ([]byte, error) {
	return embedded.ReadFile(path.Join(chartFolder, chartutil.ValuesfileName))
}

// values merges the values that replace the chart's.
func (o Options) values() (map[string]any, error) {
	values := map[string]any{"namespace": map[string]any{"create": true}}
	for _, name := range o.ValueFiles {
		text, err := files.Read(name, files.Text)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--values: %w", err), "")
		}
		more, err := chartutil.ReadValues(text)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("--values %s: %w", name, err),
				"a values file is YAML, such as `gnnsched deploy --print-values` prints")
		}
		values = chartutil.CoalesceTables(more, values)
	}
	if err := strvals.ParseInto(o.Set, values); err != nil {
		return nil, exit.New(exit.Usage, fmt.Errorf("--set %s: %w", o.Set, err),
			"write NAME=VALUE, for example --set image=registry.example/gnnsched:v1")
	}
	if o.Mode != "" {
		if !slices.Contains(modes(), o.Mode) {
			return nil, exit.New(exit.Usage, fmt.Errorf("--mode %q is not known", o.Mode), "choose "+strings.Join(modes(), " or "))
		}
		values["mode"] = o.Mode
	}
	return values, nil
}

// load reads the embedded chart.
func load() (*chart.Chart, error) {
	var all []*loader.BufferedFile
	err := fs.WalkDir(embedded, chartFolder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := embedded.ReadFile(name)
		all = append(all, &loader.BufferedFile{Name: strings.TrimPrefix(name, chartFolder+"/"), Data: text})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the chart: %w", err)
	}
	return loader.LoadFiles(all)
}

// render renders a chart and sorts its objects.
func render(c *chart.Chart, values map[string]any, release chartutil.ReleaseOptions) ([]byte, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, err
	}
	capabilities.KubeVersion = *version
	all, err := chartutil.ToRenderValues(c, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Render(c, all)
	if err != nil {
		return nil, reason(err)
	}
	for name := range texts {
		if !strings.HasSuffix(name, ".yaml") {
			delete(texts, name) // the notes
		}
	}
	_, sorted, err := releaseutil.SortManifests(texts, capabilities.APIVersions, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for i, m := range sorted {
		if i > 0 {
			out.WriteString("---\n")
		}
		out.WriteString(strings.TrimSpace(m.Content) + "\n")
	}
	return out.Bytes(), nil
}

// reason returns the message of a template's fail, without the chain of templates before it.
func reason(err error) error {
	const mark = "error calling fail: "
	if _, said, found := strings.Cut(err.Error(), mark); found {
		return errors.New(said)
	}
	return err
}

// Rule is a rule of the scheduler's roles.
type Rule struct {
	rbacv1.PolicyRule
	Namespace string // empty: everywhere
}

// Rules returns the rules of the roles that Render renders.
func Rules(o Options) ([]Rule, error) {
	text, err := Render(o)
	if err != nil {
		return nil, err
	}
	var out []Rule
	docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		var role rbacv1.Role // a ClusterRole has the same fields
		if err == nil {
			err = yaml.Unmarshal(doc, &role)
		}
		if err != nil {
			return nil, fmt.Errorf("read the roles: %w", err)
		}
		for _, r := range role.Rules {
			out = append(out, Rule{r, role.Namespace})
		}
	}
}
