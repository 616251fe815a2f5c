package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/workload/record"
)

// owned is a Deployment with its ReplicaSet and its pod, and a pod of a StatefulSet that the file lacks, as kubectl prints them.
const owned = `{"apiVersion":"v1","kind":"List","items":[
{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}},
{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":2}},
{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-1","namespace":"shop",
 "ownerReferences":[{"kind":"Deployment","name":"web","controller":true}]},"spec":{"replicas":2}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1-a","namespace":"shop","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z",
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-1","controller":true}]},
 "spec":{"nodeName":"n1","containers":[{"name":"c","image":"web:1","resources":{"requests":{"cpu":"1"}}}]}},
{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"shop","uid":"v","creationTimestamp":"2026-01-02T03:04:05Z",
 "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","controller":true}]},
 "spec":{"nodeName":"n1","containers":[{"name":"c"}]}}]}`

// A record with owners becomes a trace of SimKube, and this a record with nodes of a list.
func TestTracesOfSimkube(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	_, err := convert(t, "--out", in("now.record"), file(t, in("now.json"), owned))
	fatal.If(t, err)
	_, err = convert(t, "--out", in("now.sktrace"), in("now.record"))
	fatal.If(t, err)
	_, err = convert(t, "--out", in("again.record"), in("now.sktrace"), file(t, in("nodes.csv"), openbNodes))
	fatal.If(t, err)
	r := fatal.Value(record.Open(in("again.record")))(t)
	pods := fatal.Value(r.Pods())(t)
	nodes := fatal.Value(r.Nodes())(t)
	runs, err := r.Runs()
	if err != nil || len(pods) != 1 || pods[0].MilliCPU != 1000 || pods[0].Workload != "Deployment/web" || len(nodes) != 2 ||
		runs[0].Source != "simkube" || nodes[0].From != runs[0].From {
		t.Errorf("%v: pods %+v, nodes %+v, runs %+v", err, pods, nodes, runs)
	}
	fatal.If(t, os.WriteFile(in("bad.sktrace"), []byte("\x81\xa7version\x03"), 0o600))
	for want, args := range map[string][]string{
		"bad.sktrace: no trace of SimKube: version: it is 3": {"--out", in("b.record"), in("bad.sktrace")},
		"is a second trace":     {"--out", in("c.record"), in("now.sktrace"), in("now.sktrace")},
		"is made of one record": {"--out", in("d.sktrace"), in("now.json")},
		"is a record already":   {"--out", in("again.record"), in("now.sktrace")},
	} {
		if _, err := convert(t, args...); err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
}
