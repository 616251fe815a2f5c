package workers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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

// Queue is a connection to a server, with all streams in place. It is safe for concurrent use.
type Queue struct {
	nc           *nats.Conn
	js           jetstream.JetStream
	unitStream   jetstream.Stream // gnnsched.unit.BUILD.RUN.UNIT; a message disappears when its unit is done
	resultStream jetstream.Stream // gnnsched.result.RUN.UNIT; the first of a unit stays, and others are refused
	blobs        jetstream.ObjectStore
	build        string
}

const (
	unitPrefix   = "gnnsched.unit."
	resultPrefix = "gnnsched.result."
	unitsName    = "gnnsched-units" // of the stream

	maxStream = 256 << 20          // bytes of each stream, and of the blobs four times as many; the server reserves them
	keep      = 7 * 24 * time.Hour // what nobody asks for any more
)

// ackWait is the time after which the unit of a silent worker goes to another.
var ackWait = 10 * time.Second

// Connect connects to the servers at a URL, as connectNATS does, and creates what is missing.
func Connect(ctx context.Context, url string, options ...nats.Option) (*Queue, error) {
	b, err := thisBuild()
	if err != nil {
		return nil, err
	}
	q := &Queue{build: b.exact()}
	q.nc, err = connectNATS(ctx, url, func(ctx context.Context, nc *nats.Conn) error {
		q.nc = nc
		return q.prepare(ctx)
	}, options...)
	return q, err
}

// Approximate lets processes of the same program compute for each other on any processor, if they all say so. Their results may differ in
// the last digits.
func (q *Queue) Approximate(ctx context.Context) error {
	b, err := thisBuild()
	if err != nil {
		return err
	}
	q.build = b.approximate()
	return q.prepare(ctx)
}

func (q *Queue) prepare(ctx context.Context) (err error) {
	if q.js, err = jetstream.New(q.nc); err != nil {
		return err
	}
	// A full stream refuses what is new: by default it would lose what is old.
	stream := jetstream.StreamConfig{MaxBytes: maxStream, MaxAge: keep, Discard: jetstream.DiscardNew}
	stream.Name, stream.Subjects, stream.Retention = unitsName, []string{unitPrefix + ">"}, jetstream.WorkQueuePolicy
	if q.unitStream, err = Stream(ctx, q.js, stream); err != nil {
		return err
	}
	stream.Name, stream.Subjects, stream.Retention = "gnnsched-results", []string{resultPrefix + ">"}, jetstream.LimitsPolicy
	if q.resultStream, err = Stream(ctx, q.js, stream); err != nil {
		return err
	}
	q.blobs, err = objects(ctx, q.js, jetstream.ObjectStoreConfig{Bucket: "gnnsched-blobs", MaxBytes: 4 * maxStream, TTL: keep})
	return err
}

// consumer returns the queue of the units for this build.
func (q *Queue) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := soon(ctx)
	defer cancel()
	return q.unitStream.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "build-" + q.build, FilterSubject: unitPrefix + q.build + ".>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxDeliver:        -1,      // the server would leave the unit in the stream, invisible
		MaxAckPending:     100_000, // units at work; the default is 1,000
		MaxWaiting:        10_000,  // idle slots of workers; the default is 512
		InactiveThreshold: keep,
	})
}

// Put stores data under their SHA-256, unless they are there, and returns that name.
func (q *Queue) Put(ctx context.Context, data []byte) (name string, err error) {
	if name = digest(data); len(data) > maxBlob {
		return "", fmt.Errorf("data of %d bytes; the limit is %d", len(data), maxBlob)
	}
	if _, err := q.blobs.GetInfo(ctx, name); err == nil {
		return name, nil
	}
	_, err = q.blobs.PutBytes(ctx, name, data)
	return name, err
}

// get returns the data of a name. Data with another hash are an error.
func (q *Queue) get(ctx context.Context, name string) ([]byte, error) {
	var data []byte
	var err error
	for range 20 { // a replica of the server may not have them yet
		if data, err = q.blobs.GetBytes(ctx, name); !errors.Is(err, jetstream.ErrObjectNotFound) || !pause(ctx, 150*time.Millisecond) {
			break
		}
	}
	if err == nil && digest(data) != name {
		err = fmt.Errorf("the data of %s have another hash", name)
	}
	return data, err
}

// Forget removes the data of a name, which no unit needs any more.
func (q *Queue) Forget(ctx context.Context, name string) error { return q.blobs.Delete(ctx, name) }

// Close ends the connection.
func (q *Queue) Close() {
	if q.nc != nil {
		q.nc.Close()
	}
}

// absent makes a publication fail with errExists if the subject has a message. The window for equal messages' IDs would end.
var (
	absent    = jetstream.WithExpectLastSequencePerSubject(0)
	errExists = &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence}
	errBusy   = &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequenceConstant} // another one is under way, and may fail
)

// Colleague is a worker that answers at a queue.
type Colleague struct {
	Name  string
	Slots int
	Build string
}

// Workers returns the workers that answer within a time.
func (q *Queue) Workers(within time.Duration) (out []Colleague, err error) {
	inbox := nats.NewInbox()
	answers, err := q.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	subject, err := micro.ControlSubject(micro.InfoVerb, service, "")
	if err == nil {
		err = q.nc.PublishRequest(subject, inbox, nil)
	}
	for until := time.Now().Add(within); err == nil; {
		m, end := answers.NextMsg(time.Until(until))
		var info micro.Info
		if end != nil {
			return out, nil
		}
		if json.Unmarshal(m.Data, &info) == nil {
			slots, _ := strconv.Atoi(info.Metadata["slots"])
			out = append(out, Colleague{info.Metadata["worker"], slots, info.Metadata["build"]})
		}
	}
	return out, err
}

// Build returns the build whose units this process can compute.
func (q *Queue) Build() string { return q.build }

// Connected reports whether the server answers at present.
func (q *Queue) Connected() bool { return q.nc.IsConnected() }

// Unit is a deterministic task: whoever computes it gets the same bytes.
type Unit struct {
	Kind  string          `json:"kind"` // of the Handler
	Task  json.RawMessage `json:"task"`
	Blobs []string        `json:"blobs,omitempty"` // the data that the task needs, by the names that Queue.Put gave them
	About string          `json:"about"`           // for messages
}

// Limits of what a worker accepts.
const (
	maxUnit  = 512 << 10 // bytes of an encoded unit; the server refuses messages over 1 MiB
	maxBlobs = 10_000    // of a unit
	maxBlob  = 1 << 30   // bytes
)

// Handler computes the result of a task. blob returns the path of the file with the data of a name. An error is the result of the unit,
// too: another try would end in the same way.
type Handler func(ctx context.Context, task []byte, blob func(name string) (string, error)) ([]byte, error)

// encode returns the unit's message and its name, which is a hash of it.
func (u Unit) encode() (data []byte, name string, err error) {
	u.Blobs = slices.Compact(slices.Sorted(slices.Values(u.Blobs))) // equal units have equal names
	if data, err = json.Marshal(u); err != nil {
		return nil, "", err
	}
	if len(data) > maxUnit {
		return nil, "", fmt.Errorf("%s: a unit of %d bytes; the limit is %d", u.About, len(data), maxUnit)
	}
	return data, digest(data)[:32], nil
}

// decode reads the message of a unit with a name.
func decode(data []byte, name string) (u Unit, err error) {
	if err := json.Unmarshal(data, &u); err != nil {
		return u, err
	}
	switch {
	case len(data) > maxUnit || len(u.Blobs) > maxBlobs:
		return u, fmt.Errorf("a unit of %d bytes with %d blobs", len(data), len(u.Blobs))
	case digest(data)[:32] != name:
		return u, fmt.Errorf("a unit with the name of another, %s", name)
	}
	for _, b := range u.Blobs {
		if sum, err := hex.DecodeString(b); err != nil || len(sum) != sha256.Size {
			return u, fmt.Errorf("a blob with the name %q, which is no SHA-256", b)
		}
	}
	return u, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Stream returns the stream with the name of a configuration, which it makes if the server has none.
func Stream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := js.Stream(ctx, c.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		c.Replicas = copies(js)
		s, err = js.CreateStream(ctx, c)
	}
	return s, err
}

// objects returns the bucket with the name of a configuration, which it makes if the server has none.
func objects(ctx context.Context, js jetstream.JetStream, c jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error) {
	s, err := js.ObjectStore(ctx, c.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		c.Replicas = copies(js)
		s, err = js.CreateObjectStore(ctx, c)
	}
	return s, err
}

// copies returns on how many servers data lie: three if the URL names so many.
func copies(js jetstream.JetStream) int {
	if len(js.Conn().Opts.Servers) >= 3 {
		return 3
	}
	return 1
}
