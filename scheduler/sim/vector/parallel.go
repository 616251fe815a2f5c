package vector

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// job is one pass over all environments. Whoever works on it takes blocks of environments until none is left.
type job struct {
	task  func(v *Vector, i int) error
	v     *Vector
	n     int64 // environments
	block int64
	next  atomic.Int64 // first environment that nobody has taken
	done  atomic.Int64 // environments that are finished
	ended chan struct{}

	mu  sync.Mutex
	at  int // of err
	err error
}

// spins is how often the caller looks whether the others are done before it sleeps. A caller from C is bound to a thread, so
// sleeping and waking cost it several switches of threads.
const spins = 20_000

// each calls task for every environment, on several processors, and returns the error of the first environment that has one.
// The caller works too. It waits for the blocks that others took, and not for helpers that came too late to take one.
func (v *Vector) each(task func(v *Vector, i int) error) error {
	n := int64(len(v.worlds))
	helpers := min(int64(v.options.Threads), n) - 1
	j := &job{task: task, v: v, n: n, block: max(1, n/(8*(helpers+1))), ended: make(chan struct{}, 1)}
	for range helpers {
		go j.work()
	}
	j.work()
	for i := 0; j.done.Load() < n; i++ {
		if i > spins {
			<-j.ended
			break
		}
		if i%1000 == 999 {
			runtime.Gosched()
		}
	}
	return j.err
}

func (j *job) work() {
	for {
		to := j.next.Add(j.block)
		from := to - j.block
		if from >= j.n {
			return
		}
		to = min(to, j.n)
		for i := from; i < to; i++ {
			if err := j.one(int(i)); err != nil {
				j.fail(int(i), err)
			}
		}
		if j.done.Add(to-from) == j.n {
			j.ended <- struct{}{}
		}
	}
}

// one runs the task for an environment. A panic is an error too: it would end the caller's process.
func (j *job) one(i int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			j.v.worlds[i].seeded = false
			err = fmt.Errorf("a fault of the simulator: %v", p)
		}
	}()
	return j.task(j.v, i)
}

func (j *job) fail(i int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil || i < j.at {
		j.at, j.err = i, fmt.Errorf("environment %d: %w", i, err)
	}
}
