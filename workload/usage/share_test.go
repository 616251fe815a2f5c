package usage

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity float64
		pods     []Demand
		want     []float64
	}{
		{"enough for all", 10, []Demand{{Want: Amounts{4}}, {Want: Amounts{6}}}, []float64{4, 6}},
		{"no capacity known", 0, []Demand{{Want: Amounts{4}}}, []float64{4}},
		{"a limit", 10, []Demand{{Want: Amounts{4}, Limit: 1.5}}, []float64{1.5}},
		{"a limit leaves more for others", 4, []Demand{{Want: Amounts{4}, Request: 3, Limit: 1}, {Want: Amounts{4}, Request: 1}},
			[]float64{1, 3}},
		{"by requests", 6, []Demand{{Want: Amounts{9}, Request: 2}, {Want: Amounts{9}, Request: 1}}, []float64{4, 2}},
		{"no requests", 6, []Demand{{Want: Amounts{9}}, {Want: Amounts{9}}, {Want: Amounts{1}}}, []float64{2.5, 2.5, 1}},
		{"nobody", 1, nil, nil},
	} {
		got := make([]Amounts, len(c.pods))
		Share(Amounts{c.capacity}, c.pods, got)
		for i, want := range c.want {
			if math.Abs(got[i][CPU]-want) > 1e-9 {
				t.Errorf("%s: pod %d gets %v, want %v", c.name, i, got[i][CPU], want)
			}
		}
	}
}

// No pod gets more than its demand; a node with too little is used up; and a pod gets less than its demand only if no pod gets more for its
// weight.
func TestShareIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Float64Range(0, 10)
		pods := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Demand {
			p := Demand{Request: amount.Draw(t, "request"), Limit: rapid.SampledFrom([]float64{0, 0, 1, 4}).Draw(t, "limit")}
			for d := range p.Want {
				p.Want[d] = amount.Draw(t, "want")
			}
			return p
		}), 1, 30).Draw(t, "pods")
		var capacity Amounts
		for d := range capacity {
			capacity[d] = rapid.Float64Range(0.01, 100).Draw(t, "capacity")
		}
		got := make([]Amounts, len(pods))
		Share(capacity, pods, got)
		for d := range Dimension(Dimensions) {
			checkFair(t, capacity[d], d, pods, got)
		}
	})
}

func checkFair(t *rapid.T, capacity float64, d Dimension, pods []Demand, got []Amounts) {
	const rounding = 1e-9
	var sum, wanted, level float64
	for i, p := range pods {
		want := p.wants(d)
		if got[i][d] < 0 || got[i][d] > want {
			t.Fatalf("%s: pod %d gets %v of %v", d, i, got[i][d], want)
		}
		sum, wanted = sum+got[i][d], wanted+want
		level = max(level, got[i][d]/p.weight(d))
	}
	if !shared(d) {
		if sum != wanted {
			t.Fatalf("%s is shared", d)
		}
		return
	}
	if math.Abs(sum-min(capacity, wanted)) > rounding*(1+sum) {
		t.Fatalf("%s: %v of %v is used, %v wanted", d, sum, capacity, wanted)
	}
	for i, p := range pods {
		if got[i][d] < p.wants(d)-rounding && got[i][d]/p.weight(d) < level-rounding*(1+level) {
			t.Fatalf("%s: pod %d gets %v of %v, %v for its weight, another %v", d, i, got[i][d], p.wants(d), got[i][d]/p.weight(d), level)
		}
	}
}

func TestShareDoesNotAllocate(t *testing.T) {
	pods := []Demand{{Want: Amounts{4}, Request: 1}, {Want: Amounts{9}, Request: 2}}
	got := make([]Amounts, len(pods))
	if n := testing.AllocsPerRun(100, func() { Share(Amounts{3}, pods, got) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]Limits{
		`{}`: {}, `{"network": "1250M"}`: {Network: 1.25e9}, `{"network": 1e9, "disk": "500Mi"}`: {Network: 1e9, Disk: 500 << 20},
	} {
		if got, err := ParseLimits(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		``: "unexpected end", `{"network": "fast"}`: "limits.network: \"fast\" is not an amount",
		`{"disk": -1}`:      "limits.disk: -1 is not 0 to 1e+12",
		`{"network": 2e12}`: "limits.network", `{"disc": 1}`: "unknown field", `{"disk": "` + strings.Repeat("9", maxLimits): "bytes, more than",
	} {
		if got, err := ParseLimits(text); err == nil || !strings.Contains(err.Error(), want) || got != (Limits{}) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0, maxRate)
		want := Limits{Network: rate.Draw(t, "network"), Disk: rate.Draw(t, "disk")}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseLimits(string(text)); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	})
}

func FuzzParseLimits(f *testing.F) {
	f.Add(`{"network": "1250M", "disk": 5e8}`)
	f.Add(`{"network": "1e999"}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLimits(text)
		if err != nil {
			if s := err.Error(); len(s) > 600 || strings.ContainsAny(s, "\x00\x1b\r") {
				t.Fatalf("%q", s)
			}
			return
		}
		checkAmounts(t, l.Amounts())
	})
}
