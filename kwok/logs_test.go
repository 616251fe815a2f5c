package kwok

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
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
	log.Error("failed to apply stage", "err", errors.New(`failed to delete pod web-1: pods "web-1" not found`), "pod", "sim/web-1")
	cancel()
	log.Error("context canceled")
	want := `{"level":"error","source":"kwok","err":"no such node","node":"node-1","message":"failed"}
{"level":"debug","source":"kwok","err":"failed to delete pod web-1: pods \"web-1\" not found","pod":"sim/web-1","message":"failed to apply stage"}
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
}

// The controllers' log has no errors about objects that were deleted meanwhile.
func TestControllersLog(t *testing.T) {
	var lines []string
	log := funcr.New(func(prefix, args string) { lines = append(lines, prefix+" "+args) }, funcr.Options{})
	ctx := quiet(klog.NewContext(context.Background(), log))
	for _, err := range []error{errors.New(`pods "a" not found`), errors.New(`node "" not found`), errors.New("disk full")} {
		runtime.HandleErrorWithContext(ctx, err, "Failed to delete terminating pod")
		klog.LoggerWithValues(klog.FromContext(ctx), "pod", "a").Error(err, "Failed to get node")
	}
	want := []string{
		`UnhandledError "msg"="Failed to delete terminating pod" "error"="disk full"`,
		` "msg"="Failed to get node" "error"="disk full" "pod"="a"`,
	}
	if d := cmp.Diff(want, lines); d != "" {
		t.Error(d)
	}
}
