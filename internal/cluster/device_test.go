package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func gpuNode(used ...int64) *Node {
	n := &Node{Name: "g", GPUModel: "T4", Allocatable: Resources{MilliCPU: 64_000, Memory: 64 << 30, GPU: int64(len(used)), Pods: 110}}
	n.GPUs = append([]int64{}, used...)
	return n
}

func TestFitDevices(t *testing.T) {
	whole := func(k int64) Resources { return Resources{GPU: k, Pods: 1} }
	share := func(m int64) Resources { return Resources{GPUMilli: m, Pods: 1} }
	for _, c := range []struct {
		name   string
		used   []int64
		ask    Resources
		models []string
		want   Reason
	}{
		{"whole on idle ones", []int64{0, 100, 0}, whole(2), nil, Fits},
		{"shared devices are not idle", []int64{0, 100, 0}, whole(3), nil, NoGPU},
		{"share", []int64{1000, 600}, share(400), nil, Fits},
		{"room enough only on two devices together", []int64{700, 700}, share(400), nil, NoDevice},
		{"share of a node without GPUs", nil, share(1), nil, NoDevice},
		{"whole of a node without GPUs", nil, whole(1), nil, NoGPU},
		{"model", []int64{0}, whole(1), []string{"V100", "T4"}, Fits},
		{"wrong model", []int64{0}, share(1), []string{"V100"}, WrongModel},
		{"no GPU asked of a full node", []int64{1000}, Resources{Pods: 1}, nil, Fits},
	} {
		if got := gpuNode(c.used...).Fit(&Pod{Requests: c.ask, GPUModels: c.models}); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	counted := &Node{Allocatable: Resources{GPU: 2, Pods: 9}, Requested: Resources{GPU: 1}}
	for ask, want := range map[Resources]Reason{whole(1): Fits, whole(2): NoGPU, share(1): NoDevice} {
		if got := counted.Fit(&Pod{Requests: ask}); got != want {
			t.Errorf("devices not known, %+v: %q, want %q", ask, got, want)
		}
	}
}

func TestFitsOn(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  Resources
		on   DeviceSet
		want bool
	}{
		{"a share with room", Resources{GPUMilli: 300}, Device(1), true},
		{"a share without room", Resources{GPUMilli: 301}, Device(1), false},
		{"a share on two devices", Resources{GPUMilli: 1}, Device(0) | Device(1), false},
		{"whole devices", Resources{GPU: 2}, Device(0) | Device(2), true},
		{"too few devices", Resources{GPU: 2}, Device(0), false},
		{"a used device", Resources{GPU: 2}, Device(0) | Device(1), false},
		{"no such device", Resources{GPU: 1}, Device(3), false},
		{"no device for a request", Resources{GPU: 1}, 0, false},
		{"no device without a request", Resources{MilliCPU: 1}, 0, true},
		{"a device without a request", Resources{MilliCPU: 1}, Device(0), false},
	} {
		if got := gpuNode(0, 700, 0).FitsOn(c.ask, c.on); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestChooseDevices(t *testing.T) {
	for _, c := range []struct {
		name string
		used []int64
		ask  Resources
		want DeviceSet
	}{
		{"lowest idle", []int64{10, 0, 0, 0}, Resources{GPU: 2}, Device(1) | Device(2)},
		{"least room that fits", []int64{0, 500, 600, 900}, Resources{GPUMilli: 300}, Device(2)},
		{"first of equals", []int64{0, 500, 500}, Resources{GPUMilli: 500}, Device(1)},
		{"overcommitted whole", []int64{10, 0, 5}, Resources{GPU: 2}, Device(1) | Device(2)},
		{"overcommitted share", []int64{900, 800}, Resources{GPUMilli: 300}, Device(1)},
		{"more than there are", []int64{0}, Resources{GPU: 3}, Device(0)},
		{"no GPU", []int64{0}, Resources{MilliCPU: 1}, 0},
		{"devices not known", nil, Resources{GPU: 1}, 0},
	} {
		if got := gpuNode(c.used...).ChooseDevices(c.ask); got != c.want {
			t.Errorf("%s: %b, want %b", c.name, got, c.want)
		}
	}
}

// A pod that fits never overcommits a device, the used amounts add up to the pods' requests, and
// nothing is used after all pods were removed, in any order.
func TestDevicesInvariants(t *testing.T) {
	type placed struct {
		ask Resources
		on  DeviceSet
	}
	rapid.Check(t, func(t *rapid.T) {
		n := gpuNode(make([]int64, rapid.IntRange(1, 8).Draw(t, "devices"))...)
		var running []placed
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(running) > 0 && rapid.IntRange(0, 2).Draw(t, "leaves") == 0 {
				i := rapid.IntRange(0, len(running)-1).Draw(t, "who")
				n.Remove(running[i].ask, running[i].on)
				running = append(running[:i], running[i+1:]...)
			}
			p := Pod{Requests: Resources{MilliCPU: 10, Pods: 1}}
			if rapid.Bool().Draw(t, "share") {
				p.Requests.GPUMilli = rapid.Int64Range(1, 999).Draw(t, "milli")
			} else {
				p.Requests.GPU = rapid.Int64Range(0, 8).Draw(t, "gpu")
			}
			if n.Fit(&p) != Fits {
				continue
			}
			on := n.Add(p.Requests)
			if want := int(p.Requests.GPU + min(p.Requests.GPUMilli, 1)); on.Len() != want {
				t.Fatalf("%+v is on %b", p.Requests, on)
			}
			running = append(running, placed{p.Requests, on})
			var used int64
			for i, u := range n.GPUs {
				if used += u; u < 0 || u > DeviceMilli {
					t.Fatalf("device %d has %d in use", i, u)
				}
			}
			if used != n.Requested.TotalGPUMilli() || n.IdleGPUMilli() != n.Free().TotalGPUMilli() {
				t.Fatalf("%d in use, %d idle, requested %+v", used, n.IdleGPUMilli(), n.Requested)
			}
		}
		for _, r := range running {
			n.Remove(r.ask, r.on)
		}
		if d := cmp.Diff(make([]int64, len(n.GPUs)), n.GPUs); d != "" || n.Requested != (Resources{}) || len(n.Groups) > 0 {
			t.Fatalf("left over: %v %v", n.GPUs, n.Requested)
		}
	})
}

func TestRemoveFromOtherDevicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	n := gpuNode(0, 0)
	n.AddOn(Resources{GPUMilli: 300}, Device(0))
	n.Remove(Resources{GPUMilli: 300}, Device(1))
}

func TestPlacementDoesNotAllocate(t *testing.T) {
	n, p := gpuNode(0, 300, 0, 0), &Pod{Requests: Resources{MilliCPU: 100, GPUMilli: 500, Pods: 1}, GPUModels: []string{"T4"}}
	n.Remove(p.Requests, n.Add(p.Requests)) // Groups keeps its capacity
	if got := testing.AllocsPerRun(100, func() {
		if n.Fit(p) == Fits {
			n.Remove(p.Requests, n.Add(p.Requests))
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func podOf(cpu int64, selector map[string]string) *Pod {
	return &Pod{Name: "p", Owner: "o", Requests: Resources{MilliCPU: cpu, Pods: 1}, NodeSelector: selector}
}

func TestDemand(t *testing.T) {
	var d Demand
	db := podOf(4000, map[string]string{"disk": "ssd"})
	for range 3 {
		d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
		d.Arrive(KindKey(&Pod{Name: "other name", Requests: Resources{MilliCPU: 1000, Pods: 1}}), &Pod{Name: "other name", Requests: Resources{MilliCPU: 1000, Pods: 1}})
		d.Arrive(KindKey(db), db)
	}
	d.Wait(KindKey(db), db, 2)
	d.Wait(KindKey(db), db, -1)
	if len(d.Kinds) != 2 || d.Kinds[0].Pod.Name != "" {
		t.Fatalf("%d kinds, the first named %q", len(d.Kinds), d.Kinds[0].Pod.Name)
	}
	if a, b := d.Kinds[0].Arrived, d.Kinds[1].Arrived; !(a > 5.9 && a < 6 && b > 2.9 && b <= 3) {
		t.Errorf("%v and %v pods arrived", a, b)
	}
	if d.Kinds[1].Waiting != 1 {
		t.Errorf("%v wait", d.Kinds[1].Waiting)
	}

	var c Demand
	d.CopyTo(&c)
	c.NoneWait()
	c.Arrive(KindKey(podOf(1, nil)), podOf(1, nil))
	if len(d.Kinds) != 2 || d.Kinds[1].Waiting != 1 || c.Epoch == d.Epoch {
		t.Error("a change of the copy changed the original, or left the epoch the same")
	}
	before := d.Kinds[0].Arrived
	d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
	d.CopyTo(&c)
	if len(c.Kinds) != 2 || c.Kinds[0].Arrived <= before || c.Epoch != d.Epoch {
		t.Error("the second copy is not like the original")
	}
}

// What no longer comes fades, and at most maxKinds are told apart, those that wait longest of all.
func TestDemandForgets(t *testing.T) {
	var d Demand
	once, stays := podOf(1, nil), podOf(2, nil)
	d.Arrive(KindKey(once), once)
	d.Arrive(KindKey(stays), stays)
	d.Wait(KindKey(stays), stays, 1)
	for range int(remembered * math.Log(1/forgotten) * 1.1) {
		d.Arrive(KindKey(podOf(1000, nil)), podOf(1000, nil))
	}
	if len(d.Kinds) != 2 {
		t.Fatalf("%d kinds, want the one that comes and the one that waits", len(d.Kinds))
	}
	for i := range 3 * maxKinds {
		d.Arrive(KindKey(podOf(1000, map[string]string{"only": fmt.Sprint(i)})), podOf(1000, map[string]string{"only": fmt.Sprint(i)}))
	}
	if len(d.Kinds) != maxKinds {
		t.Errorf("%d kinds", len(d.Kinds))
	}
	if k := d.kind(KindKey(stays), stays); k.Waiting != 1 {
		t.Error("the kind that waits was dropped before kinds that came once")
	}
}

func TestDroppedKindStaysAway(t *testing.T) {
	var d Demand
	p := podOf(1000, nil)
	if d.Wait(KindKey(p), p, -1); len(d.Kinds) != 0 {
		t.Error("a pod of a dropped kind that got its node made the kind anew")
	}
}

func TestAffinity(t *testing.T) {
	is := func(key, operator string, values ...string) Requirement { return Requirement{key, operator, values} }
	n := &Node{Labels: map[string]string{"disk": "ssd", "cores": "32", "name": "x"}, Allocatable: Resources{Pods: 10}}
	for _, c := range []struct {
		terms [][]Requirement
		want  Reason
	}{
		{nil, Fits},
		{[][]Requirement{{is("disk", "In", "hdd", "ssd")}}, Fits},
		{[][]Requirement{{is("disk", "In", "hdd")}}, SelectorMiss},
		{[][]Requirement{{is("disk", "In", "hdd")}, {is("cores", "Gt", "16")}}, Fits},
		{[][]Requirement{{is("disk", "Exists"), is("cores", "Gt", "32")}}, SelectorMiss},
		{[][]Requirement{{is("cores", "Lt", "33"), is("gpu", "DoesNotExist"), is("zone", "NotIn", "a")}}, Fits},
		{[][]Requirement{{is("disk", "NotIn", "ssd")}}, SelectorMiss},
		{[][]Requirement{{is("name", "Gt", "1")}}, SelectorMiss},
		{[][]Requirement{{is("cores", "Gt", "1", "2")}}, SelectorMiss},
		{[][]Requirement{{is("disk", "Like", "ssd")}}, SelectorMiss},
		{[][]Requirement{{}}, SelectorMiss},
	} {
		if got := n.Fit(&Pod{NodeAffinity: c.terms}); got != c.want {
			t.Errorf("%v: %q, want %q", c.terms, got, c.want)
		}
	}
	if KindKey(&Pod{}) == KindKey(&Pod{NodeAffinity: [][]Requirement{{is("disk", "Exists")}}}) {
		t.Error("affinity makes no other kind")
	}
}

func TestWhere(t *testing.T) {
	p := &Pod{NodeSelector: map[string]string{"disk": "ssd", "arch": "arm64"}, NodeAffinity: [][]Requirement{
		{{"zone", "In", []string{"a", "b"}}, {"cores", "Gt", []string{"8"}}}, {{"gpu", "DoesNotExist", nil}, {"team", "NotIn", []string{"x"}}},
	}}
	if got, want := p.Where(), "arch=arm64, disk=ssd, zone in (a,b), cores>8 or !gpu, team notin (x)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	p.NodeSelector["long"] = strings.Repeat("x", 200)
	if got := p.Where(); len(got) > longestWhere+len("…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestBothTerms(t *testing.T) {
	a, b := []Requirement{{"a", "Exists", nil}}, []Requirement{{"b", "Exists", nil}}
	if got := (&Pod{NodeAffinity: BothTerms([][]Requirement{a, b}, [][]Requirement{b})}).Where(); got != "a, b or b, b" {
		t.Errorf("%q", got)
	}
	if many := slices.Repeat([][]Requirement{a}, 100); len(BothTerms(many, many)) != len(many) {
		t.Error("terms without limit")
	}
	n := &Node{Labels: map[string]string{"a": ""}, Allocatable: Resources{Pods: 1}}
	for _, c := range []struct {
		x, y [][]Requirement
		want bool
	}{{nil, nil, true}, {[][]Requirement{a}, nil, true}, {nil, [][]Requirement{b}, false}, {[][]Requirement{a}, [][]Requirement{b}, false},
		{[][]Requirement{{}}, [][]Requirement{a}, false}} {
		if got := n.meetsOne(BothTerms(c.x, c.y)); got != c.want {
			t.Errorf("%v and %v: %v", c.x, c.y, got)
		}
	}
}

func TestUsedAndCapacity(t *testing.T) {
	n := &Node{Allocatable: Resources{MilliCPU: 4000, Memory: 8 << 30}, Requested: Resources{MilliCPU: 1500, Memory: 1 << 30}}
	requested := Statistics{Mean: 1500, HourMax: 1500, DayMax: 1500}
	if got := n.Used(UsedCPU); got != requested {
		t.Errorf("without a measurement the CPU is %+v, want %+v", got, requested)
	}
	if got := n.Capacity(NetworkIn); got != 0 {
		t.Errorf("the network's capacity is %v, want 0 while it is not known", got)
	}
	n.Usage = &NodeUsage{}
	n.Usage.Known[UsedMemory] = true
	n.Usage.Measured[UsedMemory] = Statistics{Mean: 100, Deviation: 10, HourMax: 200, DayMax: 300}
	n.Usage.Missing = [Dimensions]float64{UsedCPU: 7, UsedMemory: 50}
	n.Usage.Capacity = [Dimensions]float64{UsedCPU: 1, DiskRead: 9}
	for _, c := range []struct {
		d        Dimension
		used     Statistics
		capacity float64
	}{
		{UsedCPU, requested, 4000}, // not measured: the pod bound since counts among the requests
		{UsedMemory, Statistics{Mean: 150, Deviation: 10, HourMax: 250, DayMax: 350}, 8 << 30},
		{DiskRead, Statistics{}, 9},
	} {
		if got := n.Used(c.d); got != c.used {
			t.Errorf("%v: used %+v, want %+v", c.d, got, c.used)
		}
		if got := n.Capacity(c.d); got != c.capacity {
			t.Errorf("%v: capacity %v, want %v", c.d, got, c.capacity)
		}
	}
}

func TestExpected(t *testing.T) {
	p := &Pod{Requests: Resources{MilliCPU: 250, Memory: 64}, Usage: &PodUsage{}}
	p.Usage.Known[UsedCPU], p.Usage.Known[DiskWrite] = true, true
	p.Usage.Measured[UsedCPU].Mean, p.Usage.Measured[DiskWrite].Mean = 30, 5
	want := [Dimensions]float64{UsedCPU: 30, UsedMemory: 64, DiskWrite: 5}
	for d := range Dimension(Dimensions) {
		if got := p.Expected(d); got != want[d] {
			t.Errorf("%v: %v, want %v", d, got, want[d])
		}
	}
	p.Usage = nil
	if got := p.Expected(UsedCPU); got != 250 {
		t.Errorf("without a history %v, want the request", got)
	}
}

func TestMissingShare(t *testing.T) {
	for bound, want := range map[float64]float64{1000: 1, 1001: 1, 850: 0.5, 700: 0, 10: 0} {
		if got := MissingShare(1000, bound); got != want {
			t.Errorf("bound at %v: %v, want %v", bound, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at, bound := rapid.Float64Range(-1e9, 1e9).Draw(t, "measured"), rapid.Float64Range(-1e9, 1e9).Draw(t, "bound")
		if got := MissingShare(at, bound); !(got >= 0 && got <= 1) {
			t.Fatalf("the share is %v", got)
		}
	})
}

func TestPowerModelAt(t *testing.T) {
	straight, curved := PowerModel{Idle: 100, Full: 300}, PowerModel{Idle: 100, Full: 300, Curve: []float64{200, 220, 260}}
	for _, c := range []struct {
		model      PowerModel
		used, want float64
	}{
		{straight, 0, 100}, {straight, 0.25, 150}, {straight, 1, 300}, {straight, 1.5, 300}, {straight, -1, 100},
		{curved, 0, 100}, {curved, 0.125, 150}, {curved, 0.25, 200}, {curved, 0.5, 220}, {curved, 0.75, 260}, {curved, 0.875, 280},
		{curved, 1, 300},
	} {
		if got := c.model.At(c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v draws %v W at %v, want %v", c.model, got, c.used, c.want)
		}
	}
}

func TestPowerModelValidate(t *testing.T) {
	sleep := func(w float64) *float64 { return &w }
	good := PowerModel{Idle: 100, Full: 300, Curve: []float64{150}, Sleep: sleep(5)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, m := range map[string]PowerModel{
		"idle: -1 is not 0 to 100000 watts":   {Idle: -1, Full: 1},
		"full: 50 is not 100 to 100000 watts": {Idle: 100, Full: 50},
		"full: NaN":                           {Idle: 100, Full: math.NaN()},
		"full: 0 is not 0.001 to":             {},
		"curve[0]: 7 is not 0 to 2 watts":     {Idle: 1, Full: 2, Curve: []float64{7}},
		"curve[0]: -3":                        {Idle: 1, Full: 2, Curve: []float64{-3}},
		"curve: 100 values are more than 99":  {Idle: 0, Full: 2, Curve: make([]float64, 100)},
		"sleep: 101 is not 0 to 100 watts":    {Idle: 100, Full: 200, Sleep: sleep(101)},
	} {
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}

func poweredNode(model string, milliCPU, requested int64, used ...int64) *Node {
	return &Node{
		GPUModel: model, GPUs: used,
		Allocatable: Resources{MilliCPU: milliCPU, GPU: int64(len(used))}, Requested: Resources{MilliCPU: requested},
	}
}

// The draws are computed by hand.
func TestWatts(t *testing.T) {
	counted := poweredNode("V100M32", 64_000, 0)
	counted.Allocatable.GPU, counted.Requested.GPU, counted.GPUs = 8, 3, nil
	for name, x := range map[string]struct {
		node *Node
		r    Resources
		on   DeviceSet
		want float64
	}{
		"an empty machine with two T4": {poweredNode("T4", 96_000, 0, 0, 0), Resources{}, 0, 2*20 + 2*10},
		"a pod on one core and one device": {poweredNode("T4", 96_000, 0, 0, 0), Resources{MilliCPU: 1, GPU: 1}, Device(1),
			165 + 20 + 70 + 10},
		"48 threads are a package": {poweredNode("T4", 96_000, 47_000, 0, 300), Resources{MilliCPU: 1000}, 0, 165 + 20 + 70 + 10},
		"the 49th starts the next": {poweredNode("T4", 96_000, 48_000, 0, 300), Resources{MilliCPU: 1, GPUMilli: 500},
			Device(1), 2*165 + 70 + 10},
		"P100":                                {poweredNode("P100", 64_000, 1000, 1000, 0), Resources{}, 0, 120 + 15 + 250 + 25},
		"G2 is an A10 beside a usual package": {poweredNode("G2", 96_000, 0, 0), Resources{}, 0, 3*15 + 30},
		"A10":                                 {poweredNode("A10", 32_000, 0, 1), Resources{}, 0, 15 + 150},
		"V100M16":                             {poweredNode("V100M16", 64_000, 33_000, 1000), Resources{}, 0, 2*185 + 300},
		"G3 is an A100":                       {poweredNode("G3", 128_000, 64_000, 1, 0), Resources{}, 0, 270 + 20 + 400 + 50},
		"A100":                                {poweredNode("A100", 64_000, 0, 0), Resources{}, 0, 20 + 50},
		"another model":                       {poweredNode("H100", 32_000, 1, 1, 0), Resources{}, 0, 120 + 250 + 25},
		"no GPUs":                             {poweredNode("", 32_000, 1), Resources{}, 0, 120},
		"a part of a package":                 {poweredNode("", 33_000, 0), Resources{}, 0, 2 * 15},
		"overcommitted":                       {poweredNode("", 32_000, 90_000), Resources{}, 0, 120},
		"devices that are only counted":       {counted, Resources{GPU: 1}, 0, 2*20 + 4*300 + 4*30},
	} {
		if got := WattsAfter(x.node, x.r, x.on); got != x.want {
			t.Errorf("%s: %v W, want %v", name, got, x.want)
		}
	}
	if n := poweredNode("T4", 96_000, 1, 1); Watts(n) != 165+20+70 {
		t.Errorf("%v W", Watts(n))
	}
}

// Without a model, a machine's power follows from its hardware threads, and a device's from whether a pod has it.
func TestDraw(t *testing.T) {
	n := &Node{Allocatable: Resources{MilliCPU: 10_000, GPU: 2, Pods: 10}, GPUModel: "T4", GPUs: []int64{0, 0}}
	for _, c := range []struct {
		name       string
		used, want float64
	}{{"idle", 0, 6.6 + 20}, {"half", 0.5, 19.8 + 20}} {
		if got := CPUDraw(n, c.used); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s draws %v W, want %v", c.name, got, c.want)
		}
	}
	n.Add(Resources{GPUMilli: 500})
	if got := CPUDraw(n, 0); math.Abs(got-(6.6+80)) > 1e-9 {
		t.Errorf("with a share of a device it draws %v W", got)
	}
	if got := FullPower(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("it draws at most %v W", got)
	}
	n.Usage = &NodeUsage{Power: &PowerModel{Idle: 500, Full: 900}} // measured with the device
	if got := FullPower(n); math.Abs(got-(33+140)) > 1e-9 {
		t.Errorf("with measured watts it draws at most %v W, want the device counted once", got)
	}
	watts := 2.0
	n = &Node{Allocatable: n.Allocatable, Power: &PowerModel{Idle: 50, Full: 100, Sleep: &watts}}
	if got := CPUDraw(n, 0); got != 2 {
		t.Errorf("asleep it draws %v W", got)
	}
}
