package testbed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/scheduler/eval/testbed"
	"gnnsched/scheduler/server"
)

// fakeCluster implements testbed.Launcher and testbed.Cluster. Its API server only answers that it is ready.
type fakeCluster struct {
	t      *testing.T
	refuse error // of Launch

	folder, log string
	nodes       testbed.Nodes
	done        chan struct{}
	stops       int
	stopErr     error
}

func (f *fakeCluster) Launch(_ context.Context, nodes testbed.Nodes, folder, log string) (testbed.Cluster, error) {
	f.nodes, f.done = nodes, make(chan struct{})
	f.folder, f.log = folder, log
	if f.refuse != nil {
		return nil, f.refuse
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	f.t.Cleanup(api.Close)
	config := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + api.URL +
		"'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(f.Kubeconfig(), []byte(config), 0o600)); err != nil {
		f.t.Fatal(err)
	}
	return f, nil
}

func (f *fakeCluster) Kubeconfig() string    { return filepath.Join(f.folder, "kubeconfig") }
func (f *fakeCluster) Done() <-chan struct{} { return f.done }
func (f *fakeCluster) Err() error            { return errEnded }

func (f *fakeCluster) Stop() error {
	f.stops++
	if _, err := os.Stat(f.folder); err != nil {
		f.t.Errorf("the cluster's folder went before the cluster: %v", err)
	}
	return f.stopErr
}

var (
	errEnded = errors.New("the cluster ended")
	errUse   = errors.New("the use failed")
	errStop  = errors.New("the stop failed")
)

// For every way in which a test bed ends, Run returns the cause, stops the cluster once and leaves
// nothing on the disk.
func TestRunTakesDown(t *testing.T) {
	wait := func(ctx context.Context, _ *testbed.Bed) error {
		<-ctx.Done()
		return fmt.Errorf("wait: %w", ctx.Err())
	}
	for name, c := range map[string]struct {
		use     func(ctx context.Context, f *fakeCluster, b *testbed.Bed) error
		stopErr error
		want    []error
	}{
		"success": {use: func(context.Context, *fakeCluster, *testbed.Bed) error { return nil }},
		"error":   {use: func(context.Context, *fakeCluster, *testbed.Bed) error { return errUse }, want: []error{errUse}},
		"end of the cluster": {use: func(ctx context.Context, f *fakeCluster, b *testbed.Bed) error {
			close(f.done)
			return wait(ctx, b)
		}, want: []error{errEnded}},
		"End": {use: func(ctx context.Context, _ *fakeCluster, b *testbed.Bed) error {
			b.End(errUse)
			return wait(ctx, b)
		}, want: []error{errUse}},
		"stop that fails": {use: func(context.Context, *fakeCluster, *testbed.Bed) error { return errUse }, stopErr: errStop,
			want: []error{errUse, errStop}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeCluster{t: t, stopErr: c.stopErr}
			logs := t.TempDir()
			config := testbed.Config{Name: "test", Launcher: f, Nodes: testbed.Nodes{Count: 7}, LogDir: logs}
			err := testbed.Run(t.Context(), config, func(ctx context.Context, b *testbed.Bed) error {
				if f.log != filepath.Join(logs, "test-cluster.log") || f.nodes.Count != 7 || b.Client == nil || b.REST == nil {
					t.Errorf("log %s, nodes %+v, bed %+v", f.log, f.nodes, b)
				}
				return c.use(ctx, f, b)
			})
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if len(c.want) == 0 && err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Dir(f.folder)); f.stops != 1 || !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%d stops; the temporary folder: %v", f.stops, err)
			}
		})
	}
}

// After an interrupt the cause counts, not the error of what was interrupted.
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeCluster{t: t}
	err := testbed.Run(ctx, testbed.Config{Name: "test", Launcher: f}, func(ctx context.Context, _ *testbed.Bed) error {
		cancel()
		<-ctx.Done()
		return errUse
	})
	if !errors.Is(err, context.Canceled) || errors.Is(err, errUse) || f.stops != 1 {
		t.Errorf("got %v after %d stops", err, f.stops)
	}
}

func TestRunThatCannotStart(t *testing.T) {
	never := func(context.Context, *testbed.Bed) error {
		t.Error("use was called")
		return nil
	}
	f := &fakeCluster{t: t, refuse: errEnded}
	if err := testbed.Run(t.Context(), testbed.Config{Name: "test", Launcher: f}, never); !errors.Is(err, errEnded) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Dir(f.folder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder: %v", err)
	}
	f = &fakeCluster{t: t}
	broken := testbed.Config{Name: "test", Launcher: f,
		Scheduler: server.Config{Profiles: []server.Profile{{SchedulerName: "x", Args: server.Args{Variant: "no such variant"}}}}}
	if err := testbed.Run(t.Context(), broken, never); exit.Code(err) != exit.Usage || f.stops != 1 {
		t.Errorf("got %v after %d stops", err, f.stops)
	}
}

// program writes a shell script that stands in for kwokcluster.
func program(t *testing.T, up string) testbed.Program {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kwokcluster")
	script := "#!/bin/sh\n[ \"$1\" = up ] || exit 0\necho \"$@\"\n" + up + "\n"
	fatal.If(t, os.WriteFile(path, []byte(script), 0o700))
	return testbed.Program(path)
}

// Program starts kwokcluster with the flags for the nodes, and interrupts it.
func TestProgram(t *testing.T) {
	p := program(t, `trap 'echo interrupted; exit 0' INT; while :; do sleep 0.05; done`)
	for _, c := range []struct {
		nodes testbed.Nodes
		want  string // FOLDER stands for the cluster's folder
	}{
		{testbed.Nodes{Count: 3}, "up --dir FOLDER --nodes 3"},
		{testbed.Nodes{List: "/nodes.csv", Count: 4}, "up --dir FOLDER --nodes-file /nodes.csv --nodes 4"},
		{testbed.Nodes{Pools: []byte("pools: []\n")}, "up --dir FOLDER --pools FOLDER-pools.yaml"},
	} {
		dir := t.TempDir()
		folder, log := filepath.Join(dir, "c"), filepath.Join(dir, "log")
		cluster := fatal.Value(p.Launch(t.Context(), c.nodes, folder, log))(t)
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
		<-cluster.Done()
		got, err := os.ReadFile(log)
		if want := strings.ReplaceAll(c.want, "FOLDER", folder) + "\ninterrupted\n"; err != nil || string(got) != want {
			t.Errorf("%v; the log is\n%s, want\n%s", err, got, want)
		}
		if !strings.Contains(cluster.Err().Error(), log) || cluster.Kubeconfig() != filepath.Join(folder, "kubeconfig") {
			t.Errorf("error %v, kubeconfig %s", cluster.Err(), cluster.Kubeconfig())
		}
		if c.nodes.Pools != nil {
			if b, err := os.ReadFile(folder + "-pools.yaml"); err != nil || string(b) != string(c.nodes.Pools) {
				t.Errorf("pools %q, %v", b, err)
			}
		}
	}
}

func TestProgramThatFails(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	launch := func(ctx context.Context, p testbed.Program, log string) error {
		c, err := p.Launch(ctx, testbed.Nodes{Count: 1}, filepath.Join(t.TempDir(), "c"), log)
		if err == nil {
			t.Errorf("no error, but %v", errors.Join(errors.New("a cluster"), c.Stop()))
		}
		return err
	}
	if err := launch(t.Context(), "/no/such/program", log); exit.Code(err) != exit.Usage ||
		!strings.Contains(fmt.Sprint(err), "start the cluster") {
		t.Errorf("got %v", err)
	}
	if err := launch(t.Context(), program(t, ""), filepath.Join(log, "no", "folder")); exit.Code(err) != exit.Usage ||
		!strings.Contains(fmt.Sprint(err), "the log of the cluster") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errUse)
	if err := launch(ctx, program(t, "trap 'exit 0' INT; while :; do sleep 0.05; done"), log); !errors.Is(err, errUse) {
		t.Errorf("got %v", err)
	}
}

// gnnsched and gnntrain must not contain an API server: only package inprocess links one. Package nodepool has the file format
// of pools, which gnnsched plan reads too.
func TestProgramsLinkNoCluster(t *testing.T) {
	list := exec.Command("go", "list", "-tags", "torch", "-deps", "gnnsched/cmd/gnnsched", "gnnsched/cmd/gnntrain")
	list.Env = append(os.Environ(), "CGO_ENABLED=1") // gotch has no files without cgo
	out := fatal.Value(list.Output())(t)
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "gnnsched/scheduler/eval/testbed") {
		t.Error("gnnsched does not link this package: the list is wrong")
	}
	for _, p := range linked {
		if p == "gnnsched/kwok/nodepool" {
			continue
		}
		if p == "gnnsched/kwok" || strings.HasPrefix(p, "gnnsched/kwok/") || strings.HasSuffix(p, "/inprocess") {
			t.Errorf("gnnsched or gnntrain links %s", p)
		}
	}
}
