package soak

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// churn creates and deletes pods. It keeps about the configured number of pods alive, and creates no more while a quarter of them wait for
// a node, so that its speed follows the schedulers'.
type churn struct {
	soak *soak

	mu     sync.Mutex
	number int      // of the next pod
	alive  []string // pods that were created and not yet deleted
}

// workers is the number of requests at a time.
const workers = 8

// run creates and deletes pods until enough is done. Running requests end only with ctx, because the result of an aborted request is
// unknown.
func (c *churn) run(ctx, enough context.Context) {
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(c.soak.config.Seed, uint64(1000+i)))
			for enough.Err() == nil {
				c.step(ctx, r)
			}
		})
	}
	all.Wait()
}

// step creates or deletes one pod.
func (c *churn) step(ctx context.Context, r *rand.Rand) {
	now := c.soak.book.census()
	most := c.soak.config.Pods
	switch {
	case now.live < most && now.waiting < max(most/4, workers):
		c.create(ctx, r)
	case !c.deleteOne(ctx, r):
		pause(ctx, 20*time.Millisecond)
	}
}

// create creates a pod, and tries again until the API server accepts it or ctx ends.
func (c *churn) create(ctx context.Context, r *rand.Rand) {
	c.mu.Lock()
	c.number++
	number := c.number
	c.mu.Unlock()
	p := newPod(r, number, profileNames[r.IntN(len(profileNames))])
	for ctx.Err() == nil {
		_, err := c.soak.client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) { // the answer of the first try was lost
			c.soak.book.accepted(p.Name)
			c.mu.Lock()
			c.alive = append(c.alive, p.Name)
			c.mu.Unlock()
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// deleteOne deletes a random pod, rarely a waiting one. It reports whether it did.
func (c *churn) deleteOne(ctx context.Context, r *rand.Rand) bool {
	c.mu.Lock()
	if len(c.alive) == 0 {
		c.mu.Unlock()
		return false
	}
	i := r.IntN(len(c.alive))
	name := c.alive[i]
	state := c.soak.book.state(name)
	if state == waiting && r.IntN(20) > 0 || state == absent && c.soak.book.expects(name) {
		c.mu.Unlock()
		return false
	}
	c.alive[i] = c.alive[len(c.alive)-1]
	c.alive = c.alive[:len(c.alive)-1]
	c.mu.Unlock()
	if state == absent || state == leaving {
		return true
	}
	c.soak.deletePod(ctx, name, r.IntN(2) == 0)
	return true
}

// deletePod deletes a pod, and tries again until the API server has done so or ctx ends.
func (s *soak) deletePod(ctx context.Context, name string, gracefully bool) {
	var o metav1.DeleteOptions
	if !gracefully {
		o.GracePeriodSeconds = new(int64)
	}
	s.book.deleting(name)
	for ctx.Err() == nil {
		err := s.client.CoreV1().Pods(namespace).Delete(ctx, name, o)
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		pause(ctx, 100*time.Millisecond)
	}
}
