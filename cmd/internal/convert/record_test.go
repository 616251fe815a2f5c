package convert

import (
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/workload/record"
)

const listed = `{"kind":"List","items":[
{"kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"kind":"Pod","metadata":{"name":"p","namespace":"x","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"nodeName":"n1","containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}]}}]}`

func TestRecordOfKubectl(t *testing.T) {
	dir := t.TempDir()
	first, second := file(t, filepath.Join(dir, "1.json"), listed), file(t, filepath.Join(dir, "2.json"), strings.Replace(listed, `"uid":"u"`, `"uid":"v"`, 1))
	to := filepath.Join(dir, "now.record")
	if _, err := convert(t, "--out", to, first, second); err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	pods, err := r.Pods()
	if err != nil || len(pods) != 2 || pods[0].UID != "u" || pods[0].End != record.Unseen || pods[1].MilliCPU != 1000 || pods[1].Node != "n1" || pods[1].Ended != 0 {
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
		{[]string{"--out", filepath.Join(dir, "a.record"), file(t, filepath.Join(dir, "bad.json"), "NAME READY")}, "not what kubectl -o json prints"},
		{[]string{"--out", filepath.Join(dir, "b.record"), "--days", "2", first}, "--days has no effect on a record"},
		{[]string{"--out", filepath.Join(dir, "c.record"), filepath.Join(dir, "none.json")}, "no such file"},
		{[]string{"--out", dir + "/d.record", "--limit", "1", "-"}, "--limit has no effect"},
	} {
		if _, err := convert(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
