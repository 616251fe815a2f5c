package gpushare

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"gnnsched/scheduler/cluster"
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
	// devices.
	Indexed bool
}

// None tells whether the pod does not ask for GPUs, and no more than that.
func (r Request) None() bool { return r.GPU == 0 && r.GPUMilli == 0 && len(r.Models) == 0 }

// OfPod reads what a pod asks for: its annotations, and how much it requests of a resource. On
// an error, which says what is wrong, the rest of the request is that of nvidia.com/gpu.
func OfPod(annotations map[string]string, requested func(corev1.ResourceName) int64) (Request, error) {
	whole, milli := requested(Whole), requested(Milli)
	out := Request{GPU: whole, Models: models(annotations[Model]), Indexed: milli > 0}
	claim, err := annotated(annotations)
	if err != nil {
		return out, err
	}
	claims := []cluster.Resources{{GPU: whole}, {GPU: milli / cluster.DeviceMilli, GPUMilli: milli % cluster.DeviceMilli}, claim}
	var ask cluster.Resources
	for i, c := range claims {
		switch none := (cluster.Resources{}); {
		case c == none:
			continue
		case c.GPU > 0 && c.GPUMilli > 0:
			return out, fmt.Errorf("it requests %d of %s; a share is less than %d, whole devices are a multiple of it", milli, Milli, cluster.DeviceMilli)
		case ask != none && ask != c:
			return out, fmt.Errorf("its requests for %s and %s and its annotations %s and %s do not ask for the same", Whole, Milli, Count, Milli)
		}
		ask, out.Indexed = c, out.Indexed || i > 0
	}
	out.GPU, out.GPUMilli = ask.GPU, ask.GPUMilli
	return out, nil
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

func models(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, "|")
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

// Devices are the devices that a pod's annotations put it on; none where they do not say, or
// not in the right words.
func Devices(annotations map[string]string) (on cluster.DeviceSet) {
	s := annotations[Index]
	if s == "" {
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

// Place accounts for the pods on n. Those that say on which devices they are go first; then
// the others, the largest first, to the devices of cluster.Node.ChooseDevices, so that equal
// pods give equal books in whatever order they come.
func Place(n *cluster.Node, pods []Running) {
	slices.SortStableFunc(pods, func(a, b Running) int {
		return cmp.Or(rank(n, a)-rank(n, b), cmp.Compare(b.Requests.TotalGPUMilli(), a.Requests.TotalGPUMilli()))
	})
	for _, p := range pods {
		if rank(n, p) == 0 {
			n.AddOn(p.Requests, p.On)
		} else {
			n.Add(p.Requests)
		}
	}
}

// rank is 0 for a pod on devices that n has and as many as it asks for, 1 for any other.
func rank(n *cluster.Node, p Running) int {
	devices := max(p.Requests.GPU, min(p.Requests.GPUMilli, 1))
	if devices > 0 && int64(p.On.Len()) == devices && p.On>>len(n.GPUs) == 0 {
		return 0
	}
	return 1
}
