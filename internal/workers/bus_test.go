package workers

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"gnnsched/internal/fatal"
)

// What is prepared is tried again over the same connection: a cluster may elect its leader after the first try.
func TestConnectPreparesAgain(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	fatal.If(t, err)
	s.Start()
	defer s.Shutdown()
	var tried []*nats.Conn
	nc, err := connectNATS(t.Context(), "nats://this-process", func(_ context.Context, nc *nats.Conn) error {
		if tried = append(tried, nc); len(tried) < 3 {
			return errors.New("no leader yet")
		}
		return nil
	}, nats.InProcessServer(s))
	fatal.If(t, err)
	defer nc.Close()
	if len(tried) != 3 || tried[0] != nc || tried[2] != nc {
		t.Errorf("%d tries, over other connections than %p", len(tried), nc)
	}
}
