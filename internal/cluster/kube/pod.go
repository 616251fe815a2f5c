package kube

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/internal/cluster"
)

// The names on nodes and pods; the package comment says which stands where.
const (
	Whole = "nvidia.com/gpu"
	Count = "alibabacloud.com/gpu-count"
	Milli = "alibabacloud.com/gpu-milli"
	Model = "alibabacloud.com/gpu-card-model"
	Index = "alibabacloud.com/gpu-index"
)

// Request is what a pod asks of GPUs.
type Request struct {
	GPU      int64    // whole devices
	GPUMilli int64    // thousandths of one device, 1 to 999; GPU is then 0
	Models   []string // that may serve it; empty: any
	// Indexed tells that the pod uses the words for shares, so that it wants to know its
	// devices. One that names devices does: what it names is for the scheduler to write.
	Indexed bool
}

// None tells whether the pod does not ask for GPUs.
func (r Request) None() bool { return r.GPU == 0 && r.GPUMilli == 0 }

// OfPod reads what a pod asks for: its annotations, and how much it requests of a resource.
// Models are those of a pod that asks for GPUs; on any other they mean nothing.
//
// The error says what is wrong. The request is then what can still be believed: where amounts
// contradict each other it is that of the resources, which a pod's owner cannot change while it
// runs, and where the models are wrong it names none.
func OfPod(annotations map[string]string, requested func(corev1.ResourceName) int64) (Request, error) {
	ask, indexed, err := amounts(annotations, requested(Whole), requested(Milli))
	out := Request{GPU: ask.GPU, GPUMilli: ask.GPUMilli}
	if out.None() {
		return out, err
	}
	out.Indexed = indexed || annotations[Index] != ""
	names, wrong := models(annotations[Model])
	if err == nil {
		err = wrong
	}
	out.Models = names
	return out, err
}

// amounts is how much is asked for, and whether in the words for shares.
func amounts(annotations map[string]string, whole, milli int64) (ask cluster.Resources, indexed bool, err error) {
	claim, err := annotated(annotations)
	if err != nil {
		return ofResources(whole, milli), milli > 0, err
	}
	claims := []cluster.Resources{{GPU: whole}, {GPU: milli / cluster.DeviceMilli, GPUMilli: milli % cluster.DeviceMilli}, claim}
	for i, c := range claims {
		switch none := (cluster.Resources{}); {
		case c == none:
			continue
		case c.GPU > 0 && c.GPUMilli > 0:
			return ofResources(whole, milli), true, fmt.Errorf("it requests %d of %s; a share is less than %d, whole devices are a multiple of it", milli, Milli, cluster.DeviceMilli)
		case ask != none && ask != c:
			return ofResources(whole, milli), milli > 0, fmt.Errorf("its requests for %s and %s and its annotations %s and %s do not ask for the same", Whole, Milli, Count, Milli)
		}
		ask, indexed = c, indexed || i > 0
	}
	return ask, indexed, nil
}

// ofResources is what the resources alone ask for; where they disagree, the more of them.
func ofResources(whole, milli int64) cluster.Resources {
	if whole == 0 && milli < cluster.DeviceMilli {
		return cluster.Resources{GPUMilli: milli}
	}
	devices := milli / cluster.DeviceMilli
	if milli%cluster.DeviceMilli > 0 {
		devices++
	}
	return cluster.Resources{GPU: max(whole, devices)}
}

// annotated is what the annotations ask for.
func annotated(annotations map[string]string) (r cluster.Resources, err error) {
	count, counted := annotations[Count]
	milli, shared := annotations[Milli]
	if !counted && !shared {
		return r, nil
	}
	devices, err := number(Count, count, 1, cluster.MaxDevices)
	if err != nil {
		return r, err
	}
	each, err := number(Milli, milli, cluster.DeviceMilli, cluster.DeviceMilli)
	switch {
	case err != nil || devices == 0 || each == 0:
		return r, err
	case each == cluster.DeviceMilli:
		return cluster.Resources{GPU: devices}, nil
	case devices > 1:
		return r, fmt.Errorf("annotation %s is %d with a %s of %d; only a pod on one device may share it", Milli, each, Count, devices)
	}
	return cluster.Resources{GPUMilli: each}, nil
}

func number(name, s string, missing, most int64) (int64, error) {
	if s == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("annotation %s is %q, not a whole number from 0 to %d", name, s, most)
	}
	return n, nil
}

// Bounds of the annotation for models, which its owner may fill with a quarter of a megabyte: no
// cluster has more models, and a longer name is the value of no label.
const (
	maxModels    = 32
	maxModelName = 63
)

// models splits A10|T4; a model that is named twice counts once.
func models(s string) (out []string, err error) {
	if s == "" {
		return nil, nil
	}
	named := 0
	for m := range strings.SplitSeq(s, "|") {
		m = strings.TrimSpace(m)
		switch named++; {
		case named > maxModels:
			return nil, fmt.Errorf("annotation %s names more than %d models", Model, maxModels)
		case m == "":
			return nil, fmt.Errorf("annotation %s names no model before, after or between two |", Model)
		case len(m) > maxModelName:
			return nil, fmt.Errorf("annotation %s names a model of %d characters; a node's label has %d at most", Model, len(m), maxModelName)
		}
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// Describe writes a request as annotations, and as the resources that are requested: whole
// devices as nvidia.com/gpu, a share as alibabacloud.com/gpu-milli. All are nil where nothing is
// asked for.
func Describe(r cluster.Resources, gpuModels []string) (annotations map[string]string, requests corev1.ResourceList) {
	count, milli := r.GPU, int64(cluster.DeviceMilli)
	switch {
	case r.GPU > 0:
		requests = corev1.ResourceList{Whole: *resource.NewQuantity(r.GPU, resource.DecimalSI)}
	case r.GPUMilli > 0:
		count, milli = 1, r.GPUMilli
		requests = corev1.ResourceList{Milli: *resource.NewQuantity(r.GPUMilli, resource.DecimalSI)}
	default:
		return nil, nil
	}
	annotations = map[string]string{Count: strconv.FormatInt(count, 10), Milli: strconv.FormatInt(milli, 10)}
	if len(gpuModels) > 0 {
		annotations[Model] = strings.Join(gpuModels, "|")
	}
	return annotations, requests
}

// maxIndex is more characters than all devices need.
const maxIndex = 3 * cluster.MaxDevices

// Devices are the devices that a pod's annotations put it on; none where they do not say, or
// not in the right words.
func Devices(annotations map[string]string) (on cluster.DeviceSet) {
	s := annotations[Index]
	if s == "" || len(s) > maxIndex {
		return 0
	}
	for part := range strings.SplitSeq(s, "-") {
		i, err := strconv.ParseUint(part, 10, 8)
		if err != nil || i >= cluster.MaxDevices {
			return 0
		}
		on |= cluster.Device(int(i))
	}
	return on
}

// FormatDevices writes devices as the annotation has them, ascending: 0-1-7.
func FormatDevices(on cluster.DeviceSet) string {
	var parts []string
	for rest := on; rest != 0; rest &= rest - 1 {
		parts = append(parts, strconv.Itoa(bits.TrailingZeros64(uint64(rest))))
	}
	return strings.Join(parts, "-")
}

// Running is a pod on a node.
type Running struct {
	Requests cluster.Resources
	On       cluster.DeviceSet // none where the pod does not say
}

// Place accounts for the pods on n. Those that say on which devices they are go first, as long as
// there is room: anybody may write the annotation, and a device that is given away twice would
// hide another that is free. Then come the others, to the devices of cluster.Node.ChooseDevices.
// Of both the largest are first, so that the same pods give equal books in whatever order they
// come.
func Place(n *cluster.Node, pods []Running) {
	slices.SortStableFunc(pods, func(a, b Running) int {
		return cmp.Or(cmp.Compare(b.Requests.TotalGPUMilli(), a.Requests.TotalGPUMilli()), cmp.Compare(a.On, b.On))
	})
	var silent []Running
	for _, p := range pods {
		if p.Requests.TotalGPUMilli() > 0 && HasRoom(n, p.Requests, p.On) {
			n.AddOn(p.Requests, p.On)
		} else {
			silent = append(silent, p)
		}
	}
	for _, p := range silent {
		n.Add(p.Requests)
	}
}

// HasRoom tells whether on is as many devices of n as r asks for, each with room for it.
func HasRoom(n *cluster.Node, r cluster.Resources, on cluster.DeviceSet) bool {
	devices, milli := max(r.GPU, 1), int64(cluster.DeviceMilli)
	if r.GPUMilli > 0 {
		devices, milli = 1, r.GPUMilli
	}
	if int64(on.Len()) != devices || on>>len(n.GPUs) != 0 {
		return false
	}
	for i, used := range n.GPUs {
		if on.Has(i) && used+milli > cluster.DeviceMilli {
			return false
		}
	}
	return true
}
