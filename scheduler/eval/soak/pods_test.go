package soak

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/cluster/kube"
	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

// Every kind of pod comes, and each pod except the oversized ones fits on an empty node, so a pod without a node on an empty cluster is
// lost.
func TestPodsFit(t *testing.T) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	if total != 100 {
		t.Errorf("the weights of the kinds are %d %%", total)
	}
	r := rand.New(rand.NewPCG(1, 2))
	shares, devices, urgentPods, large, claims, two := 0, 0, 0, 0, 0, 0
	known := map[string]bool{}
	for _, t := range templates() {
		known[t.Name] = true
	}
	for i := range 5000 {
		p := newPod(r, i, "gnn")
		for _, c := range p.Spec.ResourceClaims {
			if !known[*c.ResourceClaimTemplateName] {
				t.Errorf("there is no template %s", *c.ResourceClaimTemplateName)
			}
		}
		claims += min(len(p.Spec.ResourceClaims), 1)
		two += len(p.Spec.ResourceClaims) / 2
		if p.Spec.PriorityClassName != "" {
			urgentPods++
		}
		running, err := kube.Running(p)
		if err != nil {
			t.Fatalf("%v: %v", p.Annotations, err)
		}
		want := running.Requests
		want.Pods = 1
		fits := false
		for _, q := range pools(4) {
			model := p.Annotations[kube.GPUModelAnnotation]
			fits = fits || want.Within(q.has) && (model == "" || model == q.model)
		}
		tooLarge := p.Labels[tooLargeLabel] != ""
		if fits == tooLarge {
			t.Errorf("a pod with %+v fits: %v", want, fits)
		}
		switch {
		case tooLarge:
			large++
		case want.GPU > 0:
			devices++
		case want.GPUMilli > 0:
			shares++
		}
	}
	if shares == 0 || devices == 0 || urgentPods == 0 || large == 0 || claims == 0 || two == 0 {
		t.Errorf("%d shares, %d with whole devices, %d urgent, %d too large, %d with claims, %d with two: all must come",
			shares, devices, urgentPods, large, claims, two)
	}
}

// kwokcluster makes of the pools the nodes that the count expects.
func TestPools(t *testing.T) {
	for _, nodes := range []int{4, 5, 20, 77} {
		text, err := poolFile(nodes)
		fatal.If(t, err)
		parsed, err := nodepool.Parse("pools.yaml", text)
		fatal.If(t, err)
		want := machines(pools(nodes))
		if n := nodepool.Nodes(parsed); n != nodes || len(want) != nodes {
			t.Errorf("%d and %d nodes, want %d", n, len(want), nodes)
		}
		for _, p := range parsed {
			a := kube.AmountsIn(p.Capacity)
			got := machine{Resources: cluster.Resources{MilliCPU: a.MilliCPU, Memory: a.Memory, Pods: a.Pods, GPU: a.GPUCount}}
			for _, d := range p.Devices {
				got.slices += d.Count
			}
			if has := want[p.Name+"-0"]; got != has {
				t.Errorf("pool %s: %+v, want %+v", p.Name, got, has)
			}
			if p.Labels[corev1.LabelTopologyZone] != "" || len(p.Zones) != 3 {
				t.Errorf("pool %s has the zones %v", p.Name, p.Zones)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	good := Config{For: time.Minute, Nodes: 20, Pods: 300, Schedulers: 2}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Config){
		"a soak of 1s":      func(c *Config) { c.For = time.Second },
		"3 nodes":           func(c *Config) { c.Nodes = 3 },
		"5000 pods":         func(c *Config) { c.Pods = 5000 },
		"a rate of -1":      func(c *Config) { c.Rate = -1 },
		"a pause of -1s":    func(c *Config) { c.Every = -time.Second },
		"0 schedulers":      func(c *Config) { c.Schedulers = 0 },
		"6 schedulers":      func(c *Config) { c.Schedulers = 6 },
		"1 pods at the sam": func(c *Config) { c.Pods = 1 },
	} {
		c := good
		change(&c)
		if err := c.Validate(); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
