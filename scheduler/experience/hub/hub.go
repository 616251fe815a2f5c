// Package hub is where several schedulers and one trainer meet: a server of NATS with JetStream.
//
// A scheduler's Relay publishes its steps, and gets the trainer's networks and reports. The trainer reads the steps of all schedulers from
// a Source, and a Trainer's Publish hands its networks out. All are about one network, named by its origin: the network that online
// learning began with, on every side.
//
// The hub never holds the only copy of anything that matters for long: networks are files, and a trainer's state file has the place in the
// steps from which the next one continues. The steps of the last hour stay, at most maxSteps bytes of them; older ones give way.
package hub

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"gnnsched/gnn/checkpoint"
	"gnnsched/internal/bus"
)

// Hub is a connection about one network.
type Hub struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	steps    jetstream.Stream      // gnnsched.step.NETWORK
	networks jetstream.ObjectStore // of each origin the latest network, and who trains it
	network  string                // its origin
}

const (
	stepStream   = "gnnsched-steps"
	stepPrefix   = "gnnsched.step."
	reportPrefix = "gnnsched.report."

	maxSteps   = 256 << 20 // bytes of all steps
	keepSteps  = time.Hour
	maxNetwork = 64 << 20 // bytes of a network
)

// Open connects to the hub of a network at a URL.
func Open(ctx context.Context, url string, c *checkpoint.Checkpoint, options ...nats.Option) (*Hub, error) {
	h := &Hub{network: name(c)}
	_, err := bus.Connect(ctx, url, h.prepare, options...)
	return h, err
}

func (h *Hub) prepare(ctx context.Context, nc *nats.Conn) (err error) {
	h.nc = nc
	if h.js, err = jetstream.New(nc); err != nil {
		return err
	}
	h.steps, h.networks, err = h.stores(ctx)
	return err
}

// stores creates what is missing at the server.
func (h *Hub) stores(ctx context.Context) (steps jetstream.Stream, networks jetstream.ObjectStore, err error) {
	steps, err = bus.Stream(ctx, h.js, jetstream.StreamConfig{
		Name: stepStream, Subjects: []string{stepPrefix + "*"}, MaxBytes: maxSteps, MaxAge: keepSteps, Discard: jetstream.DiscardOld,
	})
	if err == nil {
		networks, err = bus.Objects(ctx, h.js, jetstream.ObjectStoreConfig{Bucket: "gnnsched-networks", MaxBytes: 4 * maxNetwork})
	}
	return steps, networks, err
}

// renew creates what a server has forgotten, after an error. If it does not answer, another try comes.
func (h *Hub) renew(ctx context.Context) {
	ctx, cancel := bus.Soon(ctx)
	defer cancel()
	_, _, _ = h.stores(ctx)
}

// closed returns an error after the server has refused to let this process in again. A new process may have other credentials.
func (h *Hub) closed() error {
	if !h.nc.IsClosed() {
		return nil
	}
	return fmt.Errorf("the server has ended the connection: %w", h.nc.LastError())
}

// Close ends the connection.
func (h *Hub) Close() { h.nc.Close() }

// report publishes a line of the trainer for the schedulers. Those that are not connected miss it.
func (h *Hub) report(line string) error { return h.nc.Publish(reportPrefix+h.network, []byte(line)) }

// refusals counts what is refused, and says so after the 1st, 2nd, 4th, 8th …: a hostile peer must not fill a log.
type refusals int

func (n *refusals) add(say func(line string), what string, last any) {
	if *n++; *n&(*n-1) == 0 {
		say(fmt.Sprintf("%d %s were refused; the last: %v", *n, what, last))
	}
}

// oneLine cuts what came over the network to one line that a log and a terminal can take.
func oneLine(data []byte) string {
	const longest = 4000
	line := strings.Join(strings.Fields(string(data[:min(len(data), longest)])), " ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, line)
}

// name returns the name of a network at a hub.
func name(c *checkpoint.Checkpoint) string { return fmt.Sprintf("%014x", uint64(c.Origin())) }
