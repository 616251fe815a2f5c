package observe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"gnnsched/workload/record"
)

// BenchmarkDay records a day of a cluster of 1,000 nodes on which 100,000 pods come and go. Each event is decoded from
// the protobuf that an API server sends: six for each pod, from its creation to its deletion. It reports the bytes on
// the disk after a day, with and without usage, the time on the CPU, and the heap at the end.
//
//	go test -run '^$' -bench Day -benchtime 1x ./workload/record/observe
func BenchmarkDay(b *testing.B) {
	for range b.N {
		d := newDay(b)
		before := cpuSeconds(b)
		d.run(b)
		b.ReportMetric(cpuSeconds(b)-before, "cpu-s/day")
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MB")
		usage, rest := d.sizes(b)
		b.ReportMetric(rest/(1<<20), "MB/day")
		b.ReportMetric(usage/(1<<20), "usage-MB/day")
		runtime.KeepAlive(d)
	}
}

const (
	dayNodes, dayPods, dayDaemons = 1000, 100_000, 5
	dayStart                      = 1_780_000_000 // seconds since 1970
	daySeconds                    = 86_400
	dayFlush                      = 300
)

type day struct {
	rng    *rand.Rand
	dir    string
	w      *record.Writer
	f      *Follower
	clock  int64
	events map[int64][][]byte // by second: encoded pods
	gone   map[int64][][]byte
	live   map[string]*[2]int64 // what running pods use
}

func newDay(b *testing.B) *day {
	d := &day{
		rng: rand.New(rand.NewPCG(1, 2)), dir: filepath.Join(b.TempDir(), "r"), events: map[int64][][]byte{}, gone: map[int64][][]byte{},
		live: map[string]*[2]int64{},
	}
	var err error
	if d.w, err = record.Create(d.dir, record.Options{Limit: 1 << 22}); err != nil {
		b.Fatal(err)
	}
	d.f = NewFollower(Config{Out: d.w, Now: func() int64 { return d.clock }})
	return d
}

// pod makes a pod of one of 300 workloads.
func (d *day) pod(created int64) *corev1.Pod {
	w := int(math.Abs(d.rng.NormFloat64()) * 100)
	hash := fmt.Sprintf("%08x", w*2654435761)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("service-%d-%s-%05x", w, hash, d.rng.IntN(1<<20)), Namespace: fmt.Sprintf("team-%d", w%20),
			CreationTimestamp: at(created),
			UID: types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", d.rng.Uint32(), d.rng.IntN(1<<16), d.rng.IntN(1<<12),
				d.rng.IntN(1<<12), d.rng.Uint64()>>16)),
			Labels: map[string]string{
				"app": fmt.Sprintf("service-%d", w), "pod-template-hash": hash, "team": fmt.Sprint("team-", w%20), "tier": "backend",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("service-%d-%s", w, hash), Controller: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler", Priority: ptr.To[int32](0), PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
			Containers: []corev1.Container{{Name: "app", Image: fmt.Sprintf("registry.example.com/team/service-%d:1.%d", w, w%7),
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						"cpu":    *resource.NewMilliQuantity(int64(50*(1+w%40)), resource.DecimalSI),
						"memory": *resource.NewQuantity(int64(1+w%16)<<28, resource.BinarySI),
					},
				}}},
			Tolerations: []corev1.Toleration{{
				Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To[int64](300),
			}},
		},
	}
	if w%4 == 0 {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "topology.kubernetes.io/zone", WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		}}
	}
	return p
}

// plan encodes the events of a pod.
func (d *day) plan(b *testing.B) {
	created := int64(dayStart + d.rng.IntN(daySeconds))
	life := int64(min(math.Exp(d.rng.NormFloat64()*1.5+8), 5*daySeconds)) // median 50 minutes
	p := d.pod(created)
	d.event(b, created, p)
	p = bind(p, fmt.Sprintf("node-%04d.example.internal", d.rng.IntN(dayNodes)), created)
	d.event(b, created, p)
	p.Status.Phase = corev1.PodPending
	d.event(b, created+1, p)
	p.Status.Phase = corev1.PodRunning
	d.event(b, created+3, p)
	p = finish(p, corev1.PodRunning, created+life)
	d.event(b, created+life, p)
	d.add(b, d.gone, created+life+1, p)
}

func (d *day) event(b *testing.B, when int64, p *corev1.Pod) { d.add(b, d.events, when, p) }

func (d *day) add(b *testing.B, to map[int64][][]byte, when int64, p *corev1.Pod) {
	if when >= dayStart+daySeconds {
		return
	}
	data, err := p.Marshal()
	if err != nil {
		b.Fatal(err)
	}
	to[when] = append(to[when], data)
}

// run plays the day an hour at a time: the events of a whole day would be the benchmark's heap.
func (d *day) run(b *testing.B) {
	for i := range dayNodes {
		d.f.Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d.example.internal", i)},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("128Gi"),
				"pods": resource.MustParse("110")}}})
		for k := range dayDaemons {
			p := d.pod(dayStart - 1000)
			p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = "DaemonSet", fmt.Sprint("agent-", k)
			d.f.Pod(bind(p, fmt.Sprintf("node-%04d.example.internal", i), dayStart-1000), false)
			d.live[p.Name] = &[2]int64{20, 50 << 20}
		}
	}
	for range dayPods {
		d.plan(b)
	}
	b.ResetTimer()
	for t := int64(dayStart); t < dayStart+daySeconds; t++ {
		d.clock = t*1000 + 500
		for _, data := range d.events[t] {
			p := decodePod(b, data)
			d.f.Pod(p, true)
			if p.Status.Phase == corev1.PodRunning {
				d.live[p.Name] = &[2]int64{100, 200 << 20}
			}
		}
		for _, data := range d.gone[t] {
			p := decodePod(b, data)
			d.f.PodGone(p)
			delete(d.live, p.Name)
		}
		delete(d.events, t)
		delete(d.gone, t)
		if (t+1-dayStart)%dayFlush == 0 {
			d.flush(b, t)
		}
	}
}

func decodePod(b *testing.B, data []byte) *corev1.Pod {
	p := &corev1.Pod{}
	if err := p.Unmarshal(data); err != nil {
		b.Fatal(err)
	}
	return p
}

func (d *day) flush(b *testing.B, now int64) {
	for name, used := range d.live {
		used[0] = max(used[0]+int64(d.rng.IntN(21))-10, 0)
		used[1] = max(used[1]+int64(d.rng.IntN(1<<20))-1<<19, 0)
		d.w.Sample(record.Sample{Time: now * 1000, Namespace: "team-1", Name: name, MilliCPU: used[0], Memory: used[1]})
	}
	for i := range dayNodes {
		d.w.Sample(record.Sample{
			Time: now * 1000, Name: fmt.Sprintf("node-%04d.example.internal", i), MilliCPU: int64(d.rng.IntN(32000)),
			Memory: d.rng.Int64N(128 << 30),
		})
	}
	d.w.Run(record.Run{ID: "1", Source: "live", From: dayStart * 1000, To: now * 1000})
	if _, err := d.w.Flush(); err != nil {
		b.Fatal(err)
	}
	if err := d.w.Merge(0); err != nil {
		b.Fatal(err)
	}
}

func (d *day) sizes(b *testing.B) (usage, rest float64) {
	files, err := os.ReadDir(d.dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			b.Fatal(err)
		}
		if len(f.Name()) > 5 && f.Name()[:5] == "usage" {
			usage += float64(info.Size())
		} else {
			rest += float64(info.Size())
		}
	}
	return usage, rest
}

func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
