package openb

import (
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/cluster"
	"gnnsched/workload/trace/openb/openbtest"
)

func TestVariants(t *testing.T) {
	dir := openbtest.Dir(t)
	podsOf := func(workload string, tainted bool) []Pod {
		t.Helper()
		nodes, pods, _, err := ReadWorkload(dir, workload)
		if got := slices.ContainsFunc(nodes, func(n Node) bool { return len(n.Taints) > 0 }); err != nil || got != tainted {
			t.Fatalf("%s: some nodes are tainted: %v, %v", workload, got, err)
		}
		return pods
	}
	kinds := func(pods []Pod) (named, share, several, without float64) {
		for _, p := range pods {
			switch {
			case p.GPUs == 0:
				without++
			case p.GPUs > 1:
				several++
			case p.GPUMilli < cluster.DeviceMilli:
				share++
			}
			if len(p.Models) > 0 {
				named++
			}
		}
		return named, share, several, without
	}
	_, _, several, without := kinds(podsOf("default", false))
	for _, v := range variants {
		a, b := podsOf("default+"+v.name, v.taints.Pools > 0), podsOf("default+"+v.name, v.taints.Pools > 0)
		if !slices.EqualFunc(a, b, func(x, y Pod) bool {
			return x.Shape().Requests == y.Shape().Requests && slices.Equal(x.Models, y.Models)
		}) {
			t.Errorf("%s is not the same twice", v.name)
		}
		gotNamed, gotShare, gotSeveral, gotWithout := kinds(a)
		if n := gotNamed / float64(len(a)); n < v.mix.named-0.02 || n > v.mix.named+0.02 {
			t.Errorf("%s: %v of the pods name models", v.name, n)
		}
		if v.mix.multiple > 1 && gotSeveral != v.mix.multiple*several || v.mix.withoutGPU > 1 && gotWithout != v.mix.withoutGPU*without {
			t.Errorf("%s: %v pods with several devices, %v without", v.name, gotSeveral, gotWithout)
		}
		if v.mix.sharing == 1 && gotShare != float64(len(a))-gotWithout {
			t.Errorf("%s: %v of %d pods share", v.name, gotShare, len(a))
		}
	}
	if _, _, _, err := ReadWorkload(dir, "default+none"); err == nil || !strings.Contains(err.Error(), "there are models20") {
		t.Error(err)
	}
}
