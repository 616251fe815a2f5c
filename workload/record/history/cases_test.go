package history

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gnnsched/internal/fatal"
	"gnnsched/internal/promapi"
	"gnnsched/workload/record"
	"gnnsched/workload/record/history/historytest"
)

// sound is ten minutes of two nodes and two pods, as a kube-state-metrics and kubelets of today show them.
func sound(e exposition) {
	for i, n := range []string{"n1", "n2"} {
		e.add(nodeInfo, fmt.Sprintf(`job="ksm",node="%s",internal_ip="10.0.0.%d"`, n, i+1), 1, -300, 600)
		for resource, v := range map[string]float64{"cpu": 4, "memory": 8 << 30, "pods": 110} {
			e.add(allocatable, `job="ksm",node="`+n+`",resource="`+resource+`"`, v, -300, 600)
		}
		kubelet := fmt.Sprintf(`job="kubelet",instance="10.0.0.%d:10250",node="%s",`, i+1, n)
		pod := fmt.Sprintf(`namespace="shop",pod="web-%d",`, i+1)
		for k, cgroup := range []string{`id="/"`, pod + `container="",id="/p"`, pod + `container="c",id="/p/c"`,
			pod + `container="POD",id="/p/pause"`} {
			e.function(cpuUsage, kubelet+cgroup, func(s int) float64 { return float64(s+300) / []float64{1, 4, 5, 20}[k] }, -300, 600)
			e.add(memoryUsage, kubelet+cgroup, []float64{2e9, 101e6, 100e6, 1e6}[k], -300, 600)
		}
		ask := fmt.Sprintf(`job="ksm",namespace="shop",pod="web-%d",uid="u%d"`, i+1, i+1)
		e.add(podInfo, ask+`,node="`+n+`",created_by_kind="ReplicaSet",created_by_name="web"`, 1, -300, 600)
		e.add(created, ask, e.at(-3600), -300, 600)
		e.add(scheduled, ask, e.at(-3590), -300, 600)
		e.add(phase, ask+`,phase="Running"`, 1, -300, 600)
		e.add(requests, ask+`,node="`+n+`",container="c",resource="cpu",unit="core"`, 0.5, -300, 600)
		e.add(requests, ask+`,node="`+n+`",container="c",resource="memory",unit="byte"`, 250e6, -300, 600)
	}
	e.add(initial, `job="ksm",namespace="shop",pod="web-2",uid="u2",node="n2",container="i",resource="cpu",unit="core"`, 2, -300, 600)
}

// edited returns an exposition whose lines are changed where the name of the series has a prefix. An empty line is left out.
func edited(e exposition, prefix string, change func(line string) string) exposition {
	out := exposition{e.begin, map[string][]string{}}
	for series, lines := range e.lines {
		for _, line := range lines {
			if strings.HasPrefix(series, prefix) {
				line = change(line)
			}
			if line != "" {
				out.lines[series] = append(out.lines[series], line)
			}
		}
	}
	return out
}

// replaced returns a change of the matches of a regular expression.
func replaced(expr, by string) func(string) string {
	re := regexp.MustCompile(expr)
	return func(line string) string { return re.ReplaceAllString(line, by) }
}

// doubled adds the changed lines as further series.
func doubled(e exposition, prefix string, change func(string) string) exposition {
	for series, lines := range edited(e, prefix, change).lines {
		if strings.HasPrefix(series, prefix) {
			e.lines[series] = append(e.lines[series], lines...)
		}
	}
	return e
}

// ofTarget renames labels as Prometheus does if it does not honour the labels of the exporter, which runs on n2.
func ofTarget(line string) string {
	line = replaced(`\b(namespace|pod|uid|container|node)="([^"]+)"`, `exported_$1="$2"`)(line)
	return replaced(`\{`, `{namespace="monitoring",pod="ksm-0",container="ksm",node="n2",`)(strings.Replace(line, `container="",`, "", 1))
}

// between changes only lines of some seconds.
func (e exposition) between(from, to int, change func(string) string) func(string) string {
	return func(line string) string {
		var at int64
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' '):], &at); err != nil {
			panic(err)
		}
		if at < e.begin+int64(from) || at > e.begin+int64(to) {
			return line
		}
		return change(line)
	}
}

func nothing(string) string { return "" }

// cases are clusters whose series differ from the sound ones.
var cases = []struct {
	name   string
	change func(exposition) exposition
	same   bool     // the record equals the sound cluster's
	wrong  []string // what Result.Wrong has
	lacks  string   // part of Result.Missing
	err    string
	chunk  time.Duration
}{
	{name: "sound", change: func(e exposition) exposition { return e }, same: true},
	{name: "uid on kube_pod_info only", same: true, change: func(e exposition) exposition {
		for _, series := range []string{created, scheduled, phase, requests, initial} {
			e = edited(e, series, replaced(`,uid="[^"]*"`, ""))
		}
		return e
	}},
	{name: "series with and without uid", same: true, change: func(e exposition) exposition {
		return doubled(e, requests, replaced(`job="ksm"(.*),uid="[^"]*"`, `job="old"$1`))
	}},
	{name: "labels of the target, and two jobs", same: true, change: func(e exposition) exposition {
		honoured := edited(e, "", replaced(`job="`, `job="honours-`))
		e = edited(edited(e, "kube_", ofTarget), "container_", ofTarget)
		e.also(edited(honoured, "container_", replaced(`instance="`, `endpoint="x",instance="`)))
		return e
	}},
	{name: "cgroups twice, kubelets in two jobs", same: true, change: func(e exposition) exposition {
		return doubled(doubled(e, "container_", replaced(`id="/p`, `id="/system.slice/p`)), "container_",
			replaced(`job="kubelet"`, `job="cadvisor"`))
	}},
	{name: "two kube-state-metrics", same: true, change: func(e exposition) exposition {
		return doubled(e, "kube_", replaced(`job="ksm"`, `job="ksm",instance="other"`))
	}},
	{name: "labels of usage before 1.16", same: true, change: func(e exposition) exposition {
		return edited(e, "container_", replaced(`\b(pod|container)=`, `${1}_name=`))
	}},
	{name: "nodes named by instance", same: true,
		change: func(e exposition) exposition { return edited(e, "container_", replaced(`,node="[^"]*"`, "")) }},
	{name: "node on requests only", same: true,
		change: func(e exposition) exposition { return edited(e, podInfo, replaced(`,node="[^"]*"`, "")) }},
	{name: "uid but on kube_pod_info", change: func(e exposition) exposition { return edited(e, podInfo, replaced(`,uid="[^"]*"`, "")) },
		lacks: "the label uid of kube_pod_info"},
	{name: "no node", err: "no pod is on a node of kube_node_info, though 2 are bound", change: func(e exposition) exposition {
		return edited(e, "kube_pod_", replaced(`,node="[^"]*"`, ""))
	}},
	{name: "nodes by other names", err: "no pod is on a node of kube_node_info, though 2 are bound", change: func(e exposition) exposition {
		return edited(e, podInfo, replaced(`node="n`, `node="ip-`))
	}},
	{name: "requests without resource", err: "kube_pod_container_resource_requests is there, but none of its series",
		change: func(e exposition) exposition {
			return edited(e, requests, replaced(`,resource="[^"]*"`, ""))
		}},
	{name: "requests of other pods", err: "they are of 2 (shop/old-1 is the first)", change: func(e exposition) exposition {
		return edited(e, requests, replaced(`pod="web(.*),uid="[^"]*"`, `pod="old$1`))
	}},
	{name: "capacities without node", err: "kube_node_status_allocatable is there, but none of its series",
		change: func(e exposition) exposition {
			return edited(e, allocatable, replaced(`,node="[^"]*"`, ""))
		}},
	{name: "no capacities", err: "no series kube_node_status_allocatable",
		change: func(e exposition) exposition { return edited(e, allocatable, nothing) }},
	{name: "pods without name", err: "kube_pod_info is there, but none of its series", change: func(e exposition) exposition {
		return edited(e, podInfo, replaced(`,pod="[^"]*"`, ""))
	}},
	{name: "values that are no numbers", change: func(e exposition) exposition {
		nan := replaced(` \S+ (\d+)$`, " NaN $1")
		e = edited(e, requests, func(line string) string {
			if strings.Contains(line, `pod="web-1"`) && strings.Contains(line, "memory") {
				return nan(line)
			}
			return line
		})
		return edited(e, cpuUsage, e.between(300, 300, nan))
	}, wrong: []string{"1 values of kube_pod_container_resource_requests that were negative or no finite numbers",
		"usage of pods at 1 of 2 times", "2 values of usage of pods that were negative or no finite numbers",
		"usage of nodes at 1 of 2 times", "2 values of usage of nodes that were negative or no finite numbers"}},
	{name: "series that stop", chunk: 5 * time.Minute, change: func(e exposition) exposition {
		return edited(edited(e, created, e.between(300, 600, nothing)), "container_", e.between(0, 600, nothing))
	}, wrong: []string{"in 1 of 2 chunks, first from 2026-02-03T14:45:00Z: arrivals", "usage of pods at 1 of 2 times",
		"usage of nodes at 1 of 2 times"}},
	{name: "usage of others", change: func(e exposition) exposition {
		e = edited(e, "container_", replaced(`pod="web-1"`, `pod="gone-1"`))
		return edited(e, "container_", replaced(`instance="10.0.0.1:10250",node="[^"]*"`, `instance="192.168.0.1:10250"`))
	}, wrong: []string{"usage of some nodes: 1 (n1 is the first)", "shop/gone-1", "192.168.0.1:10250"}},
	{name: "memory without CPU", change: func(e exposition) exposition { return edited(e, cpuUsage, nothing) },
		lacks: "usage of pods, usage of nodes, 4 values of usage of pods"},
	{name: "name again", change: func(e exposition) exposition {
		e = edited(e, podInfo, e.between(270, 600, replaced(`uid="u1"`, `uid="u9"`)))
		for _, series := range []string{created, scheduled, phase, requests} {
			e = edited(e, series, replaced(`,uid="[^"]*"`, ""))
		}
		return e
	}, wrong: []string{"times of pods whose name came again within a chunk, as their series have no uid: 1 (shop/web-1 is the first)"}},
	{name: "one node without capacity, one pod without times", change: func(e exposition) exposition {
		some := func(what string) func(string) string {
			return func(line string) string {
				if strings.Contains(line, what) {
					return ""
				}
				return line
			}
		}
		return edited(edited(e, allocatable, some(`node="n2"`)), created, some(`pod="web-2"`))
	}, wrong: []string{"CPU or memory of nodes, which kube_node_status_allocatable lacks: 1 (n2 is the first)",
		"arrivals of pods, which kube_pod_created lacks: 1 (shop/web-2 is the first)"}},
	{name: "no node and no times", err: "no pod is on a node of kube_node_info, though 2 are bound", change: func(e exposition) exposition {
		return edited(edited(e, "kube_pod_", replaced(`\bnode="`, `kubernetes_node="`)), scheduled, nothing)
	}},
	{name: "requests under the names of before 2.0", err: "no series kube_pod_container_resource_requests", change: func(e exposition) exposition {
		return edited(e, requests, nothing)
	}},
}

// beginOf returns when a case begins; they all are in one Prometheus.
func beginOf(i int) time.Time { return t0.Add(time.Duration(i) * 2 * time.Hour) }

// summary returns a record's rows as text, with times in seconds from the begin.
func summary(t *testing.T, dir string, begin time.Time) (out []string) {
	t.Helper()
	r := fatal.Value(record.Open(dir))(t)
	sec := func(ms int64) int64 { return ms/1000 - begin.Unix() }
	pods, err := r.Pods()
	for _, p := range pods {
		out = append(out, fmt.Sprintf("pod %s/%s on %s: %dm, %d bytes, arrived %d, bound %d, owner %s %s",
			p.Namespace, p.Name, p.Node, p.MilliCPU, p.Memory, sec(p.Arrived), sec(p.Bound), p.OwnerKind, p.End))
	}
	nodes, nodesErr := r.Nodes()
	for _, n := range nodes {
		out = append(out, fmt.Sprintf("node %s: %dm, %d bytes, %d pods", n.Name, n.MilliCPU, n.Memory, n.Pods))
	}
	usageErr := r.Samples(func(s record.Sample) error {
		out = append(out, fmt.Sprintf("usage of %s/%s at %d: %dm, %d bytes", s.Namespace, s.Name, sec(s.Time), s.MilliCPU, s.Memory))
		return nil
	})
	if err != nil || nodesErr != nil || usageErr != nil {
		t.Fatal(err, nodesErr, usageErr)
	}
	slices.Sort(out)
	return out
}

// soundRecord is the record of all clusters whose series say the same in other words.
var soundRecord = []string{
	"node n1: 4000m, 8589934592 bytes, 110 pods", "node n2: 4000m, 8589934592 bytes, 110 pods",
	"pod shop/web-1 on n1: 500m, 250000000 bytes, arrived -3600, bound -3590, owner ReplicaSet ",
	"pod shop/web-2 on n2: 2000m, 250000000 bytes, arrived -3600, bound -3590, owner ReplicaSet ",
	"usage of /n1 at 0: 1000m, 2000000000 bytes", "usage of /n1 at 300: 1000m, 2000000000 bytes",
	"usage of /n2 at 0: 1000m, 2000000000 bytes", "usage of /n2 at 300: 1000m, 2000000000 bytes",
	"usage of shop/web-1 at 0: 250m, 101000000 bytes", "usage of shop/web-1 at 300: 250m, 101000000 bytes",
	"usage of shop/web-2 at 0: 250m, 101000000 bytes", "usage of shop/web-2 at 300: 250m, 101000000 bytes",
}

// checkCases reads all cases.
func checkCases(t *testing.T, client *promapi.Client) {
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "r.record")
			w := fatal.Value(record.Create(dir, record.Options{}))(t)
			conf := config(client, w)
			conf.From, conf.To = beginOf(i), beginOf(i).Add(10*time.Minute)
			if c.chunk > 0 {
				conf.Chunk = c.chunk
			}
			got, err := Read(t.Context(), conf)
			fatal.Value(w.Close())(t)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				if parts, err := filepath.Glob(filepath.Join(dir, "*.parquet")); err != nil || len(parts) > 0 {
					t.Errorf("%q are written: %v", parts, err)
				}
				return
			}
			fatal.If(t, err)
			rows := summary(t, dir, beginOf(i))
			if d := cmp.Diff(soundRecord, rows); c.same && d != "" {
				t.Error(d)
			}
			for _, want := range c.wrong {
				if !slices.ContainsFunc(got.Wrong, func(s string) bool { return strings.Contains(s, want) }) {
					t.Errorf("wrong is %q, want %q", got.Wrong, want)
				}
			}
			if len(got.Wrong) != len(c.wrong) || !strings.Contains(got.Missing, c.lacks) {
				t.Errorf("wrong is %q, missing %q", got.Wrong, got.Missing)
			}
		})
	}
}

// Clusters whose series have other labels, or lack some, give the same record or name the fault.
func TestCases(t *testing.T) {
	checkCases(t, clientOf(t, historytest.Play(t, []byte(fatal.ReadGolden(t, "cases.json")), nil).URL))
}

// A real Prometheus gives the answers of TestCases.
func TestCasesOfAPrometheus(t *testing.T) {
	past := exposed(t0)
	for i, c := range cases {
		e := exposed(beginOf(i))
		sound(e)
		past.also(c.change(e))
	}
	kept := recording(t, installed(t, past))
	checkCases(t, clientOf(t, kept.URL))
	kept.check(t, "cases.json")
}
