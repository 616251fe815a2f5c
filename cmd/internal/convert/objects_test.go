package convert

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

// A file of a folder that may have held objects is an error. Files without objects and unreadable files are left out and named.
func TestFolder(t *testing.T) {
	pod := `{"kind":"PodList","items":[{"metadata":{"name":"q","namespace":"y"},"spec":{"nodeName":"n1"}}]}`
	for what, c := range map[string]struct {
		files map[string]string
		code  int
		want  []string
	}{
		"cut off": {map[string]string{"pods.json": pod[:50]}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is cut off after 50 bytes"}},
		"packed": {map[string]string{"pods.json": "\x1f\x8b\x08\x00"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is packed"}},
		"zeros": {map[string]string{"pods.json": "\x00\x00\x00\x00"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "the file is no text"}},
		"half a character": {map[string]string{"pods.json": "\xff\xfe{\x00}"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "its last character is cut off"}},
		"malformed":      {map[string]string{"pods.json": pod + "{7}"}, exit.Usage, []string{"pods.json: byte"}},
		"malformed YAML": {map[string]string{"pods.yml": "kind: ["}, exit.Usage, []string{"pods.yml: document 1"}},
		"too deep": {map[string]string{"pods.json": "[[[[[" + pod + "]]]]]"}, exit.Usage,
			[]string{"pods.json: not what kubectl", "lists are in lists"}},
		"a part without": {map[string]string{"pods.json": `{"a":1}` + pod}, exit.Usage,
			[]string{"pods.json: not what kubectl", "a document has no kind"}},
		"something else": {map[string]string{"version.yaml": "a: 1\n"}, 0,
			[]string{"hold no objects", "version.yaml: not what kubectl", `"pods":1`}},
		"empty": {map[string]string{"pods.json": ""}, 0, []string{"hold no objects", "pods.json: the file is empty", `"pods":1`}},
		"comments": {map[string]string{"c.yaml": "# nothing\n---\n"}, 0,
			[]string{"hold no objects", "c.yaml: the file is empty", `"pods":1`}},
		"lines":         {map[string]string{"pods.jsonl": pod + "\n" + pod}, 0, []string{`"pods":2`}},
		"large letters": {map[string]string{"PODS.JSON": pod}, 0, []string{`"pods":2`}},
		"packed by its name": {map[string]string{"pods.json.gz": "\x1f\x8b", "a.log": "x"}, 0,
			[]string{`"files":2,"first":["`, "a.log", "pods.json.gz", "are not read", `"pods":1`}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			folder(t, c.files)
			log, err := logged(t, "in")
			if exit.Code(err) != c.code {
				t.Fatalf("%v with code %d, want %d", err, exit.Code(err), c.code)
			}
			judge(t, "convert", log, c.want, nil)
		})
	}
}

// folder makes a folder named in with a file of a node and a pod, and more files.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	fatal.If(t, os.Mkdir("in", 0o700))
	file(t, filepath.Join("in", "all.json"), listed)
	for name, text := range files {
		file(t, filepath.Join("in", name), text)
	}
}

// logged makes x.record of files, and returns the log with the error.
func logged(t *testing.T, args ...string) (string, error) {
	t.Helper()
	_, err := convert(t, append([]string{"--log-dir=.", "--log-level=info", "--out", "x.record"}, args...)...)
	log, _ := os.ReadFile("convert.log") // an error may come before it
	if err != nil {
		log = append(log, err.Error()...)
	}
	return string(log), err
}

// Links to files are read, each file once; a named folder may be a link, too. Anything that is not a regular file is not opened.
func TestLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	folder(t, nil)
	file(t, "else.json", strings.NewReplacer(`"n1"`, `"n2"`, `"name":"p"`, `"name":"q"`, `"uid":"u"`, `"uid":"v"`).Replace(listed))
	for _, err := range []error{os.Symlink("../else.json", "in/link.json"), os.Symlink("link.json", "in/again.json"),
		os.Symlink("in", "folder"), syscall.Mkfifo("in/pipe.json", 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	log := fatal.Value(logged(t, "folder"))(t)
	judge(t, "convert", log, []string{`"first":["folder/pipe.json"]`, "are not read", `"nodes":2`, `"pods":2`}, nil)
}

// Parts of objects that a record cannot hold as they are get counted and named.
func TestSaidOfObjects(t *testing.T) {
	budget := func(spec string) string {
		return `{"kind":"PodDisruptionBudget","apiVersion":"policy/v1","metadata":{"name":"b","namespace":"x"},"spec":{` + spec + `}}`
	}
	for what, c := range map[string]struct {
		object string
		want   []string
	}{
		"no time": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":null},"spec":{"nodeName":"n1"}}`,
			[]string{`"waiting":0`, "do not say since when", "x/q", `"pods":2`}},
		"time 0001": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"0001-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}`, []string{`"waiting":0`, "do not say since when"}},
		"time 1969": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"1969-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}`, []string{`"waiting":0`, "do not say since when"}},
		"has ended": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x"},"spec":{"nodeName":"n1"},"status":{"phase":"Succeeded"}}`,
			[]string{`"waiting":0`, `"pods":1`, `"ended":1`}},
		"a clock ahead": {`{"kind":"Pod","metadata":{"name":"q","namespace":"x","creationTimestamp":"2099-01-01T00:00:00Z"},"spec":{"nodeName":"n1"}}` + nodeOf("n2", "") + nodeOf("n3", ""), []string{"which are ignored", `\"x/q\": it has a time of 2099`, `"to":"20`, `"waiting":0`}},
		"no status":     {nodeOf("n2", ""), []string{"is unknown", `\"n2\": it has no status.allocatable`}},
		"a large node":  {nodeOf("n2", `"memory":"24Ti"`), []string{"bounds them", `\"n2\": status.allocatable.memory is 24Ti, want 0 to`}},
		"many cores":    {nodeOf("n2", `"cpu":"12000"`), []string{"bounds them", "status.allocatable.cpu is 12k, want 0 to 10000"}},
		"half a budget": {budget(`"minAvailable":"half"`), []string{`"kind":"PodDisruptionBudget","objects":1`, "x/b"}},
		"a bad selector": {budget(`"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}`),
			[]string{`"kind":"PodDisruptionBudget","objects":1`, "x/b"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			folder(t, map[string]string{"more.json": c.object})
			log := fatal.Value(logged(t, "in"))(t)
			judge(t, "convert", log, c.want, nil)
		})
	}
}

func nodeOf(name, amounts string) string {
	return `{"kind":"Node","metadata":{"name":"` + name + `"},"status":{"allocatable":{` + amounts + `}}}`
}
