package experience

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	r := Report{
		Read: 300, Missing: 2, Stale: 1, Updates: 70, Passed: 3, Refused: 1, Figures: map[string]float64{"loss": 0.25, "reward": -1e-9},
	}
	line := r.Line()
	if strings.ContainsAny(line, "\r\n") || len(line) > longestLine {
		t.Errorf("%q is not a line", line)
	}
	if got, ok := parseReport(line); !ok || !reflect.DeepEqual(got, r) {
		t.Errorf("%+v, %v, want %+v", got, ok, r)
	}
	r.Figures = map[string]float64{
		"loss": math.NaN(), "reward": math.Inf(-1), "norm": 1, "Bad Name": 1, "": 1, strings.Repeat("a", longestFigure+1): 1,
	}
	if got, ok := parseReport(r.Line()); !ok || !reflect.DeepEqual(got.Figures, map[string]float64{"norm": 1}) {
		t.Errorf("%+v, %v", got, ok)
	}
}

// A trainer's log lines are no reports.
func TestNoReport(t *testing.T) {
	for _, line := range []string{
		"", "learned from 300 placements", `{"read":1}`, reportPrefix, reportPrefix + "{", reportPrefix + `{"read":-1}`,
		reportPrefix + `{"figures":{"loss":"high"}}`,
		" " + reportPrefix + "{}", reportPrefix + `{"figures":{"a":1` + strings.Join(many(maxFigures), "") + `}}`,
	} {
		if r, ok := parseReport(line); ok {
			t.Errorf("%.80q is the report %+v", line, r)
		}
	}
}

// A report may have as many figures as the limit says.
func TestMostFigures(t *testing.T) {
	r, ok := parseReport(reportPrefix + `{"figures":{"a":1` + strings.Join(many(maxFigures-1), "") + `}}`)
	if !ok || len(r.Figures) != maxFigures {
		t.Errorf("%v, %d figures, want %d", ok, len(r.Figures), maxFigures)
	}
}

// many returns n more figures with different names.
func many(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = `,"` + strings.Repeat("b", i+1) + `":1`
	}
	return out
}

// For any output of a trainer, the figures that become metrics are few, named simply, and finite. A report stays equal when it is written
// and read again.
func FuzzReport(f *testing.F) {
	f.Add(Report{Read: 1, Figures: map[string]float64{"loss": 0.5}}.Line())
	f.Add(reportPrefix + `{"figures":{"a b":1,"c":1e308}}`)
	f.Add("learned from 300 placements")
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := parseReport(line)
		if !ok {
			return
		}
		if len(r.Figures) > maxFigures {
			t.Errorf("%d figures", len(r.Figures))
		}
		for name, v := range r.Figures {
			if name == "" || len(name) > longestFigure || strings.ToLower(name) != name || strings.ContainsAny(name, " \"\n{}") || math.IsNaN(v) ||
				math.IsInf(v, 0) {
				t.Errorf("figure %q is %v", name, v)
			}
		}
		if again, ok := parseReport(r.Line()); !ok || !reflect.DeepEqual(again, r) {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}
