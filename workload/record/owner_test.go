package record

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"gnnsched/internal/fatal"
)

// scaled returns a row of an owner.
func scaled(kind, name string, from, to int64, scale string) Object {
	return Object{Kind: kind, Namespace: "shop", Name: name, From: from, To: to, Scale: scale}
}

func TestOwners(t *testing.T) {
	pod := func(name, kind, owner, workload string, ended int64) Pod {
		return Pod{UID: name, Namespace: "shop", Name: name, OwnerKind: kind, OwnerName: owner, Workload: workload, Ended: ended}
	}
	gone := scaled(KindDeployment, "gone", 1, 4, `{"replicas":5}`)
	gone.Gone = true
	objects := []Object{
		scaled(KindReplicaSet, "web-1", 1, 0, `{"owner":"Deployment/web","replicas":3}`),
		scaled(KindDeployment, "web", 9, 0, `{"replicas":3}`), scaled(KindDeployment, "web", 1, 9, `{"replicas":1}`), gone,
		scaled(KindStatefulSet, "db", 1, 0, `{"replicas":2}`), scaled(KindStatefulSet, "bad", 1, 0, `{"replicas":-2}`),
		scaled(KindReplicaSet, "lone-1", 1, 0, `{"owner":"Deployment/lone","replicas":0}`),
		scaled(KindReplicaSet, "canary-1", 1, 0, `{"owner":"Rollout/canary","replicas":1}`),
		scaled(KindJob, "night-1", 1, 0, `{"owner":"CronJob/night","completions":4}`), scaled(KindCronJob, "night", 1, 0, `{"schedule":"@daily"}`),
		scaled(KindAutoscaler, "web", 1, 0, `{"target":"Deployment/web","replicas":4}`),
		scaled(KindAutoscaler, "lost", 1, 0, `{"target":"Deployment/gone","replicas":4}`),
		{Kind: KindNamespace, Name: "shop", Spec: `{}`},
	}
	pods := []Pod{
		pod("web-1-a", KindReplicaSet, "web-1", "Deployment/web", 0), pod("web-1-b", KindReplicaSet, "web-1", "Deployment/web", 5),
		pod("web-0-c", KindReplicaSet, "web-0", "Deployment/web", 0), pod("night-1-d", KindJob, "night-1", "Job/night-1", 0),
		pod("canary-1-e", KindReplicaSet, "canary-1", "ReplicaSet/canary-1", 0), pod("static", "Node", "n1", "", 0), pod("bare", "", "", "", 0),
		pod("w", "Workflow", "w", "Workflow/w", 0),
	}
	owners, notes := Owners(pods, objects)
	got := map[string][]int{}
	for _, o := range owners {
		got[o.String()] = o.Pods
	}
	want := map[string][]int{
		"Deployment shop/web": {0, 1, 2}, "Deployment shop/gone": nil, "ReplicaSet shop/web-1": {0, 1}, "ReplicaSet shop/lone-1": nil,
		"ReplicaSet shop/canary-1": {4}, "StatefulSet shop/db": nil, "StatefulSet shop/bad": nil, "Job shop/night-1": {3},
		"CronJob shop/night": {3}, "HorizontalPodAutoscaler shop/web": nil, "HorizontalPodAutoscaler shop/lost": nil,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{
		"1 HorizontalPodAutoscalers have targets that the record lacks (shop/lost of Deployment/gone is the first)",
		"1 HorizontalPodAutoscalers set other replicas than their targets have (shop/web is the first)",
		"1 have a scale that cannot be read (StatefulSet shop/bad is the first)",
		"1 owners belong to others that the record lacks (ReplicaSet shop/lone-1 of Deployment/lone is the first)",
		"1 owners have no pod at the record's end, though they ask for some (StatefulSet shop/db is the first)",
		"1 owners have other pods at the record's end than they ask for (Deployment shop/web has 2 of 3 is the first)",
		"1 pods have owners that the record lacks (shop/web-0-c of ReplicaSet web-0 is the first)",
	}, notes); d != "" {
		t.Error(d)
	}
	web := owners[slices.IndexFunc(owners, func(o Owner) bool { return o.Kind == KindDeployment && o.Name == "web" })]
	if len(web.States) != 2 || *web.States[0].Scale.Replicas != 1 || *web.Last().Scale.Replicas != 3 {
		t.Errorf("states %+v", web.States)
	}
	if got := CountOwners(objects); got != "1 Deployments, 2 StatefulSets, 1 Jobs, 1 CronJobs, 2 HorizontalPodAutoscalers" {
		t.Error(got)
	}
}

// A record of before has no column scale, and no owners: it is read as it was, and nothing is said of its pods' owners.
func TestRecordsWithoutOwners(t *testing.T) {
	type old struct {
		Kind      string `parquet:"kind,dict"`
		Namespace string `parquet:"namespace,optional,dict"`
		Name      string `parquet:"name,dict"`
		From      int64  `parquet:"from,timestamp(millisecond)"`
		To        int64  `parquet:"to,optional,timestamp(millisecond)"`
		Gone      bool   `parquet:"gone"`
		Spec      string `parquet:"spec,optional,dict"`
		Status    string `parquet:"status,optional,dict"`
	}
	dir := t.TempDir()
	err := parquet.WriteFile(filepath.Join(dir, "objects-000001.parquet"), []old{{Kind: KindJob, Namespace: "shop", Name: "j", From: 5, Spec: "6"}},
		parquet.KeyValueMetadata(versionKey, "1"), parquet.KeyValueMetadata(tableKey, "objects"))
	fatal.If(t, err)
	r := fatal.Value(Open(dir))(t)
	objects, err := r.Objects()
	if d := cmp.Diff([]Object{{Kind: KindJob, Namespace: "shop", Name: "j", From: 5, Spec: "6"}}, objects); err != nil || d != "" {
		t.Errorf("%v, damaged %q: %s", err, r.Damaged(), d)
	}
	pods := []Pod{{UID: "1", Namespace: "shop", Name: "j-1", OwnerKind: KindJob, OwnerName: "j"}}
	if owners, notes := Owners(pods, objects); owners != nil || notes != nil || CountOwners(objects) != "" {
		t.Errorf("%v, %q", owners, notes)
	}
}

// For any scale, Owners does not panic and stays within the rows.
func FuzzOwners(f *testing.F) {
	f.Add(`{"replicas":3}`, KindDeployment)
	f.Add(`{"owner":"Deployment/a","replicas":-3}`, KindReplicaSet)
	f.Add(`{"target":"HorizontalPodAutoscaler/a","replicas":1}`, KindAutoscaler)
	f.Fuzz(func(t *testing.T, scale, kind string) {
		pods := []Pod{{UID: "1", Namespace: "shop", Name: "a-1", OwnerKind: kind, OwnerName: "a", Workload: kind + "/a"}}
		owners, _ := Owners(pods, []Object{scaled(kind, "a", 1, 2, scale), scaled(kind, "a", 2, 0, scale)})
		for _, o := range owners {
			if len(o.Pods) > 2 || strings.Contains(o.Name, "/") {
				t.Errorf("%+v", o)
			}
		}
	})
}
