package workers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Result holds the data of a unit, and says who computed them.
type Result struct {
	Data   []byte
	About  string // Unit.About
	Worker string // its name
	Took   time.Duration
}

// Headers of the message of a result. Its body is the data, or empty if they are a blob.
const (
	headerBuild  = "Build"
	headerWorker = "Worker"
	headerTook   = "Took" // microseconds
	headerBlob   = "Blob"
	headerFailed = "Failed" // why there are no data
)

// quiet is how long a run waits for news before it puts the missing units into the queue again.
var quiet = 5 * time.Second

// run is units that are computed.
type run struct {
	*Queue
	name    string
	units   map[string]*pending // by the units' names
	order   []string            // their names
	waiting int                 // units that have no result
}

// pending is a unit of a run.
type pending struct {
	data    []byte
	about   string
	indices []int // in the caller's list: a unit may stand there twice
	done    bool
}

// Run computes units on the workers of this build, and calls done with the results in the order in which they come, one at a time. A run
// that was broken off goes on where it was if the same units are run again. The first unit that fails ends it, as does an error of done. It
// calls waiting while no results come.
func (q *Queue) Run(ctx context.Context, units []Unit, waiting func(), done func(i int, r Result) error) error {
	r := &run{Queue: q, units: map[string]*pending{}}
	for i, u := range units {
		data, name, err := u.encode()
		if err != nil {
			return err
		}
		if r.units[name] == nil {
			r.units[name] = &pending{data: data, about: u.About}
			r.order = append(r.order, name)
		}
		r.units[name].indices = append(r.units[name].indices, i)
	}
	r.name, r.waiting = digest([]byte(q.build + strings.Join(r.order, "")))[:24], len(r.units)
	if _, err := q.consumer(ctx); err != nil {
		return fmt.Errorf("queue of units: %w", err)
	}
	defer r.clear(ctx)
	for first := true; r.waiting > 0; first = false {
		if !first {
			waiting()
		}
		if err := r.round(ctx, first, done); err != nil {
			return err
		}
	}
	return nil
}

// round reads the results of the run from the first one on, and puts units without one into the queue, until no news come. Then the server
// may have lost its last messages: it gives their numbers to new ones, which whoever was behind them never gets.
func (r *run) round(ctx context.Context, first bool, done func(int, Result) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news, err := r.news(ctx)
	wait, queued, missing := quiet, false, r.order
	if first {
		wait = r.earlier(ctx)
	} else if err == nil {
		missing, err = r.lost(ctx)
	}
	for err == nil && r.waiting > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case m := <-news:
			if err := r.accept(ctx, m, done); err != nil {
				return err
			}
		case <-time.After(wait):
			if queued {
				return nil
			}
			queued, wait = true, quiet
			err = r.enqueue(ctx, missing)
		}
	}
	if err != nil && ctx.Err() == nil { // the server is away, or the queue is full
		pause(ctx, time.Second)
		err = nil
	}
	return err
}

// earlier returns the time in which the results of an earlier run of the same units come.
func (r *run) earlier(ctx context.Context) time.Duration {
	ctx, cancel := soon(ctx)
	defer cancel()
	info, err := r.resultStream.Info(ctx, jetstream.WithSubjectFilter(resultPrefix+r.name+".*"))
	if err == nil && len(info.State.Subjects) == 0 {
		return 0
	}
	return 200 * time.Millisecond
}

// news delivers the results of the run, those that are there and those to come.
func (r *run) news(ctx context.Context) (<-chan jetstream.Msg, error) {
	short, cancel := soon(ctx)
	defer cancel()
	c, err := r.resultStream.OrderedConsumer(short, jetstream.OrderedConsumerConfig{FilterSubjects: []string{resultPrefix + r.name + ".*"}})
	if err != nil {
		return nil, err
	}
	news := make(chan jetstream.Msg)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		select {
		case news <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxBytes(16<<20))
	if err == nil {
		context.AfterFunc(ctx, consuming.Stop)
	}
	return news, err
}

// accept takes a result, unless it is of another build, of no unit of the run, or not the first.
func (r *run) accept(ctx context.Context, m jetstream.Msg, done func(int, Result) error) error {
	p := r.units[m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:]]
	h := m.Headers()
	if p == nil || p.done || h.Get(headerBuild) != r.build {
		return nil
	}
	if text := h.Get(headerFailed); text != "" {
		return r.failed(ctx, m.Subject(), fmt.Errorf("%s, on %s: %s", p.about, h.Get(headerWorker), text))
	}
	took, _ := strconv.ParseInt(h.Get(headerTook), 10, 64)
	x := Result{Data: m.Data(), About: p.about, Worker: h.Get(headerWorker), Took: time.Duration(took) * time.Microsecond}
	if blob := h.Get(headerBlob); blob != "" {
		var err error
		if x.Data, err = r.get(ctx, blob); err != nil {
			return fmt.Errorf("result of %s: %w", p.about, err)
		}
	}
	p.done = true
	r.waiting--
	for _, i := range p.indices {
		if err := done(i, x); err != nil {
			return err
		}
	}
	return nil
}

// failed forgets the failure, so that the same run may be tried again after what caused it is repaired.
func (r *run) failed(ctx context.Context, subject string, failure error) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	return errors.Join(failure, r.resultStream.Purge(ctx, jetstream.WithPurgeSubject(subject)))
}

// lost returns the units that have no result yet and are not in the queue. The results of some are still to be read.
func (r *run) lost(ctx context.Context) (out []string, err error) {
	ctx, cancel := soon(ctx)
	defer cancel()
	prefix := unitPrefix + r.build + "." + r.name + "."
	info, err := r.unitStream.Info(ctx, jetstream.WithSubjectFilter(prefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, name := range r.order {
		if _, there := info.State.Subjects[prefix+name]; !there && !r.units[name].done {
			out = append(out, name)
		}
	}
	return out, nil
}

// enqueue puts units into the queue, unless they have a result. Those that are there are refused.
func (r *run) enqueue(ctx context.Context, names []string) error {
	var under []jetstream.PubAckFuture
	settle := func(most int) error {
		for ; len(under) > most; under = under[1:] {
			select {
			case <-under[0].Ok():
			case err := <-under[0].Err():
				if !errors.Is(err, errExists) && !errors.Is(err, errBusy) {
					return err
				}
			case <-time.After(10 * time.Second):
				return errors.New("the server does not answer")
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	for _, name := range names {
		p := r.units[name]
		if p.done {
			continue
		}
		f, err := r.js.PublishMsgAsync(&nats.Msg{Subject: unitPrefix + r.build + "." + r.name + "." + name, Data: p.data}, absent)
		if err != nil {
			return err
		}
		under = append(under, f)
		if err := settle(256); err != nil {
			return err
		}
	}
	return settle(0)
}

// clear takes the units that nobody has begun out of the queue, else workers compute them in vain, and the results of a run that is
// complete.
func (r *run) clear(ctx context.Context) {
	ctx, cancel := soon(context.WithoutCancel(ctx))
	defer cancel()
	if r.waiting > 0 {
		_ = r.unitStream.Purge(ctx, jetstream.WithPurgeSubject(unitPrefix+r.build+"."+r.name+".*"))
	} else {
		_ = r.resultStream.Purge(ctx, jetstream.WithPurgeSubject(resultPrefix+r.name+".*"))
	}
}
