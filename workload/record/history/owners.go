package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"gnnsched/workload/record"
)

// replicas is the series without which a cluster has no owners.
const replicas = "kube_deployment_spec_replicas"

// ownerSeries are the series of owners of pods: their kind, and the part of a Scale that they set.
var ownerSeries = map[model.LabelValue]struct {
	kind string
	set  func(s *record.Scale, m model.Metric, value int32)
}{
	replicas: {record.KindDeployment, setReplicas},
	"kube_deployment_spec_strategy_rollingupdate_max_surge": {record.KindDeployment, func(s *record.Scale, _ model.Metric, v int32) {
		s.Strategy, s.MaxSurge = "RollingUpdate", fmt.Sprint(v)
	}},
	"kube_deployment_spec_strategy_rollingupdate_max_unavailable": {record.KindDeployment, func(s *record.Scale, _ model.Metric, v int32) {
		s.Strategy, s.MaxUnavailable = "RollingUpdate", fmt.Sprint(v)
	}},
	"kube_replicaset_spec_replicas": {record.KindReplicaSet, setReplicas},
	"kube_replicaset_owner":         {record.KindReplicaSet, setOwner},
	"kube_statefulset_replicas":     {record.KindStatefulSet, setReplicas},
	"kube_daemonset_created":        {record.KindDaemonSet, func(*record.Scale, model.Metric, int32) {}},
	"kube_job_spec_parallelism":     {record.KindJob, func(s *record.Scale, _ model.Metric, v int32) { s.Parallelism = &v }},
	"kube_job_spec_completions":     {record.KindJob, func(s *record.Scale, _ model.Metric, v int32) { s.Completions = &v }},
	"kube_job_owner":                {record.KindJob, setOwner},
	"kube_cronjob_info": {record.KindCronJob, func(s *record.Scale, m model.Metric, _ int32) {
		s.Schedule = record.Word(string(m["schedule"]))
	}},
	"kube_horizontalpodautoscaler_info": {record.KindAutoscaler, func(s *record.Scale, m model.Metric, _ int32) {
		s.Target = record.Word(string(m["scaletargetref_kind"] + "/" + m["scaletargetref_name"]))
	}},
	"kube_horizontalpodautoscaler_spec_min_replicas": {
		record.KindAutoscaler, func(s *record.Scale, _ model.Metric, v int32) { s.Min = &v },
	},
	"kube_horizontalpodautoscaler_spec_max_replicas": {
		record.KindAutoscaler, func(s *record.Scale, _ model.Metric, v int32) { s.Max = &v },
	},
	"kube_horizontalpodautoscaler_status_desired_replicas": {record.KindAutoscaler, setReplicas},
}

func setReplicas(s *record.Scale, _ model.Metric, v int32) { s.Replicas = &v }

func setOwner(s *record.Scale, m model.Metric, _ int32) {
	if kind := named(m["owner_kind"]); kind != "" && m["owner_is_controller"] == "true" {
		s.Owner = record.Word(kind + "/" + string(m["owner_name"]))
	}
}

// ownerLabels are the labels with the names of owners. kube-state-metrics names the kind in lower case, but for Jobs.
var ownerLabels = map[string]model.LabelName{
	record.KindDeployment: "deployment", record.KindReplicaSet: "replicaset", record.KindStatefulSet: "statefulset",
	record.KindDaemonSet: "daemonset", record.KindJob: "job_name", record.KindCronJob: "cronjob",
	record.KindAutoscaler: "horizontalpodautoscaler",
}

// ownersEvery is the time between two looks at the owners.
const ownersEvery = 5 * time.Minute

type objectKey struct{ kind, namespace, name string }

// scales holds the series of one owner.
type scales []*model.SampleStream

// at returns what the owner asks for at a time; found is false if it is not there.
func (all scales) at(t model.Time) (s record.Scale, found bool) {
	for _, series := range all {
		i, has := slices.BinarySearchFunc(series.Values, t, func(p model.SamplePair, t model.Time) int { return cmp.Compare(p.Timestamp, t) })
		if !has || !valid(series.Values[i].Value) {
			continue
		}
		value := int32(min(float64(series.Values[i].Value), math.MaxInt32))
		ownerSeries[series.Metric[model.MetricNameLabel]].set(&s, series.Metric, value)
		found = true
	}
	return s, found
}

// readOwners reads the owners of pods in a chunk, and notes those that came, changed or left. A time without any owner changes nothing:
// kube-state-metrics was away.
func (r *reader) readOwners(ctx context.Context, from, to time.Time) error {
	names := slices.Sorted(maps.Keys(ownerSeries))
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	var all model.Matrix
	err := r.again(ctx, "of owners of pods", func(ctx context.Context) (err error) {
		all, err = r.Ask.Range(ctx, `{__name__=~"`+strings.Join(text, "|")+`"}`, from, to.Add(-time.Millisecond), ownersEvery)
		return err
	})
	if err != nil {
		return err
	}
	metrics := make([]model.Metric, len(all))
	for i, s := range all {
		metrics[i] = s.Metric
	}
	restore(metrics)
	of, times := map[objectKey]scales{}, map[model.Time]bool{}
	for _, s := range all {
		series := s.Metric[model.MetricNameLabel]
		kind := ownerSeries[series].kind
		k := objectKey{kind, string(s.Metric["namespace"]), string(s.Metric[ownerLabels[kind]])}
		if kind == "" || k.name == "" || k.namespace == "" {
			r.gaps.stray(string(series), k.namespace+"/"+k.name)
			continue
		}
		r.gaps.now[string(series)] = true
		of[k] = append(of[k], s)
		for _, v := range s.Values {
			times[v.Timestamp] = true
		}
	}
	for _, t := range slices.Sorted(maps.Keys(times)) {
		r.own(of, t)
	}
	return nil
}

// own notes the owners at a time.
func (r *reader) own(of map[objectKey]scales, t model.Time) {
	at, there := int64(t), map[objectKey]bool{}
	for _, k := range sortedKeys(of) {
		s, found := of[k].at(t)
		if !found {
			continue
		}
		there[k] = true
		o := record.Object{Kind: k.kind, Namespace: k.namespace, Name: k.name, From: at, Scale: record.JSON(s)}
		if old := r.objects[k]; old != nil && old.Scale == o.Scale {
			continue
		} else if old != nil {
			old.To = at
			r.rows.objects = append(r.rows.objects, *old)
		}
		r.objects[k] = &o
		r.rows.objects = append(r.rows.objects, o)
	}
	for _, k := range sortedKeys(r.objects) {
		if o := r.objects[k]; !there[k] {
			o.To, o.Gone = at, true
			r.rows.objects = append(r.rows.objects, *o)
			delete(r.objects, k)
		}
	}
}

func sortedKeys[T any](m map[objectKey]T) []objectKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b objectKey) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
}

// present returns the owners that are there.
func (r *reader) present() []record.Object {
	var out []record.Object
	for _, k := range sortedKeys(r.objects) {
		out = append(out, *r.objects[k])
	}
	return out
}
