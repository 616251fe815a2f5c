package etcdlog_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	_ "k8s.io/apiserver/pkg/storage/storagebackend/factory" // has the logger under test

	"gnnsched/internal/fatal"
	"gnnsched/kwok/internal/etcdlog"
)

func TestRoute(t *testing.T) {
	log := fatal.Value(logutil.CreateDefaultZapLogger(zap.InfoLevel))(t)
	log.Warn("to nobody")
	var out bytes.Buffer
	to := zerolog.New(&out)
	etcdlog.Route(&to)
	t.Cleanup(func() { etcdlog.Route(nil) })
	log.Info("chatter")
	log.Warn("slow disk", zap.Int("ms", 7))
	want := `{"level":"warn","ms":7,"message":"slow disk"}` + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// TestIsInitialisedFirst checks, in the runtime's trace of initialisation, that this package is
// initialised before the package that makes the logger.
func TestIsInitialisedFirst(t *testing.T) {
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	fatal.If(t, c.Run())
	us := strings.Index(stderr.String(), "init gnnsched/kwok/internal/etcdlog @")
	them := strings.Index(stderr.String(), "init k8s.io/apiserver/pkg/storage/storagebackend/factory @")
	if us < 0 || them < 0 || us > them {
		t.Errorf("we are initialised at %d, they at %d of the trace", us, them)
	}
}
