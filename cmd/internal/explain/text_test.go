package explain

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/cluster"
	"gnnsched/internal/each"
	"gnnsched/internal/fatal"
	"gnnsched/internal/fragmentation"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/policy"
	"gnnsched/scheduler/policy/heuristic"
	"gnnsched/scheduler/policy/linear"
	"gnnsched/scheduler/policy/neural"
	"gnnsched/scheduler/policy/policytest"
)

// snapshot has four nodes in two zones.
func snapshot() *cluster.Snapshot {
	s := &cluster.Snapshot{}
	for i, used := range []int64{1000, 6000, 3000, 5000} {
		n := &cluster.Node{
			Name: "node-" + string(rune('a'+i)), Zone: []string{"east", "west"}[i%2], Version: cluster.NextVersion(),
			Allocatable: cluster.Resources{MilliCPU: 8000, Memory: 32 << 30, Pods: 110},
		}
		n.Add(cluster.Resources{MilliCPU: used, Memory: used << 20, Pods: 1})
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// recorded lets a policy decide, and returns the record.
func recorded(t *testing.T, p policy.Reader, fingerprint uint64) decision.Record {
	t.Helper()
	return recordedOn(t, p, fingerprint, snapshot(), small)
}

// small holds the requests of a small pod.
var small = cluster.Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}

// scarce is snapshot with an SSD on the emptiest node, which one pod of four needs.
func scarce() *cluster.Snapshot {
	s := snapshot()
	s.Nodes[0].Labels, s.Demand = map[string]string{"disk": "ssd"}, &cluster.Demand{}
	db := &cluster.Pod{Requests: cluster.Resources{MilliCPU: 3500, Memory: 8 << 30, Pods: 1}, NodeSelector: s.Nodes[0].Labels}
	web := &cluster.Pod{Requests: small}
	for _, p := range []*cluster.Pod{db, web, web, web} {
		s.Demand.Arrive(cluster.KindKey(p), p)
	}
	return s
}

func priced(t *testing.T) policy.Reader {
	t.Helper()
	h := fatal.Value(heuristic.Find("price"))(t)
	return h.New(policy.Setting{}).(policy.Reader)
}

// recordedOn is recorded for a pod with some requests that fits on the first four nodes.
func recordedOn(t *testing.T, p policy.Reader, fingerprint uint64, s *cluster.Snapshot, requests cluster.Resources) decision.Record {
	t.Helper()
	pod, rows := &cluster.Pod{Requests: requests}, []int32{0, 1, 2, 3}
	scores := make([]float32, len(rows))
	fatal.If(t, p.Score(s, pod, rows, scores))
	d := decision.Decision{
		Number: 7, Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "web-0", UID: "u"}, At: time.Unix(1_700_000_000, 0),
		Policy: p.Name(), Fingerprint: fingerprint, Latency: 12 * time.Microsecond, Nodes: 6, Feasible: 4, Preferred: 4, Bound: true,
		Refused: []decision.Refusal{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 2}},
	}
	for _, i := range decision.Best(scores, func(i int) string { return s.Nodes[i].Name }) {
		d.Best = append(d.Best, decision.Candidate{Node: s.Nodes[i].Name, Score: scores[i], Read: p.Reading(s, pod, rows, i)})
	}
	d.Node = d.Best[0].Node
	d.Default = &decision.Default{Candidate: d.Best[2], Ties: 2, Preferred: true}
	return decision.RecordOf(&d)
}

func text(t *testing.T, r decision.Record, net *infer.Network) string {
	t.Helper()
	var b strings.Builder
	fatal.If(t, write(&b, r, net))
	return b.String()
}

func network(t *testing.T) (*infer.Network, policy.Reader) {
	t.Helper()
	a := checkpoint.Architecture{Encoder: checkpoint.GNN, Head: checkpoint.DQN, Hidden: 32}
	net := fatal.Value(infer.New(checkpoint.Random(a, rand.New(rand.NewPCG(1, 2)))))(t)
	return net, neural.New("mine", net, nil)
}

func TestText(t *testing.T) {
	fatal.Golden(t, "linear.txt", text(t, recorded(t, linear.Tuned("linear"), 0), nil))
	fatal.Golden(t, "rule.txt", text(t, recorded(t, linear.Rule(), 0), nil))
	fatal.Golden(t, "unschedulable.txt", text(t, decision.RecordOf(&decision.Decision{
		Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "web-0"}, At: time.Unix(1_700_000_000, 0), Nodes: 5,
		Refused: []decision.Refusal{
			{Plugin: "TaintToleration", Reason: "node(s) had untolerated taint(s)", Nodes: 3},
			{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 2},
		},
		Failure: "0/5 nodes are available", Nominated: "node-a",
	}), nil))
	watched := recorded(t, linear.Tuned("linear"), 0)
	watched.Outcome, watched.Really = decision.Shadow, watched.Best[3].Node
	fatal.Golden(t, "shadow.txt", text(t, watched, nil))
	for really, want := range map[string]string{watched.Node: "would go to " + watched.Node + ", where it really is.",
		"node-z": "and is really on node-z."} {
		watched.Really = really
		if got := text(t, watched, nil); !strings.Contains(got, want) || strings.Contains(got, "had not heard") {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	fatal.Golden(t, "shadow-unschedulable.txt", text(t, decision.RecordOf(&decision.Decision{
		Profile: "gnn", Pod: decision.Pod{Namespace: "shop", Name: "web-0"}, At: time.Unix(1_700_000_000, 0), Nodes: 5,
		Refused: []decision.Refusal{{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu", Nodes: 5}}, Failure: "0/5 nodes are available",
		Really: "node-b",
	}), nil))
	kept := recordedOn(t, priced(t), 0, scarce(), small)
	kept.Default.Candidate = kept.Best[3]
	fatal.Golden(t, "price.txt", text(t, kept, nil))
	value := recorded(t, linear.Tuned("linear"), 0)
	for i := range value.Best {
		value.Best[i].Read = &policy.Reading{Kind: policy.ValueReading, Features: policy.Numbers{value.Best[i].Score + 2, 2}}
	}
	value.Default = nil
	fatal.Golden(t, "value.txt", text(t, value, nil))
	net, p := network(t)
	got := text(t, recorded(t, p, net.Fingerprint()), net)
	for _, want := range []string{"Network mine (weights ", "Why node-", "FEATURE", "candidate:", "only this feature"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// Where default spreading outweighs the policy, that is said, and what the policy read is the difference of its own scores.
func TestSpreadText(t *testing.T) {
	r := recorded(t, linear.Tuned("linear"), 0)
	r.Node, r.RunnerUp, r.Margin = r.Best[1].Node, r.Best[0].Node, new(float64(r.Best[1].Score-r.Best[0].Score))
	const outweighs = "higher; the default spreading of replicas outweighs that."
	for spread, want := range map[int64]bool{0: false, 100: true} {
		r.Best[1].Spread = spread
		if got := text(t, r, nil); strings.Contains(got, outweighs) != want || strings.Contains(got, "below that of") == want {
			t.Errorf("%d points of spreading:\n%s", spread, got)
		}
	}
}

// A pod with claims has their devices by name, and the runner-up has the GPUs that it would have got there.
func TestClaimsText(t *testing.T) {
	r := recorded(t, linear.Tuned("linear"), 0)
	r.Default = nil
	r.Best[0].Cards = []string{"gpu.nvidia.com/node-a/gpu-1", "gpu.nvidia.com/node-a/gpu-2", "gpu.nvidia.com/node-a/gpu-3"}
	r.Best[1].Cards = []string{"gpu.nvidia.com/node-c/gpu-0"}
	r.Claimed = []decision.ClaimedDevice{
		{Claim: "web-0-gpus-x7k2p", Request: "whole", Driver: "gpu.nvidia.com", Pool: "node-a", Name: "gpu-1", Milli: 1000},
		{Claim: "web-0-gpus-x7k2p", Request: "part/half", Driver: "gpu.nvidia.com", Pool: "node-a", Name: "gpu-2-mig-3g20gb-4", Milli: 460},
		{Claim: "link", Request: "nic", Driver: "net.example.com", Pool: "rack-3", Name: "eth1"},
		{Request: "container-0-request-0", Driver: "gpu.nvidia.com", Pool: "node-a", Name: "gpu-3", Milli: 1000},
	}
	got := text(t, r, nil)
	fatal.Golden(t, "claims.txt", strings.Split(got, "\n\n")[0]+"\n")
	r.Outcome = "not bound"
	r.Best[1].Cards = nil
	got = text(t, r, nil)
	for want, is := range map[string]bool{"Its claims would have given the pod": true, "had not heard": true, "Of those": false} {
		if strings.Contains(got, want) != is {
			t.Errorf("%q is in it: %v\n%s", want, !is, got)
		}
	}
}

func gpuNetwork(t *testing.T) (*infer.Network, policy.Reader) {
	t.Helper()
	c := fatal.Value(checkpoint.Shipped("gpu-gnn"))(t)
	net := fatal.Value(infer.New(c))(t)
	return net, neural.New("gpu-gnn", net, fragmentation.NewTypical([]fragmentation.Demand{
		{Requests: policytest.Share(500), Count: 2}, {Requests: policytest.Whole(1), Count: 2}, {Requests: policytest.Whole(4), Count: 1},
	}))
}

// For a network for GPUs, the parts of features, of each changed device, and of the reserve add up to the difference of the scores. Without
// the network, there are the two values.
func TestGPUParts(t *testing.T) {
	net, p := gpuNetwork(t)
	for _, requests := range []cluster.Resources{policytest.Share(500), policytest.Whole(2)} {
		s := &cluster.Snapshot{Nodes: []*cluster.Node{
			policytest.GPUNode(64_000, 4, policytest.Share(500)), policytest.GPUNode(64_000, 8), policytest.GPUNode(32_000, 2),
			policytest.GPUNode(64_000, 4, policytest.Whole(1)),
		}}
		for i, n := range s.Nodes {
			n.Name = "node-" + string(rune('a'+i))
		}
		r := recordedOn(t, p, net.Fingerprint(), s, requests)
		for _, other := range r.Best[1:3] {
			c := fatal.Value(compare(r.Best[0], other, net))(t)
			sum, devices := 0.0, 0
			for _, part := range c.parts {
				sum += part.Part
				if strings.HasPrefix(part.Name, "device ") {
					devices++
					if part.From+part.To >= 0 {
						t.Errorf("a placement frees %+v", part)
					}
				}
			}
			if math.Abs(sum-c.margin()) > 1e-3*(1+math.Abs(c.margin())) {
				t.Errorf("%v, %s: the parts add up to %v, the margin is %v", requests, other.Node, sum, c.margin())
			}
			if want := 2 * int(max(requests.GPU, 1)); devices != want {
				t.Errorf("%v, %s: %d devices change, want %d", requests, other.Node, devices, want)
			}
		}
		if requests.GPU > 0 {
			continue
		}
		got := text(t, r, net)
		for _, want := range []string{"(under the nodes: by how much the placement changes the feature there)", " of " + r.Node + " ", "node:",
			"would have got the pod if only this feature had differed: v(after)"} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		if got := text(t, r, nil); !strings.Contains(got, "v(before)") || strings.Contains(got, "node:") {
			t.Error(got)
		}
	}
}

// addsUp compares the chosen node with another one, and fails unless the parts add up to the difference of the scores.
func addsUp(t *testing.T, r decision.Record, other decision.Candidate, net *infer.Network) *comparison {
	t.Helper()
	c := fatal.Value(compare(r.Best[0], other, net))(t)
	sum := each.Sum(c.parts, func(part infer.Attribution) float64 { return part.Part })
	if math.Abs(sum-c.margin()) > 1e-3*(1+math.Abs(c.margin())) {
		t.Errorf("%s: the parts of %s add up to %v, the margin is %v", r.Policy, other.Node, sum, c.margin())
	}
	return c
}

// The parts add up to the difference of the scores, and a flip that is named flips the choice.
func TestPartsAddUp(t *testing.T) {
	net, p := network(t)
	for _, r := range []decision.Record{recorded(t, linear.Tuned("linear"), 0), recorded(t, linear.Rule(), 0), recorded(t, p, net.Fingerprint())} {
		for _, other := range r.Best[1:] {
			c := addsUp(t, r, other, net)
			if c.flip == nil {
				continue
			}
			score := 0.0
			if other.Read.Kind == policy.LinearReading {
				for j, x := range other.Read.Features {
					v := float64(x)
					if linear.Features[j] == c.flip.name {
						v = c.flip.to
					}
					score += v * float64(other.Read.Weights[j])
				}
			} else {
				x := append([]float32{}, other.Read.Features...)
				for j, name := range net.Names() {
					if name == c.flip.name {
						if !net.Domains()[j].Has(c.flip.to) {
							t.Errorf("%s cannot be %v", name, c.flip.to)
						}
						x[j] = float32(c.flip.to)
					}
				}
				var err error
				if score, err = net.ScoreOf(x); err != nil {
					t.Fatal(err)
				}
			}
			if score < float64(r.Best[0].Score)-1e-4*(1+math.Abs(score)) {
				t.Errorf("%s: with %+v the score of %s is %v, not %v", r.Policy, *c.flip, other.Node, score, r.Best[0].Score)
			}
		}
	}
}

// A zero is written without a sign, whichever it has.
func TestNegativeZero(t *testing.T) {
	zero := math.Copysign(0, -1)
	c := comparison{chosen: decision.Candidate{Node: "a", Score: 2}, other: decision.Candidate{Node: "b", Score: 1},
		parts: []infer.Attribution{{Name: "x", From: zero, To: 1, Part: 1}, {Name: "y", From: 1, To: zero, Part: -1}},
		flip:  &flip{"z", zero, 0.5}}
	var b strings.Builder
	c.write(&b)
	if got := b.String(); regexp.MustCompile(`-0(\s|\.\n)`).MatchString(got) || !strings.Contains(got, "z 0.5 instead of 0.") {
		t.Error(got)
	}
}

// A record from other weights, or a manipulated one, is not explained by wrong parts.
func TestOtherWeights(t *testing.T) {
	r := recorded(t, linear.Tuned("linear"), 0)
	r.Best[0].Score++
	if got := text(t, r, nil); !strings.Contains(got, "the weights are others") || strings.Contains(got, "FEATURE") {
		t.Error(got)
	}
	net, p := network(t)
	r = recorded(t, p, net.Fingerprint())
	if got := text(t, r, nil); !strings.Contains(got, "not at hand") {
		t.Error(got)
	}
	gpu, _ := gpuNetwork(t)
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 { // readings of any length must not panic
		for i := range r.Best {
			r.Best[i].Read.Features = make(policy.Numbers, random.IntN(300))
			r.Best[i].Read.Kind = []policy.ReadingKind{policy.LinearReading, policy.NetworkReading, policy.ValueReading, "x"}[random.IntN(4)]
		}
		text(t, r, []*infer.Network{net, gpu, nil}[random.IntN(3)])
	}
}

// A fallback names what failed, also where there was no network to name.
func TestFallbackNamesWhatFailed(t *testing.T) {
	for name, want := range map[string]string{"gnn": "because gnn failed (deadline),", "": "because the network failed (deadline),"} {
		if got := by(decision.Record{Policy: name, Fallback: "deadline"}); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s", name, got)
		}
	}
}
