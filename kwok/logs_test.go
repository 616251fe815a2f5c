package kwok

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
)

func TestEtcdLog(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	l := &etcdLog{ctx: ctx, log: zerolog.New(&out)}
	log := l.zap().With(zap.String("member", "m"))
	log.Warn("not recommended for production")
	log.Error("disk full")
	l.serving.Store(true)
	log.Info("chatter")
	log.Warn("slow", zap.Int("ms", 7))
	cancel()
	log.Error("closed connection")
	want := `{"level":"error","source":"etcd","member":"m","message":"disk full"}
{"level":"warn","source":"etcd","member":"m","ms":7,"message":"slow"}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	defer func() {
		if recover() == nil {
			t.Error("a fatal error neither ended the process nor panicked")
		}
	}()
	log.Fatal("cannot go on")
}

func TestKwokLog(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	log := kwokLogger(ctx, zerolog.New(&out))
	log.Info("chatter")
	log.With("node", "node-1").Error("failed", "err", "no such node")
	cancel()
	log.Error("context canceled")
	want := `{"level":"error","source":"kwok","err":"no such node","node":"node-1","message":"failed"}` + "\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}
