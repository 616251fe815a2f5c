package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
)

// Unusable files end in one line with the reason, one with the next step, and exit code 2. Nothing is written.
func TestBadFiles(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	const (
		network = "network: {node: {latency: 0.1}, rack: {latency: 0.3}, zone: {latency: 1}}\n"
		vms     = "vm,cores,cpu_mhz,memory_mb,cpu_permille\n"
		jobs    = "arrival_s,lifetime_s,cores,cpu_mean_permille,cpu_max_permille\n"
		node    = `{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"`
	)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 1000 {
		_, _ = z.Write([]byte(vms + "116,4,11704,6213632,14 10\n"))
	}
	_ = z.Close()
	for name, text := range map[string]string{
		"cut.yaml": "network: {node: {latency: 0.1}, rack: {lat", "nan.yaml": "network: {node: {latency: .nan}, zone: {latency: 1}}\n",
		"negative.yaml": "network: {node: {latency: -1}, zone: {latency: 1}}\n",
		"huge.yaml":     "network: {node: {latency: 1e300}}\n", "version.yaml": "apiVersion: v2\n" + network, "empty.yaml": "",
		"only.yaml":   network,
		"binary.yaml": "\x00\x01\x02",
		"old.yaml":    network + "measured: {address: 'https://p:9090', maxAge: -5m}\n",
		"token.yaml":  network + "measured: {address: 'https://p:9090', tokenFile: none}\n",
		"cutq.yaml":   `node_cpu: "rate(`, "unknownq.yaml": "version: v9\n", "listq.yaml": "[1]\n",
		"cut.csv": vms + "116,4,11704,6213632,14 10\n242,8,20", "nan.csv": vms + "116,NaN,11704,6213632,5\n",
		"negative.csv": vms + "116,-4,11704,6213632,14\n",
		"huge.csv":     vms + "116,1e300,11704,6213632,14\n", "version.csv": "# v9\n" + vms, "empty.csv": "",
		"cut.csv.gz":  packed.String()[:packed.Len()/2],
		"nanjobs.csv": jobs + "7,NaN,2,1000,1000\n", "nowords.csv": vms + "116,four,11704,6213632,14\n",
		"cut.json": node + "4", "version.json": `{"kind":"List","apiVersion":"v9","items":[]}`, "empty.json": "",
		"node.json": `{"kind":"Node","apiVersion":"v2","metadata":{"name":"a"}}`,
		"nan.json":  node + `NaN"}}}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	traffic := func(file string) []string { return []string{"rungnn", "--print-config", "--traffic", file} }
	usage := func(args ...string) []string {
		return append([]string{"rungnn", "--print-config", "--usage", "prometheus", "--usage-address", "https://p:9090"}, args...)
	}
	convert := func(args ...string) []string { return append([]string{"gnnsched", "convert", "--log-dir="}, args...) }
	toRecord := func(file string) []string { return convert("--out", "out.record", file) }
	for _, c := range []struct {
		name string
		args []string
		say  string
	}{
		{"traffic missing", traffic("none.yaml"), "none.yaml: no such file"},
		{"traffic is a folder", traffic("folder"), "is a directory"},
		{"traffic cut off", traffic("cut.yaml"), "cut.yaml: error converting YAML"},
		{"traffic NaN", traffic("nan.yaml"), "unsupported value: NaN"},
		{"traffic negative", traffic("negative.yaml"), "node.latency: -1 is not 0 to 100000"},
		{"traffic huge", traffic("huge.yaml"), "node.latency: 1e+300 is not 0 to"},
		{"traffic of another version", traffic("version.yaml"), `unknown field "apiVersion"`},
		{"traffic empty", traffic("empty.yaml"), "all distances are 0"},
		{"traffic without a source", traffic("only.yaml"), "measured: address must be a URL"},
		{"traffic binary", traffic("binary.yaml"), "control characters"},
		{"traffic with a negative age", traffic("old.yaml"), "maxAge is -5m0s, want at least"},
		{"traffic with a token that is missing", traffic("token.yaml"), "open none: no such file"},
		{"queries missing", usage("--usage-queries", "none.yaml"), "none.yaml: no such file"},
		{"queries are a folder", usage("--usage-queries", "folder"), "is a directory"},
		{"queries cut off", usage("--usage-queries", "cutq.yaml"), "found unexpected end of stream"},
		{"queries unknown", usage("--usage-queries", "unknownq.yaml"), `no query is called "version"`},
		{"queries in another form", usage("--usage-queries", "listq.yaml"), "want a line NAME: QUERY"},
		{"queries empty", usage("--usage-queries", "empty.yaml"), "has no query"},
		{"token missing", usage("--usage-token-file", "none"), "none: no such file"},
		{"token is a folder", usage("--usage-token-file", "folder"), "is a directory"},
		{"certificates without one", usage("--usage-ca-file", "binary.yaml"), "certificates or token"},
		{"certificates are a folder", usage("--usage-ca-file", "folder"), "is a directory"},
		{"source unknown", []string{"rungnn", "--print-config", "--usage", "graphite"}, "choose prometheus or metrics.k8s.io"},
		{"convert missing", convert("none.csv"), "none.csv: no such file"},
		{"convert an empty folder", convert("folder"), "the folder has no CSV file"},
		{"convert cut off", convert("cut.csv"), "cut.csv:3: the line has 3 cells, want 5"},
		{"convert a cut off gzip", convert("cut.csv.gz"), "cut.csv"},
		{"convert NaN", convert("nan.csv"), "nan.csv:2: cores: NaN is not 0 to 10000"},
		{"convert NaN in jobs", convert("nanjobs.csv"), "nanjobs.csv:2: lifetime_s: NaN is not"},
		{"convert negative", convert("negative.csv"), "negative.csv:2: cores: -4 is not 0 to 10000"},
		{"convert huge", convert("huge.csv"), "huge.csv:2: cores: 1e+300 is not 0 to"},
		{"convert no number", convert("nowords.csv"), `nowords.csv:2: cores: "four" is not a number`},
		{"convert another version", convert("version.csv"), "belongs to no known format"},
		{"convert nothing", convert("empty.csv"), "belongs to no known format"},
		{"record of a missing file", toRecord("none.json"), "none.json: no such file"},
		{"record cut off", toRecord("cut.json"), "the file is cut off after 132 bytes"},
		{"record of another version", toRecord("version.json"), `its apiVersion is "v9", want v1`},
		{"record of a node of another version", toRecord("node.json"),
			`no node and no pod; left out, because it cannot be read: node.json: "a": its apiVersion is "v2", want v1`},
		{"record NaN", toRecord("nan.json"), "quantities must match"},
		{"record of nothing", toRecord("empty.json"), "the file is empty"},
		{"record of a trace of no format", toRecord("nan.csv"), "nan.csv:1: the first line is neither"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.args...)
			lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			if code != exit.Usage || len(lines) != 2 || !strings.Contains(lines[0], "error: ") || !strings.Contains(lines[0], c.say) ||
				!strings.Contains(lines[1], "hint: ") {
				t.Errorf("exit code %d, stderr %q; want code %d, an error with %q, and a hint", code, stderr, exit.Usage, c.say)
			}
			if stdout != "" {
				t.Errorf("stdout: %q", stdout)
			}
			if left, _ := filepath.Glob("out.record*"); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
