package graph

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// The features of each kind of vertex and of the candidate edge, by name and in order. All
// are ratios or logs of ratios, so a network trained on one size of cluster reads another.
var (
	NodeFeatures = []string{
		"cpu", "memory", "pods", "gpu", // requested / allocatable
		"imbalance",   // |cpu - memory|
		"log_cpu",     // log2(allocatable CPU / mean over nodes)
		"log_memory",  // log2(allocatable memory / mean over nodes)
		"has_gpu",     // 1 where GPUs are offered
		"unavailable", // 1 where cordoned or tainted against ordinary pods
	}
	GroupFeatures = []string{
		"each_cpu", "each_memory", "each_gpu", // one pod's request / node's allocatable
		"cpu", "memory", "pods", // the whole group's / node's allocatable
	}
	PodFeatures = []string{
		"cpu", "memory", "gpu", // request / mean allocatable over nodes
		"log_cpu_memory", // log2 of the CPU share over the memory share, within ±4
		"no_cpu", "no_memory",
	}
	ClusterFeatures = []string{
		"cpu", "memory", // mean over the candidates of requested / allocatable
		"cpu_std", "memory_std", // and their standard deviation
		"feasible", // candidates / nodes
	}
	CandidateFeatures = []string{
		"cpu", "memory", "pods", "gpu", // (requested + request) / allocatable
		"imbalance",             // |cpu - memory| after placement
		"add_cpu", "add_memory", // request / allocatable
		"cpu_off", "memory_off", // after placement, minus the candidates' mean
		"cpu_z", "memory_z", // the same over (standard deviation + mean added share), within ±4
		"cpu_rise", "memory_rise", // of that standard deviation by the placement, times candidates, over the mean of both resources' scales, within ±4
		"skew_rise", // the same of the standard deviation of cpu - memory
		"room",      // pods of the largest requests, running or pending, that fit less by the placement, up to 4
	}
)

// The lengths of the feature vectors.
var (
	NodeDim      = len(NodeFeatures)
	GroupDim     = len(GroupFeatures)
	PodDim       = len(PodFeatures)
	ClusterDim   = len(ClusterFeatures)
	CandidateDim = len(CandidateFeatures)
)

// SchemaVersion changes when a feature keeps its name and changes its meaning.
const SchemaVersion = 1

// SchemaHash identifies the schema: a checkpoint trained on another one is of no use here.
func SchemaHash() string {
	h := sha256.New()
	h.Write([]byte{SchemaVersion})
	for _, f := range [][]string{NodeFeatures, GroupFeatures, PodFeatures, ClusterFeatures, CandidateFeatures} {
		h.Write([]byte(strings.Join(f, ",") + ";"))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
