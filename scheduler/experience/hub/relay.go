package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/bus"
	"gnnsched/scheduler/experience"
)

// Relay stands between a scheduler and a trainer elsewhere. It behaves like the scheduler's own trainer: steps come in from a stream,
// networks go into the scheduler's file, and reports go to an output.
type Relay struct {
	Hub  *Hub
	Save func(*checkpoint.Checkpoint) error // writes the scheduler's file
	Say  func(line string)                  // takes reports, and lines for the log; called by one goroutine at a time

	say     sync.Mutex
	refused refusals // networks
}

// patience is the time that a step may wait for the server. Then this step is lost, with all others until the server is back, because a
// scheduler that ends waits for its relay.
var patience = 5 * time.Second

// Run relays until the source ends, or ctx does, or the server has ended the connection for good. A read of the source may go on after it.
func (r *Relay) Run(outer context.Context, from experience.Source) error {
	ctx, stop := context.WithCancelCause(outer)
	var refused refusals
	reports, err := r.Hub.nc.Subscribe(reportPrefix+r.Hub.network, func(m *nats.Msg) {
		if report, ok := experience.ParseReport(string(m.Data)); ok {
			r.tell(report.Line())
		} else {
			refused.add(r.tell, "reports", oneLine(m.Data))
		}
	})
	if err != nil {
		stop(nil)
		return err
	}
	var networks sync.WaitGroup
	networks.Go(func() { stop(r.follow(ctx)) })
	defer func() {
		_ = reports.Unsubscribe()
		stop(nil)
		networks.Wait()
	}()
	read := make(chan error, 1)
	go func() { read <- r.send(ctx, from) }()
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		if outer.Err() == nil {
			return context.Cause(ctx)
		}
		return nil
	}
}

// send publishes the steps of a source.
func (r *Relay) send(ctx context.Context, from experience.Source) error {
	for lost := 0; ; {
		s, err := from.Next()
		if err == io.EOF || ctx.Err() != nil { //nolint:errorlint // the bare one is the good end
			return nil
		}
		if err != nil {
			return err
		}
		if lost > 0 && !r.Hub.nc.IsConnected() {
			lost++
			continue
		}
		switch err := r.Hub.offer(ctx, s); {
		case err != nil && lost == 0:
			r.tell(fmt.Sprintf("a step is lost: %v", err))
			fallthrough
		case err != nil:
			lost++
		case lost > 0:
			r.tell(fmt.Sprintf("steps arrive again; %d are lost", lost))
			lost = 0
		}
	}
}

func (r *Relay) tell(line string) {
	r.say.Lock()
	defer r.say.Unlock()
	r.Say(line)
}

// offer publishes a step. One after another, or a step that is tried again would come after the next.
func (h *Hub) offer(ctx context.Context, s experience.Step) error {
	var data bytes.Buffer
	w, err := experience.NewWriter(&data)
	if err == nil {
		err = w.Write(s)
	}
	if err != nil {
		return err
	}
	if most := h.nc.MaxPayload(); int64(data.Len()) > most {
		return fmt.Errorf("it has %d bytes, and the server's max_payload is %d", data.Len(), most)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m := &nats.Msg{Subject: stepPrefix + h.network, Data: data.Bytes(), Header: nats.Header{}}
	// The server drops a step that comes twice within two minutes, and a Source all others.
	m.Header.Set(nats.MsgIdHdr, s.Actor+"/"+strconv.FormatUint(s.Epoch, 16)+"/"+strconv.FormatUint(s.Number, 10))
	_, err = h.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(20))
	return err
}

// follow saves the trainer's network, and each one that comes later, until ctx or the connection ends.
func (r *Relay) follow(ctx context.Context) error {
	for said := ""; ctx.Err() == nil; {
		if err := r.Hub.closed(); err != nil {
			return err
		}
		err := r.watch(ctx)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			r.tell("networks of the trainer do not come: " + said)
		}
		bus.Pause(ctx, again)
		r.Hub.renew(ctx)
	}
	return nil
}

func (r *Relay) watch(ctx context.Context) error {
	short, cancel := bus.Soon(ctx)
	defer cancel()
	watcher, err := r.Hub.networks.Watch(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = watcher.Stop() }()
	if _, err := r.Hub.networks.GetInfo(short, r.Hub.network); errors.Is(err, jetstream.ErrObjectNotFound) {
		r.tell("no trainer has published a network yet that began with this one; start gnntrain --online --experience with the same file")
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case info, open := <-watcher.Updates():
			if !open {
				return errors.New("the server ended the watch")
			}
			if info == nil || info.Name != r.Hub.network || info.Deleted {
				continue // nil: these were those of before
			}
			if err := r.land(ctx, info); err != nil {
				r.refused.add(r.tell, "networks of the trainer", err)
			}
		}
	}
}

// land fetches a network and saves it, if it can be the scheduler's. The scheduler tries it, as any file, before it uses it.
func (r *Relay) land(ctx context.Context, info *jetstream.ObjectInfo) error {
	if info.Size > maxNetwork {
		return fmt.Errorf("it has %d bytes; the limit is %d", info.Size, maxNetwork)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	data, err := r.Hub.networks.GetBytes(ctx, info.Name)
	if err != nil {
		return err
	}
	c, err := checkpoint.Read(bytes.NewReader(data))
	if err == nil {
		err = c.Validate()
	}
	if err == nil && name(c) != r.Hub.network {
		err = errors.New("it did not begin with the network of this scheduler")
	}
	if err != nil {
		return err
	}
	return r.Save(c)
}
