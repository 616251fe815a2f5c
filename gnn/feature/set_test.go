package feature_test

import (
	"fmt"
	"strings"
	"testing"

	"gnnsched/gnn/feature"
	"gnnsched/gnn/feature/featuretest"
	"gnnsched/internal/fatal"
)

// The hashes must never change, whatever other sets are registered: they are in every checkpoint that
// names no sets.
func TestBaseKeepsItsHash(t *testing.T) {
	if got, want := feature.Default().Hash(), "30fe184f1fe1cc3c"; got != want {
		t.Errorf("the hash of %s is %s, want %s", feature.Base.Name, got, want)
	}
	if got, want := fatal.Value(feature.NewLayout([]string{"base", "whole"}))(t).Hash(), "47c903d9fd1e5ee6"; got != want {
		t.Errorf("the hash of base and whole is %s, want %s", got, want)
	}
	if got, want := feature.DefaultGPU().Hash(), "3efa61a97e19d20b"; got != want {
		t.Errorf("the hash of the GPU set %s is %s, want %s", feature.GPUBase.Name, got, want)
	}
}

// Features of several sets follow one another, and the order of the sets is part of the hash.
func TestLayoutOfSeveralSets(t *testing.T) {
	base := feature.Default()
	var hashes []string
	for _, names := range [][]string{nil, {featuretest.Name}, featuretest.Names, {featuretest.Name, "base"}} {
		l, err := feature.NewLayout(names)
		fatal.If(t, err)
		for _, h := range hashes {
			if h == l.Hash() {
				t.Errorf("%v has the hash of another layout", names)
			}
		}
		hashes = append(hashes, l.Hash())
	}
	l, err := feature.NewLayout(featuretest.Names)
	fatal.If(t, err)
	want := base.Widths
	want = feature.Widths{Node: want.Node + 1, Group: want.Group + 1, Pod: want.Pod + 1, Cluster: want.Cluster + 1,
		Candidate: want.Candidate + 2}
	if l.Widths != want {
		t.Errorf("widths %+v, want %+v", l.Widths, want)
	}
	if all := feature.List(l.Candidate); all[0].Name != "cpu" || all[len(all)-1].Name != "added" {
		t.Errorf("the candidates' features are %v", all)
	}
}

func TestLayoutErrors(t *testing.T) {
	feature.Register(&feature.Set{Name: "empty"})
	feature.Register(&feature.Set{Name: "empty", Stars: feature.GPUStars})
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"base", "nonsense"}, `feature set "nonsense" is not known (`},
		{[]string{"base", "base"}, `feature set "base" is named twice`},
		{[]string{"base", "power"}, `feature set "power" is gone, and the network that reads it cannot run: use the policy linear-energy`},
		{[]string{"empty"}, "feature sets empty: "},
	} {
		if _, err := feature.NewLayout(c.names); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.names, err, c.want)
		}
		if _, err := feature.NewGPULayout(c.names); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("GPU %v: %v, want %s", c.names, err, c.want)
		}
	}
}

func TestRegisterRefusesATakenName(t *testing.T) {
	for name, register := range map[string]func(){
		"set":     func() { feature.Register(&feature.Set{Name: "base"}) },
		"GPU set": func() { feature.Register(&feature.Set{Name: "base", Stars: feature.GPUStars}) },
		"no name": func() { feature.Register(&feature.Set{}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			register()
		}()
	}
}

// What is said to be 0 or 1 is a flag, what is requested is never negative, differences of fractions are within ±1, and each domain has its
// values and no others.
func TestDomains(t *testing.T) {
	l, err := feature.NewLayout([]string{"base", "whole"})
	fatal.If(t, err)
	for _, f := range append(feature.List(l.Node), feature.List(l.Candidate)...) {
		if flag := strings.HasPrefix(f.Doc, "1 if "); flag != (f.In == feature.Flag) {
			t.Errorf("%s (%s) is in domain %d", f.Name, f.Doc, f.In)
		}
		if strings.HasPrefix(f.Doc, "requested / ") && f.In.Has(-0.001) {
			t.Errorf("%s (%s) can be negative", f.Name, f.Doc)
		}
		if strings.HasSuffix(f.Name, "_off") && (f.In.Has(1.001) || f.In.Has(-1.001)) {
			t.Errorf("%s (%s) can be beyond ±1", f.Name, f.Doc)
		}
	}
	for d, want := range map[feature.Domain]string{
		feature.Difference: "-0.001 0 0.5 1",
		feature.Signed:     "-4 -0.001 0 0.5 1 4", feature.Amount: "0 0.5 1 4 5", feature.Fraction: "0 0.5 1", feature.Flag: "0 1",
	} {
		var has []string
		for _, x := range []float64{-5, -4, -0.001, 0, 0.5, 1, 4, 5} {
			if d.Has(x) {
				has = append(has, fmt.Sprint(x))
			}
		}
		if got := strings.Join(has, " "); got != want {
			t.Errorf("domain %d has %s, want %s", d, got, want)
		}
	}
}

// Every feature of the shipped sets has a name of its own and a doc.
func TestFeaturesAreDocumented(t *testing.T) {
	for kind, list := range map[string][]feature.Feature{
		"node": feature.List(feature.Base.Node), "group": feature.List(feature.Base.Group), "pod": feature.List(feature.Base.Pod),
		"cluster": feature.List(feature.Base.Cluster), "candidate": feature.List(feature.Base.Candidate),
		"GPU node": feature.List(feature.GPUBase.Node), "GPU cluster": feature.List(feature.GPUBase.Cluster),
	} {
		seen := map[string]bool{}
		for _, f := range list {
			if f.Name == "" || f.Doc == "" || strings.ContainsAny(f.Name, ",;: ") || seen[f.Name] {
				t.Errorf("%s: %+v has no name, no doc or the name of another", kind, f)
			}
			seen[f.Name] = true
		}
	}
}
