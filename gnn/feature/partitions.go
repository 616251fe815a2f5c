package feature

import (
	"sync"

	"gnnsched/internal/cluster/mig"
)

func init() { Register(partitions) }

// partitions describes GPUs with MIG by their memory slices, which say what still fits. With it in a layout the free part of such a GPU is
// that of its slices, and a placement takes the slices of its partition. Sums over GPUs suit the value, which is one, too.
var partitions = &Set{
	Name:       "partitions",
	Doc:        "Which MIG partitions still fit on each GPU, by the workload's shares of the profiles and by profile.",
	Version:    1,
	GPU:        true,
	Partitions: true,
	Node: []NodeBlock{
		One("open", "GPUs with MIG that have free memory slices / 8", func(n *Node) float32 { return float32(openGPUs(n.Slices)) / 8 }),
		One("slices", "free memory slices / 64", func(n *Node) float32 { return float32(freeSlices(n.Slices)) / (8 * mig.Memory) }),
		{Features: stateFeatures(), Fill: fillStates},
		{Features: profileFeatures(), Fill: fillProfiles},
	},
	Cluster: []ClusterBlock{
		{Features: shareFeatures(), Fill: func(c *Candidates, out []float32) {
			for i, p := range mig.Profiles() {
				out[i] = float32(c.Workload.Partitions[p])
			}
		}},
		One("slices", "free memory slices of GPUs with MIG / 8 devices", func(c *Candidates) float32 {
			return float32(float64(c.Partitions.Slices) / c.deviceCount() / mig.Memory)
		}),
		One("slices_few", "10 times that, up to 1", func(c *Candidates) float32 {
			return float32(min(10*float64(c.Partitions.Slices)/c.deviceCount()/mig.Memory, 1))
		}),
		{Features: roomFeatures(), Fill: func(c *Candidates, out []float32) {
			for i, p := range mig.Profiles() {
				part := float64(c.Partitions.Room[p]) / c.deviceCount() / float64(p.Room(0))
				out[2*i], out[2*i+1] = float32(part), float32(min(10*part, 1))
			}
		}},
	},
}

// PartitionCounts are sums over GPUs with MIG.
type PartitionCounts struct {
	Slices int64            // free memory slices
	Room   [mig.Count]int64 // by profile: the partitions that fit at the same time, each profile by itself
}

// Count returns the counts of some GPUs, of which the used memory slices are given.
func Count(used []mig.Slices) (c PartitionCounts) {
	c.Slices = int64(freeSlices(used))
	for _, s := range used {
		if s == mig.All {
			continue
		}
		for _, p := range mig.Profiles() {
			c.Room[p] += int64(p.Room(s))
		}
	}
	return c
}

func (c *PartitionCounts) add(o *PartitionCounts, times int64) {
	c.Slices += times * o.Slices
	for p := range c.Room {
		c.Room[p] += times * o.Room[p]
	}
}

// openGPUs counts the GPUs with free memory slices. GPUs without MIG have none.
func openGPUs(used []mig.Slices) (n int) {
	for _, s := range used {
		if s != mig.All {
			n++
		}
	}
	return n
}

func freeSlices(used []mig.Slices) (n int) {
	for _, s := range used {
		n += mig.Memory - s.Len()
	}
	return n
}

// stateTable holds mig.Features by state and profile.
var stateTable = sync.OnceValue(func() *[int(mig.All) + 1][mig.Count][]float32 {
	var t [int(mig.All) + 1][mig.Count][]float32
	for s := range t {
		for _, p := range mig.Profiles() {
			for _, f := range mig.Features {
				t[s][p] = append(t[s][p], float32(f.Of(mig.Slices(s), p)))
			}
		}
	}
	return &t
})

// stateFeatures lists mig.Features for the workload's pods.
func stateFeatures() (out []Feature) {
	for _, f := range mig.Features {
		out = append(out, Feature{Name: "mix_" + f.Name,
			Doc: f.About + "; mean over the workload's profiles by their shares, sum over GPUs with free memory slices / 8"})
	}
	return out
}

func fillStates(n *Node, out []float32) {
	clear(out)
	table := stateTable()
	for _, s := range n.Slices {
		if s == mig.All {
			continue
		}
		for _, p := range mig.Profiles() {
			share := float32(n.Workload.Partitions[p]) / 8
			for k, f := range table[s][p] {
				out[k] += share * f
			}
		}
	}
}

// profileFeatures lists what fits of each profile.
func profileFeatures() (out []Feature) {
	for _, p := range mig.Profiles() {
		name := profileName(p)
		out = append(out,
			Feature{Name: "room_" + name, Doc: "partitions of this profile that fit at the same time / as many as fit on 8 idle GPUs"},
			Feature{Name: "starts_" + name, Doc: "free starts of this profile / as many as 8 idle GPUs have"},
			Feature{Name: "gpus_" + name, Doc: "GPUs on which a partition of this profile fits / 8"})
	}
	return out
}

func fillProfiles(n *Node, out []float32) {
	for i, p := range mig.Profiles() {
		room, starts, gpus := 0, 0, 0
		for _, s := range n.Slices {
			if s == mig.All {
				continue
			}
			room += p.Room(s)
			here := 0
			for range p.Free(s) {
				here++
			}
			starts += here
			gpus += min(here, 1)
		}
		out[3*i] = float32(room) / float32(8*p.Room(0))
		out[3*i+1] = float32(starts) / float32(8*len(p.Starts()))
		out[3*i+2] = float32(gpus) / 8
	}
}

func shareFeatures() (out []Feature) {
	for _, p := range mig.Profiles() {
		out = append(out, Feature{Name: "share_" + profileName(p), Doc: "share of this profile in the workload's requests for partitions"})
	}
	return out
}

func roomFeatures() (out []Feature) {
	for _, p := range mig.Profiles() {
		out = append(out,
			Feature{Name: "room_" + profileName(p),
				Doc: "partitions of this profile that fit at the same time / as many as fit if all devices are idle GPUs with MIG"},
			Feature{Name: "room_few_" + profileName(p), Doc: "10 times that, up to 1"})
	}
	return out
}

// profileName names a profile by its compute and memory slices, such as 1x2.
func profileName(p mig.Profile) string {
	return string([]byte{'0' + byte(p.Compute()), 'x', '0' + byte(p.Memory())})
}
