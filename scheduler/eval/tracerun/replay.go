package tracerun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"gnnsched/workload"
	"gnnsched/workload/driver"
	"gnnsched/workload/trace/openb"
)

// replay makes the pods of one seed come and go on a cluster, with one scheduler profile. Pods are known by their number: first the pods
// that run at the start, then the arrivals.
type replay struct {
	client   kubernetes.Interface
	log      *podLog
	profile  string // name of the scheduler
	pods     []openb.Pod
	drawn    openb.Steady
	gpus     driver.GPURequests
	speed    float64 // seconds of the trace in one second
	prefix   string  // of the pods' names
	progress func(done float64, text string)

	start time.Time   // of the trace's time 0
	leave []departure // of pods that run, the next one first
	due   []time.Time // when the arrivals were due
}

// departure is the end of a pod's lifetime.
type departure struct {
	at   time.Time
	name string
}

func (p *replay) name(i int) string { return p.prefix + strconv.Itoa(i) }

// of returns a pod by its number.
func (p *replay) of(i int) openb.SteadyPod {
	if i < len(p.drawn.Running) {
		return p.drawn.Running[i]
	}
	return p.drawn.Arriving[i-len(p.drawn.Running)]
}

// create creates a pod.
func (p *replay) create(ctx context.Context, i int) error {
	c, d := p.deployment(i)
	return c.CreatePods(ctx, d, 1)
}

// deployment is a pod as the driver creates it.
func (p *replay) deployment(i int) (driver.Config, workload.Deployment) {
	c := driver.Config{
		Client: p.client, SchedulerName: p.profile, Namespace: steadyNamespace, RunID: strings.TrimSuffix(p.prefix, "-"),
		Image: driver.DefaultImage, GPUs: p.gpus,
	}
	return c, workload.Deployment{Name: p.name(i), Replicas: 1, Shape: p.pods[p.of(i).Pod].Shape()}
}

// createClaims creates the claims of all pods. A scheduler that saw a pod before its claim would take later pods first.
func (p *replay) createClaims(ctx context.Context) error {
	for i := range p.total() {
		c, d := p.deployment(i)
		if err := c.CreateClaims(ctx, d, 1); err != nil {
			return err
		}
	}
	return nil
}

// total is the number of pods.
func (p *replay) total() int { return len(p.drawn.Running) + len(p.drawn.Arriving) }

// fill places the pods that run at the start, one after another, and calls placed. Pods that fit nowhere are rejected.
func (p *replay) fill(ctx context.Context, placed func() error) error {
	p.progress(0, "placing the pods that run at the start")
	if err := p.createClaims(ctx); err != nil {
		return err
	}
	for i := range p.drawn.Running {
		if err := p.create(ctx, i); err != nil {
			return err
		}
	}
	err := p.wait(ctx, "the scheduler decided on no pod", func() (bool, int) {
		seen, _, pending := p.log.counts()
		return seen == len(p.drawn.Running) && pending == 0, seen - pending
	})
	if err != nil {
		return err
	}
	if err := placed(); err != nil {
		return err
	}
	if err := p.remove(ctx, "spec.nodeName="); err != nil {
		return err
	}
	return p.wait(ctx, "the pods that were rejected do not leave", func() (bool, int) {
		waiting := p.log.waiting()
		return waiting == 0, -waiting
	})
}

// play lets the trace run until the given second. It returns the trace's time at the end, also after an error.
func (p *replay) play(ctx context.Context, until float64) (end float64, err error) {
	p.start = time.Now()
	for i, pod := range p.drawn.Running {
		if s := p.log.seenOf(p.name(i)); s != nil && !s.bound.IsZero() && s.left.IsZero() {
			p.leaveAt(departure{p.at(pod.Lifetime), p.name(i)})
		}
	}
	stop := p.at(until)
	for next := 0; ; {
		for name, bound := range p.log.takeBound() {
			if i, _ := strconv.Atoi(strings.TrimPrefix(name, p.prefix)); i >= len(p.drawn.Running) { // a name of p.name
				p.leaveAt(departure{bound.Add(seconds(p.of(i).Lifetime / p.speed)), name})
			}
		}
		due := stop
		arrives := next < len(p.drawn.Arriving) && p.at(p.drawn.Arriving[next].At).Before(due)
		if arrives {
			due = p.at(p.drawn.Arriving[next].At)
		}
		leaves := len(p.leave) > 0 && p.leave[0].at.Before(due)
		if leaves {
			due = p.leave[0].at
		}
		waited, err := p.sleep(ctx, time.Until(due))
		if err == nil && !time.Now().Before(stop) {
			return until, nil // later events do not count
		}
		switch {
		case err != nil:
			return p.time(time.Now()), err
		case waited: // a pod may have got a node since then
		case leaves:
			if err = p.delete(ctx, p.leave[0].name); err == nil {
				p.leave = p.leave[1:]
			}
		case arrives:
			p.due = append(p.due, due)
			if err = p.create(ctx, len(p.drawn.Running)+next); err == nil {
				next++
			}
		}
		if err != nil {
			return p.time(time.Now()), err
		}
		p.report(until)
	}
}

// sleep waits for a time or until something changes. It reports whether it waited.
func (p *replay) sleep(ctx context.Context, d time.Duration) (waited bool, err error) {
	if err := ctx.Err(); err != nil || d <= 0 {
		return false, err
	}
	timer := time.NewTimer(min(d, time.Second))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-timer.C:
	case <-p.log.changed:
	}
	return true, nil
}

func (p *replay) report(until float64) {
	now := p.time(time.Now())
	seen, existing, _ := p.log.counts()
	p.progress(min(now/until, 1), fmt.Sprintf("%.1f of %.1f hours of the trace, %d pods came, %d exist", now/3600, until/3600, seen, existing))
}

// at returns the time at which a time of the trace is.
func (p *replay) at(t float64) time.Time { return p.start.Add(seconds(t / p.speed)) }

// time is the inverse of at.
func (p *replay) time(t time.Time) float64 { return t.Sub(p.start).Seconds() * p.speed }

// leaveAt notes a departure.
func (p *replay) leaveAt(d departure) {
	i, _ := slices.BinarySearchFunc(p.leave, d, func(a, b departure) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.name, b.name))
	})
	p.leave = slices.Insert(p.leave, i, d)
}

// delete deletes a pod without grace period.
func (p *replay) delete(ctx context.Context, name string) error {
	err := p.client.CoreV1().Pods(steadyNamespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s: %w", name, err)
	}
	return nil
}

// remove deletes the pods with these fields without grace period.
func (p *replay) remove(ctx context.Context, fields string) error {
	err := p.client.CoreV1().Pods(steadyNamespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)},
		metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return fmt.Errorf("delete the pods: %w", err)
	}
	return nil
}

// clear deletes all pods, waiting pods first: otherwise they would get the others' room.
func (p *replay) clear(ctx context.Context) error {
	for _, fields := range []string{"spec.nodeName=", ""} {
		if err := p.remove(ctx, fields); err != nil {
			return err
		}
	}
	err := p.wait(ctx, "the pods do not leave", func() (bool, int) {
		_, existing, _ := p.log.counts()
		return existing == 0, -existing
	})
	if err != nil {
		return err
	}
	p.log.reset()
	return p.clearClaims(ctx)
}

// clearClaims deletes all claims, and waits until they have freed their devices.
func (p *replay) clearClaims(ctx context.Context) error {
	api := p.client.ResourceV1().ResourceClaims(steadyNamespace)
	if err := api.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the resource claims: %w", err)
	}
	var failed error
	err := p.wait(ctx, "the resource claims do not leave", func() (bool, int) {
		list, err := api.List(ctx, metav1.ListOptions{})
		if err != nil {
			failed = err
			return true, 0
		}
		return len(list.Items) == 0, -len(list.Items)
	})
	return errors.Join(err, failed)
}

// wait waits until done, at most for patience without progress.
func (p *replay) wait(ctx context.Context, trouble string, check func() (done bool, progress int)) error {
	last, since := 0, time.Now()
	for {
		done, progress := check()
		switch {
		case done:
			return nil
		case progress != last:
			last, since = progress, time.Now()
		case time.Since(since) > patience:
			return fmt.Errorf("%s for %v", trouble, patience)
		}
		if _, err := p.sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}
