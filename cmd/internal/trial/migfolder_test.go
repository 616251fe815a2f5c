package trial

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/runfolder"
)

// The folder of --out has the figures of each policy and of the bounds, the differences that the tables show, and the tables.
func TestFolder(t *testing.T) {
	for name, c := range map[string]struct {
		args       []string
		metrics    []string
		contenders int // with the bounds
		judged     int // metrics
		tables     int
	}{
		"fill": {[]string{"--load", "0.9", "--load", "1.3"}, []string{"allocation90", "allocation130", "left90", "left130"}, 5, 2, 3},
		"flow": {[]string{"--steady", "--load", "0.95"}, []string{"allocation95", "waiting95", "wait95"}, 3, 2, 2},
	} {
		dir := filepath.Join(t.TempDir(), name)
		args := append([]string{
			"mig", "--machines", "1", "--gpus", "2", "--seeds", "3", "--mix", "bimodal", "--policies", "first-fit:kube-scheduler,mig:value,mig:fgd",
			"--out", dir,
		}, c.args...)
		if code, _, errs := commandMIG(t, args...); code != exit.OK {
			t.Fatalf("%s: exit code %d: %s", name, code, errs)
		}
		r, err := runfolder.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		var metrics []string
		for _, m := range r.Scenarios[0].Metrics {
			metrics = append(metrics, m.Name)
		}
		if s := r.Scenarios[0]; s.Name != "bimodal" || s.Baseline != "first-fit:kube-scheduler" || s.Samples != 3 ||
			!slices.Equal(metrics, c.metrics) {
			t.Errorf("%s: %+v", name, s)
		}
		if len(r.Episodes) != 3*c.contenders || len(r.Differences) != 2*c.judged || len(r.Tables) != c.tables || len(r.Verdicts) != 2 ||
			r.Manifest.Kind != "eval" || r.Manifest.Ended == nil || len(r.Manifest.Seeds) != 3 {
			t.Errorf("%s: %d episodes, %d differences, %d tables, %+v, %+v", name, len(r.Episodes), len(r.Differences), len(r.Tables),
				r.Verdicts, r.Manifest)
		}
		of := func(contender, metric string) (sum float64) {
			for _, e := range r.Episodes {
				if e.Contender == contender {
					sum += e.Values[metric]
				}
			}
			return sum / 3
		}
		for _, d := range r.Differences {
			// three seeds mark nothing
			if want := of(d.Contender, d.Metric) - of("first-fit:kube-scheduler", d.Metric); d.Mean < want-1e-9 || d.Mean > want+1e-9 ||
				d.Low == nil || d.P != nil || d.Mark != "" {
				t.Errorf("%s: %+v, want %v", name, d, want)
			}
		}
		if name == "fill" && (of("bound", "allocation130") < of("optimum", "allocation130") ||
			of("optimum", "allocation130") < of("mig:value", "allocation130") || of("mig:value", "allocation130") < 50) {
			t.Errorf("mig:value %v, optimum %v, bound %v", of("mig:value", "allocation130"), of("optimum", "allocation130"),
				of("bound", "allocation130"))
		}
		if !strings.Contains(r.Verdicts[0].Text, "% requested, mig:") {
			t.Errorf("%s: %+v", name, r.Verdicts)
		}
		if code, _, errs := commandMIG(t, args...); code != exit.Usage || !strings.Contains(errs, "holds the run of an earlier command") {
			t.Errorf("%s: exit code %d: %s", name, code, errs)
		}
	}
}
