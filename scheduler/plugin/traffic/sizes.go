package traffic

import (
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// maxChanged is the largest number of workloads whose change is remembered one by one, for a profile that decides
// nothing.
const maxChanged = 10_000

// sizes counts the pods of each workload that wait or run. It is safe for concurrent use.
type sizes struct {
	mu      sync.Mutex
	pods    map[key]int32
	changed map[key]bool // since the last drain; nil if there are too many
}

func newSizes() *sizes { return &sizes{pods: map[key]int32{}, changed: map[key]bool{}} }

// change counts now instead of old; each may be nil.
func (s *sizes) change(old, now *v1.Pod, _ bool) {
	before, was := counted(old)
	after, is := counted(now)
	if was == is && before == after {
		return // such as a new status
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was {
		s.add(before, -1)
	}
	if is {
		s.add(after, 1)
	}
}

// counted returns the workload of a pod that has not finished.
func counted(p *v1.Pod) (k key, counts bool) {
	if p == nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return key{}, false
	}
	return keyOf(p), true
}

func (s *sizes) add(k key, pods int32) {
	if s.pods[k] += pods; s.pods[k] == 0 {
		delete(s.pods, k)
	}
	if s.changed != nil {
		s.changed[k] = true
	}
	if len(s.changed) > maxChanged {
		s.changed = nil
	}
}

// of returns the number of pods of a workload.
func (s *sizes) of(k key) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[k]
}

// drain returns the workloads whose numbers have changed since the last call; all is true if there were too many to
// remember.
func (s *sizes) drain() (changed []key, all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil && len(s.changed) == 0 {
		return nil, false
	}
	changed, all = slices.Collect(maps.Keys(s.changed)), s.changed == nil
	s.changed = map[key]bool{}
	return changed, all
}
