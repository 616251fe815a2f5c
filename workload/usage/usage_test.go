package usage

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"gnnsched/internal/fatal"
)

// everything has a curve of each kind.
const everything = `{"cpu":{"walk":{"low":"100m","high":2,"deviation":"500m"}},"memory":"512Mi",` +
	`"networkIn":{"day":{"low":"1M","high":"10M","peak":50400}},"networkOut":{"bursts":{"high":"5M","every":600,"length":60}},` +
	`"diskRead":{"series":{"step":300,"scale":1000,"values":[1,2.5,0]}},"diskWrite":7,"work":3600}`

func parse(t testing.TB, text string) *Model {
	t.Helper()
	return fatal.Value(ParseAnnotation(text))(t)
}

func TestParse(t *testing.T) {
	want := &Model{Work: 3600, Curves: [Dimensions]Curve{
		Walk{Low: 0.1, High: 2, Deviation: 0.5, Step: 60}, Constant(512 << 20),
		Day{Low: 1e6, High: 1e7, Period: 86400, Peak: 50400}, Bursts{High: 5e6, Every: 600, Length: 60},
		&Series{Step: 300, Scale: 1000, Values: []float32{1, 2.5, 0}}, Constant(7),
	}}
	got := parse(t, everything)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	text := fatal.Value(FormatAnnotation(got))(t)
	if d := cmp.Diff(got, parse(t, text)); d != "" {
		t.Errorf("%s reads back as another model: %s", text, d)
	}
}

func TestParseErrors(t *testing.T) {
	long, _ := json.Marshal(make([]float32, maxValues+1))
	for text, want := range map[string]string{
		``:                  "unexpected end of JSON",
		`{}`:                "no dimension is set",
		`{"cpus":1}`:        `unknown field "cpus"`,
		`{"cpu":1,"cpu":2}`: `duplicate field "cpu"`,
		`{"cpu":"lots"}`:    `cpu: "lots" is not an amount`,
		`{"cpu":"NaN"}`:     `cpu: "NaN" is not an amount`,
		`{"cpu":-1}`:        "cpu: -1 is not 0 to 10000",
		`{"cpu":1e9}`:       "cpu: 1e+09 is not 0 to 10000",
		`{"memory":"17Ti"}`: "memory: ",
		`{"cpu":{}}`:        "cpu: has 0 kinds of curves",
		`{"cpu":{"day":{"high":1},"bursts":{"high":1,"every":9,"length":1}}}`: "cpu: has 2 kinds of curves",
		`{"cpu":{"day":{"low":2,"high":1}}}`:                                  "cpu.day.low: 2 is more than high, 1",
		`{"cpu":{"day":{"high":1,"period":0}}}`:                               "cpu.day.period: 0 is not 1 to 1e+09",
		`{"cpu":{"bursts":{"high":1,"every":9,"length":10}}}`:                 "cpu.bursts.length: 10 seconds are more than every, 9",
		`{"cpu":{"walk":{"high":"x","deviation":1}}}`:                         `cpu.walk.high: "x" is not an amount`,
		`{"cpu":{"series":{"step":1,"values":[]}}}`:                           "cpu.series.values: there are 0",
		`{"cpu":{"series":{"step":1,"values":[1,-1]}}}`:                       "cpu.series.values[1]: -1 times the scale 1",
		`{"cpu":{"series":{"step":1,"values":` + string(long) + `}}}`:         "cpu.series.values: there are 20001",
		`{"cpu":1,"work":-1}`:                                                 "work: -1 is not 0",
		`{"memory":1,"work":1}`:                                               "work: the pod uses no CPU",
		strings.Repeat(" ", maxAnnotation+1):                                  "more than 65536",
	} {
		if _, err := ParseAnnotation(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	big := &Model{Curves: [Dimensions]Curve{&Series{Step: 1, Scale: 1, Values: make([]float32, 40_000)}}}
	if _, err := FormatAnnotation(big); err == nil {
		t.Error("a model that no annotation holds was formatted")
	}
}

func TestCurves(t *testing.T) {
	series := &Series{Step: 10, Scale: 2, Values: []float32{1, 2, 3}}
	once, clock, late := *series, *series, *series
	once.Once, clock.Clock, late.Offset = true, true, 15
	for _, c := range []struct {
		name     string
		curve    Curve
		now, age float64
		want     float64
	}{
		{"constant", Constant(3), 5, 6, 3},
		{"day at its peak", Day{Low: 1, High: 5, Period: 100, Peak: 30}, 230, 0, 5},
		{"day at its lowest", Day{Low: 1, High: 5, Period: 100, Peak: 30}, 80, 0, 1},
		{"day between", Day{Low: 1, High: 5, Period: 100, Peak: 30}, 55, 0, 3},
		{"series", series, 0, 19.9, 4},
		{"series begins again", series, 0, 30, 2},
		{"series ends", &once, 0, 1e6, 6},
		{"series by the clock", &clock, 25, 0, 6},
		{"series with an offset", &late, 0, 5, 6},
		{"walk without width", Walk{Low: 2, High: 2, Deviation: 1, Step: 1}, 0, 50, 2},
	} {
		if got := c.curve.at(1, c.now, c.age); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Each slot has its burst, all of it, and seeds have theirs at different times.
func TestBursts(t *testing.T) {
	c := Bursts{Low: 1, High: 3, Every: 100, Length: 20}
	differ := 0
	for slot := range 50 {
		high := 0
		for s := range 100 {
			at := float64(slot*100 + s)
			if c.at(1, 0, at) == 3 {
				high++
			}
			if c.at(1, 0, at) != c.at(2, 0, at) {
				differ++
			}
		}
		if high < 19 || high > 21 {
			t.Errorf("slot %d is high for %d seconds", slot, high)
		}
	}
	if differ < 500 {
		t.Errorf("two seeds differ in %d of 5,000 seconds", differ)
	}
}

// Changes of a Brownian motion over k steps have mean 0 and variance k, wherever they begin.
func TestBrownian(t *testing.T) {
	for _, from := range []uint64{0, 3, 64, 1000} {
		for _, k := range []uint64{1, 5, 64, 700} {
			const draws = 4000
			var sum, square float64
			for seed := range uint64(draws) {
				d := brownian(seed, from+k) - brownian(seed, from)
				sum, square = sum+d, square+d*d
			}
			mean, variance := sum/draws, square/draws/float64(k)
			if math.Abs(mean) > 4*math.Sqrt(float64(k)/draws) || math.Abs(variance-1) > 0.12 {
				t.Errorf("from %d over %d: mean %.2f, variance per step %.3f", from, k, mean, variance)
			}
		}
	}
}

// A walk stays in its bounds and visits all of them alike.
func TestWalkIsUniform(t *testing.T) {
	c := Walk{Low: 2, High: 6, Deviation: 1, Step: 60}
	var quarter [4]int
	for seed := range uint64(2000) {
		for age := 0.0; age < 86400; age += 20_000 {
			x := c.at(seed, 0, age)
			if x < 2 || x > 6 {
				t.Fatalf("%v", x)
			}
			quarter[min(int(x-2), 3)]++
		}
	}
	for i, n := range quarter {
		if n < 2250 || n > 2750 {
			t.Errorf("quarter %d has %d of 10,000", i, n)
		}
	}
}

// Any time, also an impossible one, gives amounts within the bounds, the same each time.
func TestAtIsPure(t *testing.T) {
	m := parse(t, everything)
	rapid.Check(t, func(t *rapid.T) {
		seed, now, age := rapid.Uint64().Draw(t, "seed"), rapid.Float64().Draw(t, "now"), rapid.Float64().Draw(t, "age")
		got := m.At(seed, now, age)
		checkAmounts(t, got)
		if again := m.At(seed, now, age); got != again {
			t.Fatalf("%v, then %v", got, again)
		}
	})
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		checkAmounts(t, m.At(1, bad, bad))
	}
}

func checkAmounts(t interface{ Fatalf(string, ...any) }, a Amounts) {
	for d, x := range a {
		if !(x >= 0 && x <= most(Dimension(d))*(1+1e-6)) {
			t.Fatalf("%s: %v", Dimension(d), x)
		}
	}
}

func TestAtDoesNotAllocate(t *testing.T) {
	m := parse(t, everything)
	now := 0.0
	if n := testing.AllocsPerRun(100, func() { now += m.At(1, now, 9999)[CPU] }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Pods have seeds of their own.
func TestSeed(t *testing.T) {
	if Seed("a", "bc") == Seed("ab", "c") || Seed("a", "b") != Seed("a", "b") {
		t.Error("seeds")
	}
}

// FuzzParseAnnotation checks, for any text, that an error is short and printable, and that a model has amounts within the bounds and reads
// back equal.
func FuzzParseAnnotation(f *testing.F) {
	f.Add(everything, uint64(1), 5.0)
	f.Add(`{"cpu":"1e999"}`, uint64(1), -1.0)
	f.Add(`{"cpu":{"series":{"step":1,"scale":"1n","values":[1e30]}}}`, uint64(0), 1e300)
	f.Add(`{"\u0000":1,"`+strings.Repeat("x", 999)+`":2}`, uint64(0), 0.0)
	f.Fuzz(func(t *testing.T, text string, seed uint64, at float64) {
		m, err := ParseAnnotation(text)
		if err != nil {
			if s := err.Error(); len(s) > 600 || strings.ContainsAny(s, "\x00\x1b\r") {
				t.Fatalf("%q", s)
			}
			return
		}
		checkAmounts(t, m.At(seed, at, at))
		again, err := FormatAnnotation(m)
		if err != nil {
			return // more digits than in the text
		}
		if d := cmp.Diff(m, parse(t, again)); d != "" {
			t.Fatal(d)
		}
	})
}

// AtFor returns the same as At for any recalled state, and its promised validity holds.
func TestAtForIsAt(t *testing.T) {
	m := parse(t, everything)
	walk := Walk{Low: 1, High: 3, Deviation: 2, Step: 7}
	rapid.Check(t, func(t *rapid.T) {
		m := *m
		m.Curves[NetworkIn], m.Curves[DiskRead] = walk, Walk{High: 5, Deviation: 3, Step: 60}
		var recall Recall
		seed, age, until := rapid.Uint64().Draw(t, "seed"), 0.0, [Dimensions]float64{}
		var before Amounts
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			last := age
			age += rapid.SampledFrom([]float64{0, 1, 7, 60, 61.5, 900, -300, 1e7}).Draw(t, "later")
			now := age + 5e4
			want := m.At(seed, now, age)
			for d, x := range want {
				if age > last && age < until[d] && x != before[d] {
					t.Fatalf("%s is %v at %v, but %v should hold until %v", names[d], x, age, before[d], until[d])
				}
				got, hold := m.AtFor(Dimension(d), seed, now, age, &recall)
				if got != x {
					t.Fatalf("%s is %v at %v, want %v", names[d], got, age, x)
				}
				before[d], until[d] = x, age+hold
			}
		}
	})
}

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
		text := fatal.Value(json.Marshal(want))(t)
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
