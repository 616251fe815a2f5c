package canary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"gnnsched/internal/each"
)

// Annotations of the lease of userconfig.ShareLeaseOf.
const (
	// StoppedAnnotation says since when and why the canary is stopped.
	StoppedAnnotation = "gnnsched.io/share-stopped"
	// runningAnnotation says since when a process runs the canary. A process that is killed leaves it behind. Then nobody
	// knows whether it had stopped the canary, and the next process takes it for a stop.
	runningAnnotation = "gnnsched.io/share-running"
)

// otherTime is how long a process waits for the runningAnnotation of another to go. That one may be ending, and tries to
// remove it for lateTime.
const otherTime = lateTime + requestTime

var errOther = errors.New("another process runs the share, or was killed")

// claim writes that this process runs the canary. It returns why the canary was stopped earlier; empty if it was not. A
// runningAnnotation of another process that stays for otherTime is such a stop, and is kept as one.
func (c *Split) claim(ctx context.Context) (earlier string, err error) {
	err = c.change(ctx, func(lease *coordinationv1.Lease) (bool, error) {
		earlier = lease.Annotations[StoppedAnnotation]
		other := lease.Annotations[runningAnnotation]
		if earlier != "" || other == c.running { // an earlier claim may have been written though its answer did not come
			return false, nil
		}
		if other == "" {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, runningAnnotation, c.running)
			return true, nil
		}
		if c.waited.IsZero() {
			c.waited = time.Now()
		}
		if time.Since(c.waited) < otherTime {
			return false, errOther
		}
		since, _, _ := strings.Cut(other, " ")
		earlier = fmt.Sprintf("%s unclean: the process that ran the share since %q was killed, or could not say how it ended. It may have "+
			"stopped the share", time.Now().UTC().Format(time.RFC3339), since)
		markStopped(lease, earlier)
		return true, nil
	})
	return earlier, err
}

// keep keeps in the cluster why the canary is stopped. After ctx has ended it tries for lateTime.
func (c *Split) keep(ctx context.Context, why string) {
	if !c.late(ctx, "keep that the share is stopped", func(lease *coordinationv1.Lease) (bool, error) {
		if lease.Annotations[StoppedAnnotation] != "" { // an earlier stop stays as it is
			return c.unmark(lease), nil
		}
		markStopped(lease, why)
		return true, nil
	}) {
		// The command is quoted for a shell, and the log quotes it again: why has no quotes and no backslashes.
		c.log.Error(nil, "Why the share stopped is not kept in the cluster; the next process sees only that this one did not end cleanly, and "+
			"does not begin the share", "annotate",
			fmt.Sprintf("kubectl -n %s annotate lease %s '%s=%s'", metav1.NamespaceSystem, c.lease, StoppedAnnotation, why))
	}
}

// release removes the runningAnnotation of this process, which has not stopped the canary. After ctx has ended it tries
// for lateTime.
func (c *Split) release(ctx context.Context) {
	if c.late(ctx, "remove the mark that the share runs", func(lease *coordinationv1.Lease) (bool, error) { return c.unmark(lease), nil }) {
		return
	}
	c.log.Error(nil, "The mark that the share runs may stay in the cluster: the next process does not begin the share, unless you remove "+
		"the mark first", "annotate",
		fmt.Sprintf("kubectl -n %s annotate lease %s %s-", metav1.NamespaceSystem, c.lease, runningAnnotation))
}

// unmark removes the runningAnnotation if it is of this process, and reports whether it was.
func (c *Split) unmark(lease *coordinationv1.Lease) bool {
	if lease.Annotations[runningAnnotation] != c.running {
		return false
	}
	delete(lease.Annotations, runningAnnotation)
	return true
}

func markStopped(lease *coordinationv1.Lease, why string) {
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, StoppedAnnotation, why)
	delete(lease.Annotations, runningAnnotation)
}

// late changes the lease until that succeeds. After ctx has ended it tries for lateTime. It reports whether it succeeded.
func (c *Split) late(ctx context.Context, what string, edit func(*coordinationv1.Lease) (bool, error)) bool {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(lateTime, cancel) })
	defer stop()
	return c.retry(late, what, func(ctx context.Context) error { return c.change(ctx, edit) })
}

// read returns why the canary is stopped; empty if it is not.
func (c *Split) read(ctx context.Context) (string, error) {
	lease, err := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, c.lease, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return lease.Annotations[StoppedAnnotation], nil
}

// change reads the lease, lets edit change it, and writes it if edit reports a change.
func (c *Split) change(ctx context.Context, edit func(*coordinationv1.Lease) (bool, error)) error {
	leases := c.handle.ClientSet().CoordinationV1().Leases(metav1.NamespaceSystem)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, c.lease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			lease, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.lease}}, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		changed, err := edit(lease)
		if err != nil || !changed {
			return err
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// mark is one event that counts against a pod's group.
type mark struct {
	owner uint64 // ownerKey; others if too many owners have marks
	level int    // kind of failure, or bucket of a time
}

const (
	// others is the key for the owners beyond mostOwners. They are never left out of a comparison.
	others     = 0
	mostOwners = 2000 // that one count tells apart
)

// count counts the pods of one group, or its attempts, and their marks by owner. Its size is bounded.
type count struct {
	pods  int
	of    map[uint64]int // pods by owner
	marks map[mark]int
}

func (c *count) add(owner uint64, n int) {
	if c.of == nil {
		c.of = map[uint64]int{}
	}
	if _, has := c.of[owner]; !has && len(c.of) >= mostOwners {
		owner = others
	}
	c.pods += n
	c.of[owner] += n
}

func (c *count) mark(m mark, n int) {
	if c.marks == nil {
		c.marks = map[mark]int{}
	}
	if _, has := c.marks[m]; !has && len(c.marks) >= mostOwners {
		m.owner = others
	}
	c.marks[m] += n
}

// take adds o.
func (c *count) take(o count) {
	for owner, n := range o.of {
		c.add(owner, n)
	}
	for m, n := range o.marks {
		c.mark(m, n)
	}
}

// block counts both groups over the same time. Index 0 is the canary, 1 the rest.
type block struct {
	groups [2]count
	size   int // it holds about blockPods << size pods of the canary
}

const (
	blockPods = 50 // pods of the canary in the smallest block
	// The oldest block is forgotten when the others have so many pods of the canary and of the rest, or farBack pods
	// of the canary.
	enoughCanary = 1000
	enoughRest   = 300
	farBack      = 20_000
	// mostSpans is no less than the number of blocks: two to three of each size, and the newest.
	mostSpans = 28
)

// history holds the latest pods of both groups in blocks, the newest last. Older blocks are larger, each covers the same
// time for both groups, and there are at most mostSpans.
type history struct {
	blocks []block
	owners [2]ownersSeen // in all blocks since the process began
}

// ownersSeen remembers whether a group has had more than one owner.
type ownersSeen struct {
	first uint64
	any   bool
	many  bool
}

func (s *ownersSeen) see(owner uint64) {
	if !s.any {
		s.first, s.any = owner, true
	}
	s.many = s.many || owner != s.first
}

// newest returns the counts of the newest block.
func (h *history) newest() *[2]count {
	if len(h.blocks) == 0 {
		h.blocks = append(h.blocks, block{})
	}
	return &h.blocks[len(h.blocks)-1].groups
}

// pod counts a pod, or an attempt.
func (h *history) pod(group int, owner uint64) {
	if h.newest()[0].pods >= blockPods {
		h.blocks = append(h.blocks, block{})
		h.merge()
		h.forget()
	}
	h.owners[group].see(owner)
	h.newest()[group].add(owner, 1)
}

// merge joins the two oldest of more than three blocks of a size, from the smallest size on. The newest block is not full
// and counts for none.
func (h *history) merge() {
	for size := 0; ; size++ {
		first, n := -1, 0
		for i, b := range h.blocks[:len(h.blocks)-1] {
			if b.size == size {
				if n++; first < 0 {
					first = i
				}
			}
		}
		if n <= 3 {
			return
		}
		into := &h.blocks[first]
		into.size++
		for g := range into.groups {
			into.groups[g].take(h.blocks[first+1].groups[g])
		}
		h.blocks = append(h.blocks[:first+1], h.blocks[first+2:]...)
	}
}

func (h *history) forget() {
	canary, rest := 0, 0
	for i := len(h.blocks) - 1; i > 0; i-- {
		canary += h.blocks[i].groups[0].pods
		rest += h.blocks[i].groups[1].pods
		if canary >= enoughCanary && rest >= enoughRest || canary >= farBack {
			h.blocks = append([]block(nil), h.blocks[i:]...)
			return
		}
	}
}

// span counts both groups over the newest blocks.
type span struct {
	pods  [2]int
	marks [2]map[mark]int
	h     *history
	from  int // index of its oldest block
}

// spans calls yield with ever longer spans, each of which ends now, until yield returns false. A span is valid until the
// next call.
func (h *history) spans(yield func(*span) bool) {
	s := &span{h: h, marks: [2]map[mark]int{{}, {}}}
	for s.from = len(h.blocks) - 1; s.from >= 0; s.from-- {
		for g, c := range h.blocks[s.from].groups {
			s.pods[g] += c.pods
			for m, n := range c.marks {
				s.marks[g][m] += n
			}
		}
		if !yield(s) {
			return
		}
	}
}

// sample is a number of pods, or attempts, and how many of them have certain marks.
type sample struct{ n, hits float64 }

// sample counts a group's pods and those with marks that are hits. Lost pods may have been bound before the span, so there
// are at least as many pods as hits.
func (s *span) sample(group int, hit func(level int) bool) sample {
	hits := 0
	for m, n := range s.marks[group] {
		if hit(m.level) {
			hits += n
		}
	}
	return sample{n: float64(max(s.pods[group], hits)), hits: float64(hits)}
}

// withoutWorst is sample without the owner that has the most hits. The only owner that a group ever had is not left out
// once the group has alone pods.
func (s *span) withoutWorst(group int, hit func(level int) bool) sample {
	by, all := map[uint64]int{}, s.sample(group, hit)
	for m, n := range s.marks[group] {
		if hit(m.level) {
			by[m.owner] += n
		}
	}
	if seen := s.h.owners[group]; !seen.many && s.h.pods(group) >= alone {
		return all
	}
	worst, has := uint64(others), 0
	for owner, n := range by {
		if owner != others && (n > has || n == has && owner < worst) {
			worst, has = owner, n
		}
	}
	if has == 0 {
		return all
	}
	pods := each.Sum(s.h.blocks[s.from:], func(b block) int { return b.groups[group].of[worst] })
	hits := all.hits - float64(has)
	return sample{n: max(all.n-float64(max(pods, has)), hits), hits: hits}
}

// pods counts all pods of a group in the history.
func (h *history) pods(group int) int {
	return each.Sum(h.blocks, func(b block) int { return b.groups[group].pods })
}
