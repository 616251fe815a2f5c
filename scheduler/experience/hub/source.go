package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"gnnsched/internal/bus"
	"gnnsched/scheduler/experience"
)

// Source has the steps of all schedulers of a hub, those of one life of an actor in the order of their numbers and each once. It ends when
// its context does. While the server is away it waits; one that refuses this process is an error. Not safe for concurrent use.
type Source struct {
	hub    *Hub
	ctx    context.Context
	accept func(experience.Step) error
	note   func(string)

	cursor   uint64 // number in the stream of the message taken last
	consumer jetstream.Consumer
	taken    uint64 // messages of this consumer
	waiting  []jetstream.Msg
	lives    map[life]uint64 // number of the step taken last
	refused  refusals
}

// life is one life of an actor.
type life struct {
	actor string
	epoch uint64
}

const (
	ahead    = 16   // messages in memory
	maxLives = 4096 // over that, all are forgotten: a hostile actor must not fill the memory
)

// Source returns the steps from the first that the hub still has, until ctx ends. accept refuses steps of another network. note takes lines
// for the log.
func (h *Hub) Source(ctx context.Context, accept func(experience.Step) error, note func(string)) *Source {
	return &Source{hub: h, ctx: ctx, accept: accept, note: note, lives: map[life]uint64{}}
}

// Cursor implements experience.Bookmark.
func (s *Source) Cursor() uint64 { return s.cursor }

// From implements experience.Bookmark.
func (s *Source) From(cursor uint64) { s.cursor, s.consumer, s.waiting = cursor, nil, nil }

// Next implements experience.Source. Steps that no scheduler of this release would send, or that were there before, are left out.
func (s *Source) Next() (experience.Step, error) {
	said := ""
	for s.ctx.Err() == nil {
		if len(s.waiting) == 0 {
			if err := s.hub.closed(); err != nil {
				return experience.Step{}, err
			}
			if err := s.fill(); err != nil && s.ctx.Err() == nil {
				if said != err.Error() {
					said = err.Error()
					s.note("no steps come: " + said)
				}
				s.consumer = nil
				bus.Pause(s.ctx, again)
				s.hub.renew(s.ctx)
			}
			continue
		}
		m := s.waiting[0]
		s.waiting = s.waiting[1:]
		if step, use := s.read(m); use {
			return step, nil
		}
	}
	return experience.Step{}, io.EOF
}

// again is the time before another try.
const again = 500 * time.Millisecond

// fill waits for further messages for a while.
func (s *Source) fill() error {
	if s.consumer == nil {
		if err := s.open(); err != nil {
			return err
		}
	}
	batch, err := s.consumer.Fetch(ahead, jetstream.FetchMaxWait(2*time.Second))
	if err != nil {
		return err
	}
	for m := range batch.Messages() {
		s.waiting = append(s.waiting, m)
	}
	if err := batch.Error(); err != nil {
		return err
	}
	if len(s.waiting) == 0 {
		s.consumer = nil // a server that has forgotten its steps gives old numbers to new ones
	}
	return nil
}

// open begins behind the cursor, or with the first step if the server has forgotten those up to there.
func (s *Source) open() error {
	ctx, cancel := bus.Soon(s.ctx)
	defer cancel()
	info, err := s.hub.steps.Info(ctx)
	if err != nil {
		return err
	}
	if info.State.LastSeq < s.cursor {
		s.cursor = 0
	}
	s.taken = 0
	s.consumer, err = s.hub.steps.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: stepPrefix + s.hub.network, AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: s.cursor + 1, InactiveThreshold: time.Minute, MemoryStorage: true,
	})
	return err
}

// read decodes a message, and reports whether the trainer gets the step.
func (s *Source) read(m jetstream.Msg) (step experience.Step, use bool) {
	meta, err := m.Metadata()
	if err != nil {
		return step, false
	}
	if s.taken++; meta.Sequence.Consumer != s.taken { // messages were lost on their way
		s.consumer, s.waiting = nil, nil
		return step, false
	}
	s.cursor = meta.Sequence.Stream
	if step, err = decode(m.Data()); err == nil {
		err = s.accept(step)
	}
	if err != nil {
		s.refused.add(s.note, "steps", err)
		return step, false
	}
	of := life{step.Actor, step.Epoch}
	if last, known := s.lives[of]; known && step.Number <= last {
		return step, false
	}
	if len(s.lives) >= maxLives {
		clear(s.lives)
	}
	s.lives[of] = step.Number
	return step, true
}

// decode reads the message of one step.
func decode(data []byte) (experience.Step, error) {
	r, err := experience.NewReader(bytes.NewReader(data))
	if err != nil {
		return experience.Step{}, err
	}
	step, err := r.Next()
	if err == nil {
		if _, more := r.Next(); !errors.Is(more, io.EOF) {
			err = errors.New("a message with more than one step")
		}
	}
	return step, err
}
