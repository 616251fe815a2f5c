package replay

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gnnsched/internal/fatal"
	"gnnsched/scheduler/autoscale"
	"gnnsched/scheduler/objective"
	"gnnsched/workload/record"
)

// asks makes a row of an owner, which asks for something from some second on.
func asks(kind, name string, from int64, scale string) record.Object {
	return record.Object{Kind: kind, Namespace: "shop", Name: name, From: seconds(from), Scale: scale}
}

// made makes a row of a pod of 2 cores that an owner, such as Job/night, made at a second and that was deleted at another one; 0: never.
func made(name, owner string, from, to int64, change ...func(*record.Pod)) record.Pod {
	return pod(name, from, append([]func(*record.Pod){func(p *record.Pod) {
		p.OwnerKind, p.OwnerName, _ = strings.Cut(owner, "/")
		p.MilliCPU = 2000
		if to != 0 {
			p.Ended, p.End = seconds(to), record.Deleted
		}
	}}, change...)...)
}

func finishes(p *record.Pod) { p.End = record.Succeeded }

// named returns the pods that have a node, by name without what says that they were made anew.
func named(homes map[string]string) (out []string) {
	for uid := range homes {
		name, _, anew := strings.Cut(uid, "/")
		if anew {
			name += "'"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// A pod that is preempted comes back as a new one if its owner makes it and has tries left; the others are gone and counted.
func TestOwnersMakeAnew(t *testing.T) {
	for _, c := range []struct {
		name, kind  string
		spec        string // tries of the Job
		runs        string
		gone, fails int
		lost        float64 // core seconds
	}{
		{"a ReplicaSet", record.KindReplicaSet, "", "[x']", 0, 0, 0},
		{"a Job with a try", record.KindJob, "1", "[other x']", 0, 0, 60},
		{"a Job without", record.KindJob, "0", "[]", 1, 1, 60},
		{"a Job of which nothing is known", record.KindJob, "", "[other x']", 0, 0, 60},
		{"another controller", "Workflow", "", "[]", 1, 0, 0},
		{"nobody", "", "", "[]", 1, 0, 0},
	} {
		x := made("x", c.kind+"/own", 0, 0, func(p *record.Pod) { p.NodeSelector = `{"disk":"hdd"}` })
		other := made("other", c.kind+"/own", 0, 190, func(p *record.Pod) { p.NodeSelector = `{"disk":"ssd"}` })
		high := made("high", "", 30, 50, func(p *record.Pod) { p.MilliCPU, p.Priority = 4000, 5 })
		pods := []record.Pod{x, high}
		if c.kind == record.KindJob {
			pods[0].Ended = seconds(42) // it runs 40 s, and then 40 s from 50 on
			finishes(&pods[0])
			finishes(&other)
			pods = append(pods, other)
		}
		s := source(pods, node("a", "disk", "hdd"), node("b", "disk", "ssd"))
		s.Nodes[1].MilliCPU, s.To = 2000, seconds(85)
		own := asks(c.kind, "own", 0, `{"replicas":1,"parallelism":2}`)
		own.Spec = c.spec
		s.Objects = []record.Object{asks(record.KindDeployment, "some", 0, `{"replicas":0}`), own}
		out, homes := packs(t, s)
		if got := fmt.Sprint(named(homes)); got != c.runs || out.Abandoned != c.gone || out.FailedJobs != c.fails || out.Preempted != 1 ||
			math.Abs(out.LostCoreHours*3600-c.lost) > 1e-6 {
			t.Errorf("%s: %s run, %+v", c.name, got, out)
		}
		if c.gone == 0 && (len(out.Waits) != len(pods)+1 || out.Waits[len(pods)] != 20) { // the new pod waits by itself
			t.Errorf("%s: waits %v", c.name, out.Waits)
		}
	}
}

// With an autoscaler, a drained pod is made anew too, and what its Job had done is lost.
func TestOwnersMakeAnewElsewhere(t *testing.T) {
	job := made("job", "Job/own", 0, 45, unbound, finishes)
	bare := made("bare", "", 0, 0, unbound)
	s := source([]record.Pod{job, bare}, node("a"), node("b"))
	s.Objects = []record.Object{asks(record.KindJob, "own", 0, `{"parallelism":1}`)}
	c, homes := scaled(t, s, scripted(t, func(at int64, c *autoscale.Cluster) autoscale.Plan {
		if at == 20 {
			return autoscale.Plan{Remove: []string{"a"}}
		}
		return autoscale.Plan{Next: time.UnixMilli(seconds(20))}
	}))
	if c.Evicted != 2 || c.Abandoned != 1 || math.Abs(c.LostCoreHours*3600-40) > 1e-6 || len(homes) != 0 || c.Unscheduled != 0 {
		t.Errorf("%v: %+v", homes, c)
	}
}

// With an autoscaler, a pod that was really evicted goes on until the one that was made in its place ended. Without, both are played.
func TestEvictionsOfTheRecord(t *testing.T) {
	evicted := func(p *record.Pod) { p.End = record.Evicted }
	pods := []record.Pod{
		made("x", "ReplicaSet/own", 10, 40, evicted), made("y", "ReplicaSet/own", 35, 60, evicted), made("z", "ReplicaSet/own", 61, 80),
		made("f", "ReplicaSet/three", 5, 15, evicted),
		made("g", "ReplicaSet/three", 16, 30, func(p *record.Pod) { p.Bound, p.End = p.Arrived, record.Failed }),
		made("more", "ReplicaSet/own", 62, 0), made("db-0", "StatefulSet/db", 5, 20, evicted),
		made("other", "StatefulSet/db", 21, 90, func(p *record.Pod) { p.Name = "db-1" }), made("new", "StatefulSet/db", 22, 0, func(p *record.Pod) { p.Name = "db-0" }),
	}
	slices.SortFunc(pods, func(a, b record.Pod) int { return cmp.Compare(a.Arrived, b.Arrived) })
	s := source(pods, node("a"), node("b"))
	s.Objects = []record.Object{asks(record.KindReplicaSet, "own", 0, `{"replicas":1}`), asks(record.KindStatefulSet, "db", 0, `{"replicas":2}`)}
	s.Objects = append(s.Objects, asks(record.KindReplicaSet, "three", 0, `{"replicas":0}`))
	idle := scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan { return autoscale.Plan{} })
	if c, homes := scaled(t, s, idle); fmt.Sprint(named(homes)) != "[db-0 more]" || c.Pods != 6 || c.Unmade+c.NeverRan != 0 {
		t.Errorf("%v: %+v", homes, c)
	}
	if c, homes := packs(t, s); fmt.Sprint(named(homes)) != "[more new]" || c.Pods != 9 || c.OffHours != 0 {
		t.Errorf("%v: %+v", homes, c)
	}
}

// A pod that ran beside an evicted one was not made in its place.
func TestEvictedBesideOthers(t *testing.T) {
	s := source([]record.Pod{made("x", "ReplicaSet/own", 10, 40, func(p *record.Pod) { p.End = record.Evicted }),
		made("beside", "ReplicaSet/own", 11, 0), made("after", "ReplicaSet/own", 41, 0)}, node("a"), node("b"))
	s.Objects = []record.Object{asks(record.KindReplicaSet, "own", 0, `{"replicas":2}`)}
	c, homes := scaled(t, s, scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan { return autoscale.Plan{} }))
	if fmt.Sprint(named(homes)) != "[beside x]" || c.Pods != 2 {
		t.Errorf("%v: %+v", homes, c)
	}
}

// A pod that is preempted here as it really was is followed by the pod that really followed it, and by no other one.
func TestPreemptedAsRecorded(t *testing.T) {
	for _, kind := range []string{record.KindReplicaSet, record.KindJob} {
		s := source([]record.Pod{
			made("x", kind+"/own", 10, 40, func(p *record.Pod) { p.End = record.Preempted }),
			made("high", "", 30, 0, func(p *record.Pod) { p.MilliCPU, p.Priority = 4000, 5 }), made("y", kind+"/own", 31, 0),
		}, node("a"))
		own := asks(kind, "own", 0, `{"replicas":1,"parallelism":1}`)
		own.Spec = "0"
		s.Objects = []record.Object{own}
		if c, homes := packs(t, s); fmt.Sprint(named(homes)) != "[high]" || !slices.Equal(c.Waits, []float64{0, 0, 69}) || c.Preempted != 1 ||
			c.NeverRan+c.FailedJobs+c.Abandoned != 0 {
			t.Errorf("%v: %+v", homes, c)
		}
	}
}

// What contradicts itself is said: owners that the record lacks, and owners without pods.
func TestHalfACluster(t *testing.T) {
	s := source([]record.Pod{made("x", "ReplicaSet/web-1", 10, 40), made("y", "ReplicaSet/lost", 10, 50), made("z", "Workflow/w", 10, 50)}, node("a"))
	s.Objects = []record.Object{asks(record.KindStatefulSet, "db", 0, `{"replicas":3}`), asks(record.KindReplicaSet, "web-1", 0, `{"owner":"Deployment/web"}`)}
	c, _ := packs(t, s)
	notes := strings.Join(c.Notes, "\n")
	for _, want := range []string{"1 pods, such as shop/y of ReplicaSet lost, have owners that the record lacks", "have no pod at the record's end",
		"StatefulSet shop/db is the first", "1 owners belong to others that the record lacks"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in:\n%s", want, notes)
		}
	}
}

// Where an owner wants fewer pods, it takes the one that waits, then one on the node with most of them, then the one that really went.
func TestScaleDown(t *testing.T) {
	small := func(p *record.Pod) { p.MilliCPU = 100 }
	on := func(disk string) func(*record.Pod) {
		return func(p *record.Pod) { p.NodeSelector = `{"disk":"` + disk + `"}` }
	}
	for _, c := range []struct {
		name string
		pods []record.Pod
		want string
	}{
		{"one waits", []record.Pod{made("1", "ReplicaSet/own", 10, 50, small), made("2", "ReplicaSet/own", 11, 0, func(p *record.Pod) { p.MilliCPU = 5000 })}, "[1]"},
		{"two share a node", []record.Pod{made("1", "ReplicaSet/own", 10, 50, on("ssd")), made("2", "ReplicaSet/own", 11, 0, on("hdd")), made("3", "ReplicaSet/own", 12, 0, on("hdd"))}, "[1 2]"},
		{"chosen at once", []record.Pod{made("1", "ReplicaSet/own", 10, 50, small, on("ssd")), made("2", "ReplicaSet/own", 10, 51, small, on("ssd")),
			made("3", "ReplicaSet/own", 11, 0, small, on("hdd")), made("4", "ReplicaSet/own", 11, 0, small, on("hdd")), made("5", "ReplicaSet/own", 11, 0, small, on("hdd"))}, "[1 2 3]"},
		{"one is cheap to delete", []record.Pod{made("1", "ReplicaSet/own", 10, 50, on("ssd")), made("2", "ReplicaSet/own", 11, 0, on("ssd")),
			made("3", "ReplicaSet/own", 12, 0, on("hdd"), func(p *record.Pod) { p.DeletionCost = -1 })}, "[1 2]"},
		{"all alike", []record.Pod{made("1", "ReplicaSet/own", 10, 50, small), made("2", "ReplicaSet/own", 11, 0, small)}, "[2]"},
		{"others are not asked", []record.Pod{made("1", "ReplicaSet/own", 10, 50, small), made("2", "ReplicaSet/two", 11, 0, func(p *record.Pod) { p.MilliCPU = 5000 })}, "[]"},
		{"a set has no choice", []record.Pod{made("1", "StatefulSet/own", 10, 50, small), made("2", "StatefulSet/own", 11, 0, func(p *record.Pod) { p.MilliCPU = 5000 })}, "[]"},
	} {
		s := source(c.pods, node("a", "disk", "ssd"), node("b", "disk", "hdd"))
		s.Objects = []record.Object{asks(c.pods[0].OwnerKind, "own", 0, `{"replicas":2}`)}
		out, homes := packs(t, s)
		if got := fmt.Sprint(named(homes)); got != c.want || out.OffHours != 0 || out.OwnedHours == 0 {
			t.Errorf("%s: %s run, want %s; %v of %v pod hours differ", c.name, got, c.want, out.OffHours, out.OwnedHours)
		}
	}
}

// Where deletion costs are kept up to date, the pod of the least used node goes.
func TestDeletionCosts(t *testing.T) {
	s := source([]record.Pod{made("full", "", -20, 0), made("x", "ReplicaSet/own", -10, 50),
		made("y", "ReplicaSet/own", -9, 0, func(p *record.Pod) { p.Node = "b" })}, node("a"), node("b"))
	s.Objects = []record.Object{asks(record.KindReplicaSet, "own", -10, `{"replicas":2}`)}
	idle := scripted(t, func(int64, *autoscale.Cluster) autoscale.Plan { return autoscale.Plan{} })
	for kept, want := range map[bool]string{false: "[full y]", true: "[full x]"} {
		c, homes := scaled(t, s, idle, func(s *Scaling) { s.DeletionCosts = kept })
		if got := fmt.Sprint(named(homes)); got != want || c.OffHours != 0 {
			t.Errorf("kept %v: %s run, want %s", kept, got, want)
		}
	}
}

// rollout makes a source in which three pods of a version are replaced one after another, from second 20 on, and full is there until 80.
func rollout(scale string, size int64) Source {
	s := source([]record.Pod{
		made("a1", "ReplicaSet/web-a", -9, 31), made("a2", "ReplicaSet/web-a", -8, 41), made("a3", "ReplicaSet/web-a", -7, 51),
		made("b1", "ReplicaSet/web-b", 20, 0), made("b2", "ReplicaSet/web-b", 32, 0), made("b3", "ReplicaSet/web-b", 42, 0),
		made("full", "", -10, 80, func(p *record.Pod) { p.MilliCPU = size }),
	}, node("a"))
	for i := range s.Pods[:6] {
		s.Pods[i].MilliCPU = 500
	}
	s.Objects = []record.Object{
		asks(record.KindDeployment, "web", -20, scale), asks(record.KindReplicaSet, "web-a", -20, `{"owner":"Deployment/web","replicas":0}`),
		asks(record.KindReplicaSet, "web-b", 20, `{"owner":"Deployment/web","replicas":3}`),
	}
	return s
}

// A rollout goes on as recorded, but waits while new pods have no node: it keeps as many pods as maxUnavailable asks, and makes no more than
// maxSurge allows.
func TestRollout(t *testing.T) {
	const surging = `{"replicas":3,"strategy":"RollingUpdate","maxSurge":"1","maxUnavailable":"0"}`
	for _, c := range []struct {
		name, scale string
		size, to    int64
		want        string
		unmade      int
		off         float64 // pod seconds
	}{
		{"there is room", surging, 1000, 100, "[b1 b2 b3]", 0, 0},
		{"there is none", surging, 2500, 70, "[a1 a2 a3 full]", 2, 1 + 1 + 19},
		{"then there is", surging, 2500, 100, "[b1 b2 b3]", 0, 1 + 1 + 29},
		{"one may lack", `{"replicas":3,"strategy":"RollingUpdate","maxSurge":"0","maxUnavailable":"30%"}`, 2500, 100, "[b1 b2 b3]", 0, 0},
		{"pods go first", `{"replicas":3,"strategy":"Recreate"}`, 2500, 100, "[b1 b2 b3]", 0, 0},
	} {
		s := rollout(c.scale, c.size)
		s.To = seconds(c.to)
		out, homes := packs(t, s)
		if got := fmt.Sprint(named(homes)); got != c.want || out.Unmade != c.unmade ||
			math.Abs(out.OffHours*3600-c.off) > 1e-6 {
			t.Errorf("%s: %s run, want %s, %d not made, %v s off", c.name, got, c.want, out.Unmade, out.OffHours*3600)
		}
	}
}

// A StatefulSet replaces a pod when all others run. Where it asks for fewer pods, they go at once.
func TestStatefulSetRollout(t *testing.T) {
	for replicas, want := range map[int]string{2: "[db-0]", 0: "[]"} {
		s := source([]record.Pod{
			made("db-0", "StatefulSet/db", -9, 50), made("db-1", "StatefulSet/db", -8, 30),
			made("new", "StatefulSet/db", 31, 0, func(p *record.Pod) { p.Name, p.MilliCPU = "db-1", 5000 }),
		}, node("a"))
		s.Objects = []record.Object{asks(record.KindStatefulSet, "db", -20, fmt.Sprintf(`{"replicas":%d,"strategy":"RollingUpdate"}`, replicas))}
		if _, homes := packs(t, s); fmt.Sprint(named(homes)) != want {
			t.Errorf("%d replicas: %v run, want %s", replicas, homes, want)
		}
	}
}

// A Job makes its next pod when an earlier one has finished here, and not when it really did.
func TestJobsTakeTurns(t *testing.T) {
	var pods []record.Pod
	for i := range int64(3) {
		pods = append(pods, made(fmt.Sprint("j", i), "Job/own", 10+10*i, 20+10*i, finishes, func(p *record.Pod) { p.MilliCPU = 1000 }))
	}
	pods = append(pods, made("full", "", -5, 50, func(p *record.Pod) { p.MilliCPU = 3500 }))
	s := source(pods, node("a"))
	s.Objects = []record.Object{asks(record.KindJob, "own", 0, `{"parallelism":1,"completions":3}`)}
	out, _ := packs(t, s) // from 50 on, eight seconds each
	if len(out.Waits) != 3 || out.Waits[0] != 40 || out.Waits[1]+out.Waits[2] != 0 || out.Unmade != 0 || out.NeverRan != 0 {
		t.Errorf("%+v", out)
	}
	s.To = seconds(60)
	if out, homes := packs(t, s); out.Unmade != 1 || !maps.Equal(homes, map[string]string{"j1": "a"}) {
		t.Errorf("%v: %+v", homes, out)
	}
}

// Whatever happens, owners count the pods that are there, and equal seeds give equal courses.
func TestOwnersKeepCount(t *testing.T) {
	for seed := range uint64(12) {
		s := randomOwners(rand.New(rand.NewPCG(seed, 1)))
		c := Config{Profile: profile(t, "most-allocated"), Objective: objective.Balance{}, Blocks: 2}
		if seed%2 == 1 {
			c.Scaling = &Scaling{Catalog: readCatalog(t), New: scripted(t, func(at int64, _ *autoscale.Cluster) autoscale.Plan {
				if at > 40 {
					return autoscale.Plan{Remove: []string{"b"}}
				}
				return autoscale.Plan{}
			})}
		}
		p, err := begin(t.Context(), s, c, false)
		if err == nil {
			err = p.run(t.Context())
		}
		fatal.If(t, err)
		there := map[int]bool{}
		for uid := range p.Running {
			there[p.rows[uid]] = true
		}
		for _, w := range p.Waiting {
			there[p.rows[w.UID]] = true
		}
		for _, c := range p.owners.withPods {
			for _, row := range c.live {
				if !there[row] || p.owners.of[row] != c {
					t.Errorf("seed %d: %s counts %s, which is not there", seed, &c.Owner, p.source.Pods[row].UID)
				}
				delete(there, row)
			}
		}
		for row := range there {
			if p.owners.of[row] != nil {
				t.Errorf("seed %d: %s is there and its owner does not count it", seed, p.source.Pods[row].UID)
			}
		}
		first := p.finish()
		if again, err := Run(t.Context(), s, c); err != nil || again.Pods != first.Pods || again.OffHours != first.OffHours || !slices.Equal(again.Waits, first.Waits) {
			t.Errorf("seed %d: %+v and %+v", seed, first, again)
		}
	}
}

// randomOwners makes a source in which owners of all kinds have pods that often find no room, and nodes go.
func randomOwners(r *rand.Rand) Source {
	kinds := []string{"ReplicaSet", "StatefulSet", "Job", "Workflow", ""}
	var pods []record.Pod
	for i := range 60 {
		k := r.IntN(len(kinds))
		from := r.Int64N(90) - 10
		p := made(fmt.Sprint("p-", i%7, "-", i), fmt.Sprint(kinds[k], "/own-", r.IntN(3)), from, from+3+r.Int64N(60))
		p.MilliCPU, p.Priority = 500+r.Int64N(2500), r.Int32N(3)
		if kinds[k] == "Job" && i%3 > 0 {
			finishes(&p)
		}
		if i%11 == 0 {
			p.Ended, p.End = 0, ""
		} else if i%4 == 0 {
			p.End = record.Evicted
		}
		pods = append(pods, p)
	}
	slices.SortFunc(pods, func(a, b record.Pod) int { return cmp.Or(cmp.Compare(a.Arrived, b.Arrived), cmp.Compare(a.UID, b.UID)) })
	leaves := node("b")
	leaves.To, leaves.Gone = seconds(50), true
	s := source(pods, node("a"), leaves, node("c"))
	s.Objects = []record.Object{asks(record.KindDeployment, "web", -20, `{"replicas":4,"strategy":"RollingUpdate","maxSurge":"25%"}`)}
	for i := range 3 {
		name := fmt.Sprint("own-", i)
		job := asks(record.KindJob, name, -20, `{"parallelism":2}`)
		job.Spec = fmt.Sprint(i)
		s.Objects = append(s.Objects, job, asks(record.KindStatefulSet, name, -20, `{"replicas":3,"strategy":"RollingUpdate"}`),
			asks(record.KindReplicaSet, name, -20, `{"replicas":2,"owner":"Deployment/web"}`))
	}
	return s
}
