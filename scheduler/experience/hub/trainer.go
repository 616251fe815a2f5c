package hub

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/bus"
	"gnnsched/scheduler/experience"
)

// Trainer is the one trainer of a hub's network.
type Trainer struct {
	hub  *Hub
	name string
}

// ErrReplaced says that another trainer has begun to train the same network at the same hub.
var ErrReplaced = errors.New("another trainer of this network has begun")

// Train makes this process the trainer. One that was it before can publish no more.
func (h *Hub) Train(ctx context.Context) (*Trainer, error) {
	ctx, cancel := bus.Soon(ctx)
	defer cancel()
	t := &Trainer{hub: h, name: rand.Text()}
	return t, t.sign(ctx)
}

// Publish hands out a network. It fails with ErrReplaced after another trainer began.
func (t *Trainer) Publish(ctx context.Context, c *checkpoint.Checkpoint) error {
	var data bytes.Buffer
	if err := c.Write(&data); err != nil {
		return err
	}
	if data.Len() > maxNetwork {
		return fmt.Errorf("the network has %d bytes; the limit is %d", data.Len(), maxNetwork)
	}
	ctx, cancel := bus.Soon(ctx)
	defer cancel()
	if err := t.still(ctx); err != nil {
		return err
	}
	_, err := t.hub.networks.PutBytes(ctx, t.hub.network, data.Bytes())
	return err
}

// still checks that this is the trainer, also for a server that has forgotten it.
func (t *Trainer) still(ctx context.Context) error {
	name, err := t.hub.networks.GetString(ctx, t.hub.network+trainerSuffix)
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return t.sign(ctx)
	case err == nil && name != t.name:
		return ErrReplaced
	}
	return err
}

// trainerSuffix ends the name of the object that says who trains a network.
const trainerSuffix = ".trainer"

func (t *Trainer) sign(ctx context.Context) error {
	_, err := t.hub.networks.PutString(ctx, t.hub.network+trainerSuffix, t.name)
	return err
}

// Report tells the schedulers how learning goes.
func (t *Trainer) Report(r experience.Report) error { return t.hub.report(r.Line()) }
