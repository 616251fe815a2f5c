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
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
)

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
