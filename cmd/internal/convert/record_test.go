package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

// A limit that no cluster has is bounded, and the log counts and names such pods. The others are converted as they are.
func TestAbsurdAmounts(t *testing.T) {
	dir := t.TempDir()
	absurd := func(name, list, amount string) string {
		return `{"kind":"Pod","metadata":{"name":"` + name + `","namespace":"x","uid":"` + name +
			`"},"spec":{"containers":[{"name":"c","resources":{"` + list + `":{"cpu":"` + amount + `"}}}]}},`
	}
	pods := absurd("greedy", "limits", "1e30") + absurd("huge", "requests", "999999999999999999999999Gi") + absurd("large", "limits", "1000")
	from := file(t, filepath.Join(dir, "1.json"), strings.Replace(listed, `"items":[`, `"items":[`+pods, 1))
	to := filepath.Join(dir, "now.record")
	if _, err := convert(t, "--log-dir="+dir, "--log-level=warn", "--out", to, from); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "convert.log"))
	if err != nil {
		t.Fatal(err)
	}
	printed := string(log)
	r, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Pods()
	if err != nil || len(got) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	limits, requests := map[string]int64{}, map[string]int64{}
	for _, p := range got {
		limits[p.Name], requests[p.Name] = p.CPULimit, p.MilliCPU
	}
	if limits["greedy"] != cluster.MaxMilliCPU || requests["huge"] != cluster.MaxMilliCPU || limits["large"] != 1_000_000 ||
		requests["p"] != 1000 {
		t.Errorf("limits %v, requests %v", limits, requests)
	}
	if strings.Count(printed, "the record bounds them") != 1 || !strings.Contains(printed, `"objects":2`) ||
		!strings.Contains(printed, "x/greedy") || !strings.Contains(printed, "resources.limits.cpu is 1e30") {
		t.Errorf("the log says %q", printed)
	}
}

const listed = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"kind":"Pod","metadata":{"name":"p","namespace":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}]}`

func TestRecordOfKubectl(t *testing.T) {
	dir := t.TempDir()
	first, second := file(t, filepath.Join(dir, "1.json"), listed),
		file(t, filepath.Join(dir, "2.json"), strings.Replace(listed, `"uid":"u"`, `"uid":"v"`, 1))
	to := filepath.Join(dir, "now.record")
	if _, err := convert(t, "--out", to, first, second); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.Pods()
	if err != nil || len(pods) != 2 || pods[0].UID != "u" || pods[0].End != record.Unseen || pods[1].MilliCPU != 1000 ||
		pods[1].Node != "n1" || pods[1].Ended != 0 {
		t.Errorf("pods %+v, %v", pods, err)
	}
	if runs, err := r.Runs(); err != nil || len(runs) != 1 || runs[0].Source != "kubectl" || runs[0].Program != "v1.2.3" {
		t.Errorf("runs %+v, %v", runs, err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--out", to, first}, "is a record already"},
		{[]string{"--out", filepath.Join(dir, "a.record"), file(t, filepath.Join(dir, "bad.json"), "NAME READY")},
			"not what kubectl -o json or -o yaml prints"},
		{[]string{"--out", filepath.Join(dir, "b.record"), "--days", "2", first}, "--days has no effect on a record"},
		{[]string{"--out", filepath.Join(dir, "c.record"), filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{"--out", dir + "/d.record", "--limit", "1", "-"}, "--limit has no effect"},
	} {
		if _, err := convert(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
