package partition

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/mig"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/policytest"
)

func named(t *testing.T, rule string, m Mix) *Policy {
	t.Helper()
	f, _, err := Find(rule)
	fatal.If(t, err)
	return f("mig:"+rule, m, nil)
}

// gpus returns a node with some memory slices of its GPUs in use.
func gpus(used ...mig.Slices) *cluster.Node {
	n := &cluster.Node{Slices: used, Version: cluster.NextVersion()}
	for _, u := range used {
		n.GPUs = append(n.GPUs, min(mig.Used(u.Len(), u.Len()), cluster.DeviceMilli-1))
	}
	return n
}

// only is the mix of one profile.
func only(p mig.Profile) (m Mix) {
	m[p] = 1
	return m
}

// Where each rule puts a partition, by hand: on which GPU and at which start.
func TestRules(t *testing.T) {
	const lower, upper = mig.Slices(0b1111), mig.Slices(0b1111_0000)
	for _, c := range []struct {
		rule       string
		mix        Mix
		used       []mig.Slices
		profile    mig.Profile
		gpu, start int
	}{
		{"first-fit", MixOf(nil), []mig.Slices{mig.All, 0, lower}, mig.Three, 1, 0},
		{"best-fit", MixOf(nil), []mig.Slices{0, 0, upper}, mig.Two, 2, 0},
		{"best-fit", MixOf(nil), []mig.Slices{0, 0}, mig.Three, 0, 4},
		{"placements", MixOf(nil), []mig.Slices{0, 0b1}, mig.One, 1, 1},
		{"blocked", MixOf(nil), []mig.Slices{0, 0b11_1111}, mig.OneWide, 1, 6},
		{"fgd", only(mig.Four), []mig.Slices{upper, lower}, mig.One, 1, 4},  // 4g fits on the first GPU only
		{"fgd", only(mig.Three), []mig.Slices{upper, lower}, mig.One, 0, 0}, // one 3g loses its place either way
		{"value", MixOf(nil), []mig.Slices{0, lower}, mig.Three, 1, 4},
		{"value", MixOf(nil), []mig.Slices{0}, mig.Three, 0, 4}, // a 4g still fits
	} {
		p, n := named(t, c.rule, c.mix), gpus(c.used...)
		pod := &cluster.Pod{Partition: c.profile, Requests: cluster.Resources{GPUMilli: c.profile.Milli()}}
		on := policy.Devices(p, n, pod)
		if on != cluster.Device(c.gpu) {
			t.Errorf("%s, %s on %08b: on %b, want GPU %d", c.rule, c.profile.Name(40), c.used, on, c.gpu)
			continue
		}
		if got := policy.Start(p, c.used[c.gpu], c.profile); got != c.start {
			t.Errorf("%s, %s on %08b starts at %d, want %d", c.rule, c.profile.Name(40), c.used, got, c.start)
		}
	}
}

// A GPU that is shown as full is never chosen, and a node on which nothing fits scores less than any other.
func TestScores(t *testing.T) {
	for _, r := range rules {
		p := named(t, r.name, MixOf(nil))
		closed, open := gpus(0, mig.All), gpus(mig.All, 0b1)
		closed.GPUs[0] = cluster.DeviceMilli
		s := &cluster.Snapshot{Nodes: []*cluster.Node{closed, open}}
		pod := &cluster.Pod{Partition: mig.Two, Requests: cluster.Resources{GPUMilli: mig.Two.Milli()}}
		if got := policytest.Scores(t, p, s, pod, []int32{0, 1}); got[0] >= got[1] {
			t.Errorf("%s: scores %v", r.name, got)
		}
		if on := policy.Devices(p, open, pod); on != cluster.Device(1) {
			t.Errorf("%s: on %b", r.name, on)
		}
	}
}

// With a weight on the first feature alone, the values make the same choices as FGD.
func TestFragmentation(t *testing.T) {
	w := make([]float64, len(mig.Features))
	w[0] = 1
	for _, m := range []Mix{MixOf(nil), only(mig.Two), {mig.One: 0.3, mig.Three: 0.7}} {
		want, got := named(t, "fgd", m), Weighted(w).Policy(m)
		if want.best != got.best {
			t.Errorf("%v: the choices differ", m)
		}
	}
}

// A file of values can be read again, and gives the same policy.
func TestFile(t *testing.T) {
	b := fatal.Value(learned().Marshal("again"))(t)
	path := filepath.Join(t.TempDir(), "mine.json")
	fatal.If(t, os.WriteFile(path, b, 0o600))
	if got, want := named(t, path, MixOf(nil)), named(t, "value", MixOf(nil)); got.best != want.best {
		t.Error("the choices differ")
	}
	for name, want := range map[string]string{"worst-fit": "there are first-fit", path + ".json": "no such file"} {
		if _, _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(shipped)
	f.Add([]byte(`{"format": "gnnsched mig values 1", "values": [[1]]}`))
	f.Add([]byte(`{"format": "gnnsched mig values 1", "values": [[1e7],[],[],[],[],[]]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parse(b)
		if err != nil {
			return
		}
		p := v.Policy(MixOf(nil))
		for s := range states {
			if start := p.Start(mig.Slices(s), mig.Two); (start >= 0) != mig.Two.Fits(mig.Slices(s)) {
				t.Fatalf("2g on %08b starts at %d", s, start)
			}
		}
	})
}
