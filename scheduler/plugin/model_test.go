package plugin

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"

	"gnnsched/gnn/checkpoint"
	"gnnsched/gnn/infer"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/plugin/traffic"
)

func loads(t *testing.T, profile, result string) float64 {
	t.Helper()
	v, err := testutil.GetCounterMetricValue(reloads.WithLabelValues(profile, result))
	fatal.If(t, err)
	return v
}

// current returns the network that decides; nil without one.
func current(m *model) *infer.Network {
	if d, is := m.active.load().(*networkDecider); is {
		return d.net
	}
	return nil
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	fatal.If(t, err)
	defer in.Close()
	out, err := os.Create(to)
	fatal.If(t, err)
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	fatal.If(t, out.Close())
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	fatal.If(t, os.Rename(from, to))
}

// A checkpoint file appears, is replaced, damaged, removed and comes back. The last network that could
// be loaded decides all the time.
func TestModelFollowsItsFile(t *testing.T) {
	set.Register()
	countFromZero()
	const profile = "reload"
	file := filepath.Join(t.TempDir(), "net.safetensors")
	m := openModel(context.Background(), Args{Checkpoint: file}, profile, new(activeDecider))
	var last *infer.Network
	expect := func(step string, fresh bool, ok, failed float64) {
		t.Helper()
		m.reload(context.Background())
		m.reload(context.Background()) // a second look finds nothing new
		now := current(m)
		if fresh && (now == nil || now == last) || !fresh && now != last {
			t.Errorf("%s: network %p, before %p", step, now, last)
		}
		if a, b := loads(t, profile, "ok"), loads(t, profile, "error"); a != ok || b != failed {
			t.Errorf("%s: %v loaded and %v failed, want %v and %v", step, a, b, ok, failed)
		}
		last = now
	}
	expect("not there", false, 0, 1)
	rename(t, untrained(t, 1, nil), file)
	expect("comes later", true, 1, 1)
	rename(t, untrained(t, 2, nil), file)
	expect("replaced", true, 2, 1)
	rename(t, untrained(t, 3, exploding), file)
	expect("replaced by one that fails in trial decisions", false, 2, 1)
	if n := loads(t, profile, "refused"); n != 1 {
		t.Errorf("%v refused, want 1", n)
	}
	fatal.If(t, os.WriteFile(file, []byte("half a checkp"), 0o600))
	expect("broken", false, 2, 2)
	fatal.If(t, os.Remove(file))
	expect("gone", false, 2, 3)
	copyFile(t, untrained(t, 4, nil), file)
	expect("back", true, 3, 3)
	fatal.If(t, errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)))
	expect("replaced by a pipe, which must not block", false, 3, 4)
	rename(t, untrained(t, 5, nil), file)
	expect("a file again", true, 4, 4)
}

// A copy that keeps the original's time (cp -p, tar) has the same time and size, and is still loaded.
func TestModelSeesAFileOfTheSameTimeAndSize(t *testing.T) {
	set.Register()
	file, other := untrained(t, 1, nil), untrained(t, 2, nil)
	when := time.Now().Add(-time.Hour)
	for _, f := range []string{file, other} {
		fatal.If(t, os.Chtimes(f, when, when))
	}
	m := openModel(context.Background(), Args{Checkpoint: file}, "same-time", new(activeDecider))
	first := current(m)
	rename(t, other, file)
	m.reload(context.Background())
	if first == nil || current(m) == first {
		t.Error("the new file was not loaded")
	}
}

// A shipped checkpoint never changes, so watch ends at once.
func TestWatchOfAShippedCheckpointEnds(t *testing.T) {
	set.Register()
	m := openModel(context.Background(), Args{Variant: "gnn"}, "shipped", new(activeDecider))
	m.watch(context.Background(), time.Millisecond)
}

// A file may change from one kind of network to the other and back; the decider changes with it.
func TestModelChangesTheKindOfNetwork(t *testing.T) {
	set.Register()
	file := filepath.Join(t.TempDir(), "net.safetensors")
	m := openModel(context.Background(), Args{Checkpoint: file, Deadline: duration(time.Minute)}, "kinds", new(activeDecider))
	for i, want := range []checkpoint.Graph{checkpoint.ClusterGraph, checkpoint.GPUGraph, checkpoint.MixedGraph, checkpoint.ClusterGraph} {
		written := untrained(t, uint64(i), nil)
		switch i {
		case 1:
			written = untrainedOf(t, gpuArchitecture, 1, nil)
		case 2:
			written = untrainedOf(t, checkpoint.Architecture{Graph: checkpoint.MixedGraph, Encoder: checkpoint.MLP, Head: checkpoint.DQN,
				Hidden: 8, Features: []string{"base", "devices"}}, 1, nil)
		}
		c, err := checkpoint.Load(written)
		fatal.If(t, err)
		rename(t, written, file)
		m.reload(context.Background())
		d := m.active.load().(*networkDecider)
		if got := d.net.Architecture().Graph; got != want || d.readsDevices() != (want != checkpoint.ClusterGraph) ||
			d.fingerprint() != c.Fingerprint() || d.policyName() != "kinds" {
			t.Errorf("file %d: graph %q of %x, want %q of %x", i, got, d.fingerprint(), want, c.Fingerprint())
		}
	}
}

// A network that reads traffic says so where its profile has none.
func TestModelMissesTraffic(t *testing.T) {
	for variant, want := range map[string][2]int{"gnn-traffic": {1, 0}, "gnn": {0, 0}} {
		for i, args := range []Args{{Variant: variant}, {Variant: variant, Traffic: &traffic.Config{}}} {
			told := 0
			log := funcr.New(func(_, text string) {
				if strings.Contains(text, "--traffic") {
					told++
				}
			}, funcr.Options{})
			openModel(klog.NewContext(t.Context(), log), args, variant, new(activeDecider))
			if told != want[i] {
				t.Errorf("%s: %d lines about traffic, want %d", variant, told, want[i])
			}
		}
	}
}
