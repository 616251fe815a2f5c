package observe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gnnsched/workload/record"
)

// ownersPrinted is a Deployment with its ReplicaSet and autoscaler, and the other owners of pods, as kubectl prints them.
const ownersPrinted = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":0,
 "strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%","maxUnavailable":1}}},"status":{"replicas":1}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop",
 "ownerReferences":[{"kind":"Deployment","name":"web","controller":true}]},"spec":{}},
{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":"shop"},"spec":{"replicas":3,"updateStrategy":{"type":"OnDelete"}}},
{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"logs","namespace":"shop"},"spec":{"updateStrategy":{"type":"RollingUpdate",
 "rollingUpdate":{"maxUnavailable":"10%","maxSurge":0}}}},
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"night-1","namespace":"shop","ownerReferences":[{"kind":"CronJob","name":"night",
 "controller":true}]},"spec":{"parallelism":2,"completions":6,"backoffLimit":4}},
{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"night","namespace":"shop"},"spec":{"schedule":"0 3 * * *","timeZone":"UTC",
 "suspend":true,"jobTemplate":{"spec":{"parallelism":2}}}},
{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web","namespace":"shop"},"spec":{"maxReplicas":9,
 "scaleTargetRef":{"kind":"Deployment","name":"web"},"metrics":[
 {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}},
 {"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"30"}}}]},
 "status":{"desiredReplicas":4,"currentMetrics":[{"type":"Resource"}]}},
{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"gang","namespace":"shop"}},
{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"old","namespace":"shop"},"spec":{"maxReplicas":9}}]}`

func TestOwnersOfAFile(t *testing.T) {
	o := read(t, ownersPrinted, 7*second)
	if o.Skipped["Job.batch.volcano.sh"] != 1 || o.LeftOut[record.KindAutoscaler].Objects != 1 {
		t.Errorf("skipped %v, left out %v", o.Skipped, o.LeftOut)
	}
	got := map[string]string{}
	for _, x := range o.others {
		if err := record.Check(&x); err != nil {
			t.Error(err)
		}
		got[x.Kind+"/"+x.Name] = strings.TrimSpace(x.Spec + " " + x.Scale)
	}
	if d := cmp.Diff(map[string]string{
		"Deployment/web":              `{"replicas":0,"strategy":"RollingUpdate","maxSurge":"25%","maxUnavailable":"1"}`,
		"ReplicaSet/web-1":            `{"owner":"Deployment/web","replicas":1}`,
		"StatefulSet/db":              `{"replicas":3,"strategy":"OnDelete"}`,
		"DaemonSet/logs":              `{"strategy":"RollingUpdate","maxSurge":"0","maxUnavailable":"10%"}`,
		"Job/night-1":                 `4 {"owner":"CronJob/night","parallelism":2,"completions":6,"backoffLimit":4}`,
		"CronJob/night":               `{"parallelism":2,"suspend":true,"schedule":"0 3 * * *","timeZone":"UTC"}`,
		"HorizontalPodAutoscaler/web": `{"replicas":4,"target":"Deployment/web","min":1,"max":9,"metrics":["cpu 80%","queue 30"]}`,
	}, got); d != "" {
		t.Error(d)
	}
}

// A cluster in which nothing changes writes no row again, and a change of the replicas ends one state and begins another.
func TestOwnersOverTime(t *testing.T) {
	f, s, clock := follower(record.State{})
	known := NewKnown()
	look := func(at int64, text string) int {
		before := s.rows + len(s.objects)
		*clock = at
		known.Look([]File{read(t, text, at)})
		known.Tell(f)
		return s.rows + len(s.objects) - before
	}
	if n := look(1*second, ownersPrinted); n != 7 {
		t.Errorf("%d rows at first", n)
	}
	busy := strings.Replace(ownersPrinted, `"status":{"replicas":1}`, `"status":{"replicas":2,"observedGeneration":9}`, 1)
	if n := look(2*second, busy); n != 0 {
		t.Errorf("%d rows although nothing changed that a record holds", n)
	}
	if n := look(3*second, strings.Replace(busy, `"replicas":0`, `"replicas":5`, 1)); n != 2 {
		t.Errorf("%d rows of a change, want the end of a state and the next one", n)
	}
	if got := f.Counts().Owners; got != "1 Deployments, 1 StatefulSets, 1 DaemonSets, 1 Jobs, 1 CronJobs, 1 HorizontalPodAutoscalers" {
		t.Error(got)
	}
}
