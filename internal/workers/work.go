package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"gnnsched/internal/metric"
)

// Worker computes units of its own build.
type Worker struct {
	Queue   *Queue
	Name    string        // of this process, in results and messages
	Slots   int           // units at a time
	Command []string      // starts a child, which calls Child; the folder of the data is added
	Limit   time.Duration // of one unit
	Grace   time.Duration // how long units may go on after the worker is told to end
	Idle    time.Duration // without a unit, after which Run ends; 0: never
	Log     zerolog.Logger

	files   fileCache
	busy    atomic.Int32
	ended   atomic.Int64 // when the last unit ended, in nanoseconds
	refused atomic.Int64 // messages
}

var (
	measured  metric.Set
	computed  = measured.Counters("work_units_total", "Units of work that were computed, by result.", "result")
	busySlots = measured.Gauge("work_busy_slots", "Units of work that are being computed.")
)

// Run works until ctx ends. Then it takes no new units, and gives those that do not end within the grace to others at once.
func (w *Worker) Run(ctx context.Context) error {
	dir, remove, err := folder()
	if err != nil {
		return fmt.Errorf("folder for data: %w", err)
	}
	defer remove()
	w.files = fileCache{dir: dir, get: w.Queue.get, used: map[string]int{}}
	measured.Register()
	answering, err := micro.AddService(w.Queue.nc, micro.Config{
		Name: service, Version: "1.0.0", Metadata: map[string]string{"build": w.Queue.build, "worker": w.Name, "slots": strconv.Itoa(w.Slots)},
	})
	if err != nil {
		return err
	}
	defer answering.Stop()
	ctx, rest := context.WithCancel(ctx)
	defer rest()
	if w.ended.Store(time.Now().UnixNano()); w.Idle > 0 {
		go w.rest(ctx, rest)
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { pause(hard, w.Grace); cancel() })()
	var slots sync.WaitGroup
	for range w.Slots {
		slots.Go(func() { w.slot(ctx, hard) })
	}
	slots.Go(func() { w.lookAround(ctx) })
	slots.Wait()
	if w.Queue.nc.IsClosed() && ctx.Err() == nil {
		return fmt.Errorf("the queue has ended the connection: %w", w.Queue.nc.LastError())
	}
	return nil
}

// rest calls end after the worker had nothing to do for a while.
func (w *Worker) rest(ctx context.Context, end func()) {
	for pause(ctx, min(w.Idle/4, time.Second)) {
		if w.busy.Load() == 0 && time.Since(time.Unix(0, w.ended.Load())) > w.Idle {
			w.Log.Info().Dur("idle", w.Idle).Msg("no units come")
			end()
		}
	}
}

// service is the name under which workers answer.
const service = "gnnsched-worker"

// slot computes one unit after another. It asks for one at a time: those that a client fetches ahead would wait for it.
func (w *Worker) slot(ctx, hard context.Context) {
	child := &child{command: slices.Concat(w.Command, []string{w.files.dir})}
	defer child.stop()
	var queue jetstream.Consumer
	for ctx.Err() == nil && !w.Queue.nc.IsClosed() {
		var err error
		if queue == nil {
			if queue, err = w.Queue.consumer(ctx); err != nil {
				queue = nil
				pause(ctx, time.Second)
				continue
			}
		}
		pull, cancel := context.WithTimeout(ctx, 5*time.Second)
		m, err := queue.Next(jetstream.FetchContext(pull))
		cancel()
		switch {
		case err == nil:
			busySlots.Inc()
			w.busy.Add(1)
			w.handle(hard, child, m)
			w.ended.Store(time.Now().UnixNano())
			w.busy.Add(-1)
			busySlots.Dec()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrNoMessages):
		default: // the server is away, or has lost the consumer
			queue = nil
			pause(ctx, 200*time.Millisecond)
		}
	}
}

// handle computes a unit, stores its result, and only then takes it off the queue. A worker that dies in between costs a second
// computation.
func (w *Worker) handle(ctx context.Context, child *child, m jetstream.Msg) {
	parts := strings.Split(m.Subject(), ".")
	run, name := parts[len(parts)-2], parts[len(parts)-1]
	u, err := decode(m.Data(), name)
	log := w.Log.With().Str("unit", u.About).Logger()
	if err != nil {
		if n := w.refused.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th …: a log must not be filled
			w.Log.Error().Err(err).Str("subject", m.Subject()).Int64("refused", n).Msg("refused a message that is no unit")
		}
		_ = m.Term()
		return
	}
	begin := time.Now()
	stop := w.hold(m)
	data, err := w.compute(ctx, child, u)
	stop()
	if ctx.Err() != nil { // at once to another worker, not after ackWait
		_ = m.Nak()
		return
	}
	took := time.Since(begin)
	if errors.Is(err, jetstream.ErrObjectNotFound) { // its run is over; one that goes on sends the data, and then the unit again
		log.Warn().Err(err).Msg("dropped a unit without its data")
		_ = m.Term()
		return
	}
	if !errors.Is(err, errAgain) {
		err = w.store(ctx, resultPrefix+run+"."+name, data, took, err)
	}
	if err != nil {
		log.Warn().Err(err).Msg("a unit is tried again")
		_ = m.NakWithDelay(time.Second)
		return
	}
	log.Info().Dur("took", took).Msg("computed")
	_ = m.DoubleAck(ctx) // if it is lost, the unit comes again and its result is refused
}

// errAgain marks what is not the unit's fault.
var errAgain = errors.New("not the unit's fault")

// hold tells the server that the unit is at work, until stop is called or its time is over.
func (w *Worker) hold(m jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithTimeout(context.Background(), w.Limit+ackWait)
	go func() {
		for pause(ctx, ackWait/3) {
			_ = m.InProgress()
		}
	}()
	return cancel
}

// compute fetches the unit's data and lets the child compute it. A unit that ends its process three times has failed.
func (w *Worker) compute(ctx context.Context, child *child, u Unit) ([]byte, error) {
	if err := w.files.take(ctx, u.Blobs); err != nil {
		return nil, fmt.Errorf("%w: data of the unit: %w", errAgain, err)
	}
	defer w.files.give(u.Blobs)
	limited, cancel := context.WithTimeoutCause(ctx, w.Limit, fmt.Errorf("it took longer than %v", w.Limit))
	defer cancel()
	var crash error
	for range attempts {
		data, err := child.compute(limited, u)
		if !errors.Is(err, errCrash) {
			return data, err
		}
		if limited.Err() != nil {
			return nil, context.Cause(limited)
		}
		crash = err
		w.Log.Warn().Err(err).Str("unit", u.About).Msg("a unit ended its process")
	}
	return nil, fmt.Errorf("given up after %d attempts: %w", attempts, crash)
}

const attempts = 3

// store stores the result of a unit, or its failure, unless there is one.
func (w *Worker) store(ctx context.Context, subject string, data []byte, took time.Duration, failed error) error {
	m := nats.NewMsg(subject)
	m.Header.Set(headerBuild, w.Queue.build)
	m.Header.Set(headerWorker, w.Name)
	m.Header.Set(headerTook, strconv.FormatInt(took.Microseconds(), 10))
	result := "done"
	switch {
	case failed != nil:
		result = "failed"
		m.Header.Set(headerFailed, strings.Join(strings.Fields(failed.Error()), " "))
	case len(data) <= maxUnit:
		m.Data = data
	default:
		blob, err := w.Queue.Put(ctx, data)
		if err != nil {
			return fmt.Errorf("store a result of %d bytes: %w", len(data), err)
		}
		m.Header.Set(headerBlob, blob)
	}
	short, cancel := soon(ctx)
	defer cancel()
	_, err := w.Queue.js.PublishMsg(short, m, absent, jetstream.WithRetryAttempts(3))
	if errors.Is(err, errExists) {
		return w.same(ctx, subject, m)
	}
	if err == nil {
		computed.WithLabelValues(result).Inc()
	}
	return err
}

// same logs an error if the result of a unit that was computed twice is another one. The first stays.
func (w *Worker) same(ctx context.Context, subject string, m *nats.Msg) error {
	ctx, cancel := soon(ctx)
	defer cancel()
	first, err := w.Queue.resultStream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return err
	}
	h := first.Header
	if h.Get(headerBuild) == w.Queue.build && h.Get(headerFailed) == "" && m.Header.Get(headerFailed) == "" &&
		(string(first.Data) != string(m.Data) || h.Get(headerBlob) != m.Header.Get(headerBlob)) {
		w.Log.Error().Str("subject", subject).Str("first",
			h.Get(headerWorker)).Msg("two workers computed different results of one unit; the first one counts")
	}
	return nil
}

// lookAround says it if units wait that are for other builds.
func (w *Worker) lookAround(ctx context.Context) {
	for said := ""; !w.Queue.nc.IsClosed() && pause(ctx, 5*time.Second); {
		short, cancel := soon(ctx)
		info, err := w.Queue.unitStream.Info(short, jetstream.WithSubjectFilter(unitPrefix+">"))
		cancel()
		if err != nil {
			continue
		}
		for subject := range info.State.Subjects {
			build, _, _ := strings.Cut(strings.TrimPrefix(subject, unitPrefix), ".")
			if build != w.Queue.build && build != said {
				said = build
				w.Log.Warn().Str("theirs", build).Str("ours", w.Queue.build).
					Msg("units wait for another build; this worker gets none of them: start the same program on the same kind of processor, " +
						"or both with --approximate")
			}
		}
	}
}
