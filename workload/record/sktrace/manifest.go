package sktrace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tinylib/msgp/msgp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gnnsched/workload/record"
	"gnnsched/workload/record/play"
)

// maker makes manifests.
type maker struct {
	faults
	reader play.Reader
	made   map[record.Pod]map[string]any // by rows without what differs between the pods of a template
}

// workloadLabel is a label by which an owner of a trace selects its pods, as the record has no selectors.
const workloadLabel = "gnnsched.io/owner"

// unknownImage is the image of pods whose images the record lacks.
const unknownImage = "registry.k8s.io/pause"

// ownLabels are labels that controllers set, each pod's or each template's own.
var ownLabels = []string{
	"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name",
	"apps.kubernetes.io/pod-index", "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
	"batch.kubernetes.io/job-completion-index",
}

// pod returns the manifest of a pod without its name. Pods that are equal in all else share it.
func (m *maker) pod(r *record.Pod) map[string]any {
	key := record.Pod{
		MilliCPU: r.MilliCPU, Memory: r.Memory, GPU: r.GPU, GPUMilli: r.GPUMilli, GPUModels: r.GPUModels, Extended: r.Extended,
		CPULimit: r.CPULimit, MemoryLimit: r.MemoryLimit, Labels: r.Labels, NodeSelector: r.NodeSelector, Affinity: r.Affinity,
		Spread: r.Spread, Tolerations: r.Tolerations, HostPorts: r.HostPorts, Images: r.Images,
	}
	if out := m.made[key]; out != nil {
		return out
	}
	p := m.reader.Pod(&key)
	p.CreationTimestamp, p.Spec.Priority = metav1.Time{}, nil
	for _, l := range ownLabels {
		delete(p.Labels, l)
	}
	var images []string
	_ = record.ReadColumn(r.Images, &images) // what cannot be read is not known
	p.Spec.Containers[0].Image = append(images, unknownImage)[0]
	out, _ := plain(p).(map[string]any)
	delete(out, "status")
	m.made[key] = out
	return out
}

// lacks counts what a pod's manifest lacks.
func (m *maker) lacks(r *record.Pod) {
	for what, has := range map[string]bool{
		"pods have priorities, which the trace lacks":       r.PriorityClass != "" || r.Priority != 0,
		"pods have volume claims, which the trace lacks":    r.Claims != "",
		"pods have several images; the trace has the first": strings.Contains(r.Images, ","),
		"pods have no image; the trace has " + unknownImage: r.Images == "",
	} {
		if has {
			m.fault(what, r.Namespace+"/"+r.Name)
		}
	}
}

// template returns the pod template that an owner has by one of its pods.
func (m *maker) template(r *record.Pod, o *record.Owner) map[string]any {
	pod := m.pod(r)
	meta, _ := pod["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	spec, _ := pod["spec"].(map[string]any)
	meta, spec = maps.Clone(meta), maps.Clone(spec)
	if labels = maps.Clone(labels); labels == nil {
		labels = map[string]any{}
	}
	labels[workloadLabel] = labelOf(o)
	meta["labels"] = labels
	if o.Kind == record.KindJob {
		spec["restartPolicy"] = string(corev1.RestartPolicyNever)
	}
	return map[string]any{"metadata": meta, "spec": spec}
}

// labelOf returns the value of an owner's label.
func labelOf(o *record.Owner) string {
	value := o.Kind + "." + o.Name
	if len(value) <= 63 {
		return value
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(value)) // never fails
	return fmt.Sprintf("%s.%08x", value[:50], h.Sum32())
}

// ownerName returns an owner's name as record.Owner has it, from Kind/name.
func ownerName(owner, namespace string) string {
	kind, name, _ := strings.Cut(owner, "/")
	return (&record.Owner{Kind: kind, Namespace: namespace, Name: name}).String()
}

// versionOf returns the API version of a kind of owners.
func versionOf(kind string) string {
	if kind == record.KindJob {
		return "batch/v1"
	}
	return "apps/v1"
}

// manifest returns the object of an owner.
func manifest(o *record.Owner, s record.Scale, template any) map[string]any {
	spec := map[string]any{"template": template}
	number := func(name string, n *int32) {
		if n != nil {
			spec[name] = int64(*n)
		}
	}
	if o.Kind == record.KindJob {
		number("parallelism", s.Parallelism)
		number("completions", s.Completions)
		number("backoffLimit", s.BackoffLimit)
		if s.Suspend {
			spec["suspend"] = true
		}
	} else {
		spec["selector"] = map[string]any{"matchLabels": map[string]any{workloadLabel: labelOf(o)}}
		number("replicas", s.Replicas)
	}
	if s.Strategy != "" {
		strategy, rolling := map[string]any{"type": s.Strategy}, map[string]any{}
		for name, text := range map[string]string{"maxSurge": s.MaxSurge, "maxUnavailable": s.MaxUnavailable} {
			if n, err := strconv.ParseInt(text, 10, 32); err == nil {
				rolling[name] = n
			} else if text != "" {
				rolling[name] = text
			}
		}
		if len(rolling) > 0 {
			strategy["rollingUpdate"] = rolling
		}
		field := "updateStrategy"
		if o.Kind == record.KindDeployment {
			field = "strategy"
		}
		spec[field] = strategy
	}
	if o.Kind == record.KindStatefulSet {
		spec["serviceName"] = ""
	}
	return map[string]any{
		"apiVersion": versionOf(o.Kind), "kind": o.Kind, "metadata": map[string]any{"namespace": o.Namespace, "name": o.Name}, "spec": spec,
	}
}

// plain returns an object as maps, lists, texts, numbers and truth values, without null.
func plain(x any) any {
	text, err := json.Marshal(x)
	if err != nil {
		return map[string]any{}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out any
	if d.Decode(&out) != nil {
		return map[string]any{}
	}
	return out
}

// appendValue appends a value as msgpack. Keys are in order; null is left out of maps.
func appendValue(b []byte, x any) []byte {
	switch x := x.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(x))
		keys = slices.DeleteFunc(keys, func(k string) bool { return x[k] == nil })
		b = msgp.AppendMapHeader(b, uint32(len(keys)))
		for _, k := range keys {
			b = appendValue(msgp.AppendString(b, k), x[k])
		}
	case []any:
		b = msgp.AppendArrayHeader(b, uint32(len(x)))
		for _, v := range x {
			b = appendValue(b, v)
		}
	case string:
		b = msgp.AppendString(b, x)
	case bool:
		b = msgp.AppendBool(b, x)
	case int64:
		b = msgp.AppendInt64(b, x)
	case uint64:
		b = msgp.AppendUint64(b, x)
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return msgp.AppendInt64(b, n)
		}
		f, _ := x.Float64() // JSON has no other numbers
		b = msgp.AppendFloat64(b, f)
	default:
		b = msgp.AppendNil(b)
	}
	return b
}

// encode returns the trace.
func (w *writer) encode() []byte {
	tracked, index, events := map[string]any{}, map[string]any{}, []any{}
	for kind, names := range w.index {
		tracked[kind] = map[string]any{
			"podSpecTemplatePath": usualTemplates[kind], "podSpecTemplatePaths": []any{usualTemplates[kind]}, "trackLifecycle": true,
		}
		hashes := map[string]any{}
		for name, hash := range names {
			hashes[name] = hash
		}
		index[kind] = hashes
	}
	for _, at := range slices.Sorted(maps.Keys(w.events)) {
		e := w.events[at]
		events = append(events, map[string]any{"ts": at, "applied_objs": all(e.applied), "deleted_objs": all(e.deleted)})
	}
	b := msgp.AppendMapHeader(nil, 5)
	for _, f := range []struct {
		name  string
		value any
	}{{"version", int64(version)}, {"config", map[string]any{"trackedObjects": tracked}}, {"events", events}, {"index", index}} {
		b = appendValue(msgp.AppendString(b, f.name), f.value)
	}
	b = msgp.AppendMapHeader(msgp.AppendString(b, "pod_lifecycles"), uint32(len(w.lifecycles)))
	for _, k := range slices.SortedFunc(maps.Keys(w.lifecycles), byName) {
		b = appendValue(b, []any{k.kind, k.name})
		b = msgp.AppendMapHeader(b, uint32(len(w.lifecycles[k])))
		for _, hash := range slices.Sorted(maps.Keys(w.lifecycles[k])) {
			var list []any
			for _, l := range w.lifecycles[k][hash] {
				if l.end == 0 {
					list = append(list, map[string]any{"Running": l.start})
				} else {
					list = append(list, map[string]any{"Finished": []any{l.start, l.end}})
				}
			}
			b = appendValue(msgp.AppendUint64(b, hash), list)
		}
	}
	return b
}

func all(list []any) []any {
	if list == nil {
		return []any{}
	}
	return list
}

func byName(a, b ownerKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}
