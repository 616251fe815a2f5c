package docs_test

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// limits are the most words that pages may have, by folder, without their generated parts, their tables and their code. A page of
// reference may be longer.
var limits = map[string]int{
	"README.md": 800, "CONTRIBUTING.md": 800, "CHANGELOG.md": 1500,
	"docs": 400, "docs/tutorials": 1000, "docs/how-to": 1000, "docs/concepts": 900, "docs/results": 900,
	"docs/contributing": 1500, "docs/reference": 1500, "docs/upstream": 700,
}

// mostWords bounds the words of all pages together, without decisions (docs/adr): about three hours of reading.
const mostWords = 35_000

var (
	generated = regexp.MustCompile(`(?s)<!-- generated: .*?<!-- end -->`)
	tables    = regexp.MustCompile(`(?m)^\|.*$`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```$")
	code      = regexp.MustCompile("`[^`\n]+`")
	link      = regexp.MustCompile(`!?\[[^\]]*\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	anchorTag = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// pages returns the pages of the book by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(path string) {
		text := fatal.Value(os.ReadFile(filepath.Join(root, path)))(t)
		out[path] = string(text)
	}
	read("README.md")
	read("CONTRIBUTING.md")
	read("CHANGELOG.md")
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			read(path)
		}
		return err
	})
	fatal.If(t, err)
	return out
}

// TestLinks checks that what pages link to is there: files of the repository, and headings in pages.
func TestLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for page, text := range all {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(fenced.ReplaceAllString(text, ""), "code"), -1) {
			to, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %s: %v", page, m[1], err)
				continue
			}
			if to.Scheme != "" {
				continue
			}
			links++
			target := page
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(page), to.Path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if to.Fragment != "" && !anchors(all[target])[to.Fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], target)
			}
		}
	}
	if links < 100 {
		t.Errorf("the pages have only %d links", links)
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range anchorTag.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllStringFunc(m[1], func(l string) string { return l[strings.Index(l, "[")+1 : strings.Index(l, "]")] })
		out[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)] = true
	}
	return out
}

// TestLengths checks that no page is longer than its kind may be, and that all can be read.
func TestLengths(t *testing.T) {
	total := 0
	for page, text := range pages(t) {
		if strings.HasPrefix(page, "docs/adr/") {
			continue
		}
		words := len(strings.Fields(tables.ReplaceAllString(fenced.ReplaceAllString(generated.ReplaceAllString(text, ""), ""), "")))
		total += words
		most, known := limits[page]
		if !known {
			most, known = limits[filepath.Dir(page)]
		}
		if !known {
			t.Errorf("%s is in a folder without a limit", page)
		}
		if words > most {
			t.Errorf("%s has %d words, %d at most", page, words, most)
		}
	}
	t.Logf("%d words by hand", total)
	if total > mostWords {
		t.Errorf("the pages have %d words by hand, %d at most", total, mostWords)
	}
}

// TestReachable checks that every page of the book can be reached from README.md by links.
func TestReachable(t *testing.T) {
	all := pages(t)
	reached, queue := map[string]bool{"README.md": true}, []string{"README.md"}
	for len(queue) > 0 {
		page := queue[0]
		queue = queue[1:]
		for _, m := range link.FindAllStringSubmatch(all[page], -1) {
			to, _, _ := strings.Cut(m[1], "#")
			target := filepath.Join(filepath.Dir(page), to)
			if _, is := all[target+"/README.md"]; is {
				target += "/README.md"
			}
			if _, is := all[target]; is && !reached[target] {
				reached[target] = true
				queue = append(queue, target)
			}
		}
	}
	for page := range all {
		if !reached[page] {
			t.Errorf("no link leads to %s", page)
		}
	}
}

// The nodes and pods of the pages about GPUs are as kwokcluster and the scheduler read them.
func TestSnippetsAboutGPUs(t *testing.T) {
	manifests := map[string]int{}
	for _, page := range []string{"how-to/gpus.md", "how-to/claims-and-mig.md"} {
		for _, b := range blocks(t, page) {
			text := strings.Join(b.lines, "\n")
			switch {
			case b.language != "yaml":
			case b.lines[0] == "pools:":
				if _, err := nodepool.Parse(page, []byte(text)); err != nil {
					t.Error(err)
				}
			default:
				for _, manifest := range strings.Split(text, "\n---\n") {
					manifests[checkManifest(t, page, manifest)]++
				}
			}
		}
	}
	if manifests["Pod"] != 3 || manifests["ResourceClaimTemplate"] != 1 {
		t.Errorf("the pages have %v", manifests)
	}
}

// checkManifest checks a manifest of a page, and returns its kind.
func checkManifest(t *testing.T, page, manifest string) string {
	t.Helper()
	var is metav1.TypeMeta
	err := yaml.Unmarshal([]byte(manifest), &is)
	switch is.Kind {
	case "Pod":
		var p corev1.Pod
		if err = yaml.UnmarshalStrict([]byte(manifest), &p); err == nil {
			_, err = kube.Pod(&p)
		}
	case "ResourceClaimTemplate":
		err = yaml.UnmarshalStrict([]byte(manifest), &resourceapi.ResourceClaimTemplate{})
	}
	if err != nil {
		t.Errorf("%s: %v in\n%s", page, err, manifest)
	}
	return is.Kind
}
