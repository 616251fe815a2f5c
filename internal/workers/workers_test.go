package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"gnnsched/internal/fatal"
)

// The test's program is its own child and its own worker process.
func TestMain(m *testing.M) {
	ackWait, quiet = 2*time.Second, time.Second
	var err error
	switch os.Getenv("WORKERS_TEST") {
	case "":
		os.Exit(m.Run())
	case "child":
		err = Child(context.Background(), os.Args[len(os.Args)-1], handlers, os.Stdin, os.Stdout)
	case "worker":
		err = workAt(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var handlers = map[string]Handler{
	"square": func(_ context.Context, task []byte, _ func(string) (string, error)) ([]byte, error) {
		n, err := strconv.Atoi(string(task))
		return []byte(strconv.Itoa(n * n)), err
	},
	"sleep": func(_ context.Context, task []byte, _ func(string) (string, error)) ([]byte, error) {
		var d struct{ D time.Duration }
		err := json.Unmarshal(task, &d)
		time.Sleep(d.D)
		return []byte("slept"), err
	},
	"read": func(_ context.Context, task []byte, blob func(string) (string, error)) ([]byte, error) {
		var name string
		if err := json.Unmarshal(task, &name); err != nil {
			return nil, err
		}
		path, err := blob(name)
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	},
	"panic": func(context.Context, []byte, func(string) (string, error)) ([]byte, error) { panic("no bread") },
	"exit": func(context.Context, []byte, func(string) (string, error)) ([]byte, error) {
		fmt.Fprintln(os.Stderr, "fatal error: out of flour")
		os.Exit(2)
		return nil, nil
	},
	"flaky": func(_ context.Context, task []byte, _ func(string) (string, error)) ([]byte, error) { // ends its process the first time
		var path string
		if err := json.Unmarshal(task, &path); err != nil {
			return nil, err
		}
		if os.Mkdir(path, 0o700) == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return []byte("at last"), nil
	},
}

func workAt(url, token string) error {
	q, err := Connect(context.Background(), url, nats.Token(token))
	if err != nil {
		return err
	}
	return newWorker(q, 2).Run(context.Background())
}

func newWorker(q *Queue, slots int) *Worker {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return &Worker{
		Queue: q, Name: fmt.Sprint("worker-", os.Getpid()), Slots: slots, Command: []string{"env", "WORKERS_TEST=child", path},
		Limit: time.Minute, Log: zerolog.Nop(),
	}
}

// serveIn starts a server with a connection, until the test ends.
func serveIn(t testing.TB, s Serving) (*Server, *Queue) {
	t.Helper()
	server := fatal.Value(Serve(s))(t)
	t.Cleanup(server.Close)
	q := fatal.Value(server.Connect(t.Context()))(t)
	t.Cleanup(q.Close)
	return server, q
}

// working runs a worker until stop is called.
func working(t testing.TB, w *Worker) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

func squares(n int) (units []Unit) {
	for i := range n {
		units = append(units, Unit{Kind: "square", Task: json.RawMessage(strconv.Itoa(i % (n - 1))), About: "square"}) // the first stands twice
	}
	return units
}

// run computes units and returns their results in order.
func results(ctx context.Context, q *Queue, units []Unit) ([]string, error) {
	out := make([]string, len(units))
	err := q.Run(ctx, units, func() {}, func(i int, r Result) error {
		if out[i] != "" {
			return fmt.Errorf("unit %d came twice", i)
		}
		out[i] = string(r.Data)
		return nil
	})
	return out, err
}

func checkSquares(t *testing.T, got []string, err error) {
	t.Helper()
	fatal.If(t, err)
	for i, g := range got {
		if n := i % (len(got) - 1); g != strconv.Itoa(n*n) {
			t.Errorf("unit %d: %q", i, g)
		}
	}
}

func TestRun(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	working(t, newWorker(q, 2))
	got, err := results(t.Context(), q, squares(40))
	checkSquares(t, got, err)

	large := make([]byte, 2*maxUnit)
	name, err := q.Put(t.Context(), large)
	fatal.If(t, err)
	task, _ := json.Marshal(name)
	got, err = results(t.Context(), q, []Unit{{Kind: "read", Task: task, Blobs: []string{name}}})
	if err != nil || got[0] != string(large) {
		t.Errorf("%d bytes, %v", len(got[0]), err)
	}
}

// A unit that fails ends the run with its reason, and can be run again.
func TestFailures(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	w := newWorker(q, 1)
	w.Limit = 3 * time.Second
	working(t, w)
	path, _ := json.Marshal(filepath.Join(t.TempDir(), "tried"))
	for _, c := range []struct{ kind, task, want string }{
		{"square", `"four"`, "parsing"},
		{"panic", `1`, "panic: no bread"},
		{"exit", `1`, "given up after 3 attempts: the process ended: exit status 2: fatal error: out of flour"},
		{"bake", `1`, `knows no units of the kind "bake"`},
		{"sleep", `{"D":60000000000}`, "it took longer than 3s"},
		{"read", `"../secret"`, "none of the unit's data"},
		{"flaky", string(path), ""},
	} {
		for range 2 {
			got, err := results(t.Context(), q, []Unit{{Kind: c.kind, Task: json.RawMessage(c.task), About: "the " + c.kind}})
			if c.want == "" {
				if err != nil || got[0] != "at last" {
					t.Errorf("%s: %v, %v", c.kind, got, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the "+c.kind) {
				t.Errorf("%s: %v, want %q", c.kind, err, c.want)
			}
			if c.kind == "sleep" {
				break
			}
		}
	}
	got, err := results(t.Context(), q, squares(5))
	checkSquares(t, got, err)
}

// Workers that are killed, a server that starts again and a disk that was full cost time, and no result.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	server := fatal.Value(Serve(Serving{Dir: dir, Listen: "127.0.0.1:0"}))(t)
	address := strings.TrimPrefix(server.URL(), "nats://")
	token := server.token
	path, _ := os.Executable()
	start := func() *exec.Cmd {
		cmd := exec.Command(path, server.URL(), token)
		cmd.Env = append(os.Environ(), "WORKERS_TEST=worker")
		fatal.If(t, cmd.Start())
		return cmd
	}
	all := []*exec.Cmd{start(), start()}
	q, err := Connect(t.Context(), server.URL(), nats.Token(token))
	fatal.If(t, err)
	defer q.Close()
	var units []Unit
	for i := range 30 {
		units = append(units, Unit{Kind: "sleep", Task: json.RawMessage(fmt.Sprintf(`{"D":100000000,"N":%d}`, i))})
	}
	seen := 0
	kill := func(c *exec.Cmd) { _ = c.Process.Kill(); _ = c.Wait() }
	err = q.Run(t.Context(), units, func() {}, func(int, Result) error {
		switch seen++; seen {
		case 3:
			kill(all[0])
			all[0] = start()
		case 8:
			kill(all[1])
			server.Close()
			if server, err = Serve(Serving{Dir: dir, Listen: address}); err != nil {
				return err
			}
			all[1] = start()
		case 12:
			diary{&server.full}.Errorf("%v", fmt.Errorf("store a message: %w", syscall.ENOSPC))
			for server.full.Load() {
				time.Sleep(10 * time.Millisecond)
			}
		}
		return nil
	})
	if err != nil || seen != len(units) {
		t.Errorf("%d results, %v", seen, err)
	}
	for _, c := range all {
		kill(c)
	}
	server.Close()
}

// A run that was broken off goes on where it was.
func TestResume(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	working(t, newWorker(q, 1))
	units := make([]Unit, 12)
	marks := t.TempDir()
	for i := range units {
		path, _ := json.Marshal(filepath.Join(marks, strconv.Itoa(i)))
		units[i] = Unit{Kind: "flaky", Task: path}
	}
	stop := errors.New("enough")
	seen := 0
	err := q.Run(t.Context(), units, func() {}, func(int, Result) error {
		if seen++; seen == 5 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	var first time.Duration
	n := 0
	if err := q.Run(t.Context(), units, func() {}, func(_ int, r Result) error {
		if n++; n <= 5 {
			first += r.Took
		}
		return nil
	}); err != nil || n != len(units) {
		t.Fatal(n, err)
	}
	left, err := os.ReadDir(marks)
	if err != nil || len(left) != len(units) {
		t.Errorf("%d of %d units were computed, %v", len(left), len(units), err)
	}
	info, err := q.resultStream.Info(t.Context())
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("a complete run leaves %d results, %v", info.State.Msgs, err)
	}
}

// A worker that is told to end gives its unit to another at once.
func TestDrain(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	w := newWorker(q, 1)
	w.Grace = 0
	stop := working(t, w)
	go func() {
		for busy := false; !busy; time.Sleep(20 * time.Millisecond) {
			c, err := q.consumer(t.Context())
			if err != nil {
				return
			}
			i, err := c.Info(t.Context())
			busy = err != nil || i.NumAckPending > 0
		}
		stop()
		working(t, newWorker(q, 1))
	}()
	got, err := results(t.Context(), q, []Unit{{Kind: "sleep", Task: json.RawMessage(`{"D":500000000}`)}})
	if err != nil || got[0] != "slept" {
		t.Errorf("%v, %v", got, err)
	}
}

// Workers of another build get nothing, and their results do not count.
func TestOtherBuild(t *testing.T) {
	server, q := serveIn(t, Serving{Dir: t.TempDir()})
	other, err := server.Connect(t.Context())
	fatal.If(t, err)
	defer other.Close()
	other.build = build{"another", "amd64"}.exact()
	working(t, newWorker(other, 1))
	asked := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		all, err := q.Workers(time.Second)
		if err != nil || len(all) != 1 || all[0].Build != "another-amd64" || all[0].Slots != 1 {
			t.Errorf("%+v, %v", all, err)
		}
		cancel()
	}()
	err = q.Run(ctx, squares(3), func() { asked <- struct{}{} }, func(int, Result) error { return errors.New("a result of another build") })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The same program computes on another processor if both sides want it.
func TestApproximate(t *testing.T) {
	if a, b := (build{"p", "amd64"}), (build{"p", "amd64v3"}); a.exact() == b.exact() || a.approximate() != b.approximate() {
		t.Error(a, b)
	}
	server, q := serveIn(t, Serving{Dir: t.TempDir()})
	other := fatal.Value(server.Connect(t.Context()))(t)
	defer other.Close()
	other.build = build{"another", "amd64"}.exact()
	fatal.If(t, errors.Join(q.Approximate(t.Context()), other.Approximate(t.Context())))
	working(t, newWorker(other, 1))
	if got, err := results(t.Context(), q, squares(3)); err != nil || len(got) != 3 {
		t.Error(got, err)
	}
}

// Messages that are no units are few lines in the log, with their count, and the worker goes on.
func TestNoUnits(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	var log bytes.Buffer // of the only slot; read after the worker has ended
	w := newWorker(q, 1)
	w.Log = zerolog.New(&log)
	for i := range 100 {
		fatal.Value(q.js.Publish(t.Context(), unitPrefix+q.build+".run."+strconv.Itoa(i), []byte("no unit")))(t)
	}
	stop := working(t, w)
	got, err := results(t.Context(), q, squares(3))
	checkSquares(t, got, err)
	stop()
	if n := strings.Count(log.String(), "no unit"); n != 7 || !strings.Contains(log.String(), `"refused":64`) {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

func FuzzUnit(f *testing.F) {
	data, name, err := Unit{Kind: "square", Task: json.RawMessage("4")}.encode()
	fatal.If(f, err)
	f.Add(data, name)
	f.Add([]byte(`{"blobs":["../../etc/passwd"]}`), "")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		if len(name) != 32 {
			name = digest(data)[:32]
		}
		u, err := decode(data, name)
		if err != nil {
			return
		}
		for _, b := range u.Blobs {
			if !filepath.IsLocal(b) || strings.ContainsRune(b, filepath.Separator) {
				t.Errorf("a blob with the name %q", b)
			}
		}
	})
}

// The queue's cost: units that wait for a quarter of a second, so that processors do not matter. The efficiency is the time that workers
// slept over all their time.
func BenchmarkWorkers(b *testing.B) {
	for _, slots := range []int{1, 2, 4, 8, 64} {
		b.Run(strconv.Itoa(slots), func(b *testing.B) {
			_, q := serveIn(b, Serving{Dir: b.TempDir()})
			working(b, newWorker(q, slots))
			const each = 4
			round := 0
			play := func(sleep time.Duration) {
				var units []Unit
				for i := range each * slots {
					units = append(units, Unit{Kind: "sleep", Task: json.RawMessage(fmt.Sprintf(`{"D":%d,"N":%d,"R":%d}`, sleep, i, round))})
				}
				round++
				fatal.Value(results(b.Context(), q, units))(b)
			}
			play(time.Millisecond) // starts the children
			b.ResetTimer()
			for range b.N {
				play(time.Second)
			}
			b.ReportMetric(100*each*float64(b.N)/b.Elapsed().Seconds(), "%efficiency")
			b.ReportMetric(float64(each*slots*b.N)/b.Elapsed().Seconds(), "units/s")
		})
	}
}

// A unit whose data are gone is dropped: nobody waits for it, or its run sends the data and then the unit again.
func TestDataAreGone(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	working(t, newWorker(q, 1))
	data := []byte("weights")
	name, err := q.Put(t.Context(), data)
	if err == nil {
		err = q.Forget(t.Context(), name)
	}
	fatal.If(t, err)
	task, _ := json.Marshal(name)
	waited := 0
	err = q.Run(t.Context(), []Unit{{Kind: "read", Task: task, Blobs: []string{name}}}, func() {
		if waited++; waited == 3 { // after the worker has given it up
			if info, err := q.unitStream.Info(t.Context()); err != nil || info.State.Msgs > 1 {
				t.Errorf("%+v, %v", info, err)
			}
			_, _ = q.Put(t.Context(), data)
		}
	}, func(_ int, r Result) error {
		if string(r.Data) != string(data) {
			t.Errorf("%q", r.Data)
		}
		return nil
	})
	if err != nil || waited < 3 {
		t.Errorf("%v, after %d pauses", err, waited)
	}
}

// A worker with a limit on idleness computes what there is, and ends by itself.
func TestIdle(t *testing.T) {
	_, q := serveIn(t, Serving{Dir: t.TempDir()})
	w := newWorker(q, 2)
	w.Idle = 500 * time.Millisecond
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	units := []Unit{{Kind: "sleep", Task: json.RawMessage(`{"D":1000000000}`)}} // longer than the limit
	if got, err := results(t.Context(), q, units); err != nil || got[0] != "slept" {
		t.Error(got, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
