package nodepool

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A GPU with MIG has seven compute slices and eight memory slices.
const (
	computeSlices = 7
	memorySlices  = 8
)

// migShape is the size of a partition and the memory slices at which it may start, as NVIDIA's MIG user guide
// lists them for A100, H100 and H200.
type migShape struct {
	compute, memory int
	starts          []int
}

var migShapes = []migShape{
	{1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{1, 2, []int{0, 2, 4, 6}},
	{2, 2, []int{0, 2, 4}},
	{3, 4, []int{0, 4}},
	{4, 4, []int{0}},
	{7, 8, []int{0}},
}

// profile returns the shape of a MIG profile of the devices. A profile is named by its compute slices and
// its memory in GB: 3g.20gb.
func (d *Devices) profile(name string) (migShape, error) {
	total := d.gigabytes()
	if total < memorySlices {
		return migShape{}, fmt.Errorf("%q needs the devices' memory of %dGi or more, of which a partition gets a part", name, memorySlices)
	}
	var known []string
	for _, s := range migShapes {
		own := s.name(total)
		if own == name {
			return s, nil
		}
		known = append(known, own)
	}
	return migShape{}, fmt.Errorf("%q is not a MIG profile of a device with %s; those are %s", name, d.Memory.String(), strings.Join(known, ", "))
}

// gigabytes returns the memory of one device in GiB, which profiles call gb.
func (d *Devices) gigabytes() int {
	return int(math.Round(d.Memory.AsApproximateFloat64() / (1 << 30)))
}

// name returns the profile's name on a device with so many GB.
func (s migShape) name(gigabytes int) string {
	return fmt.Sprintf("%dg.%dgb", s.compute, gigabytes*s.memory/memorySlices)
}

// counters returns what a partition that starts at the given memory slice takes of its device's counters.
func (s migShape) counters(start int) map[string]resourceapi.Counter {
	out := map[string]resourceapi.Counter{"compute-slices": count(s.compute)}
	for i := start; i < start+s.memory; i++ {
		out["memory-slice-"+strconv.Itoa(i)] = count(1)
	}
	return out
}

// allCounters are the counters of a whole device.
func allCounters() map[string]resourceapi.Counter {
	return migShape{compute: computeSlices, memory: memorySlices}.counters(0)
}

func count(n int) resourceapi.Counter {
	return resourceapi.Counter{Value: *resource.NewQuantity(int64(n), resource.DecimalSI)}
}
