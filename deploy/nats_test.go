package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"sigs.k8s.io/yaml"

	"gnnsched/internal/fatal"
	"gnnsched/internal/workers"
)

// The test's program is the worker's child.
func TestMain(m *testing.M) {
	if os.Getenv("DEPLOY_TEST") == "" {
		os.Exit(m.Run())
	}
	echo := func(_ context.Context, task []byte, blob func(string) (string, error)) ([]byte, error) {
		var name string
		if err := json.Unmarshal(task, &name); err != nil {
			return nil, err
		}
		path, err := blob(name)
		if err != nil {
			return nil, err
		}
		return os.ReadFile(path)
	}
	if err := workers.Child(context.Background(), os.Args[len(os.Args)-1], map[string]workers.Handler{"echo": echo}, os.Stdin,
		os.Stdout); err != nil {
		panic(err)
	}
}

// violations collects the messages that the server refused.
type violations struct {
	mu  sync.Mutex
	all []string
}

func (v *violations) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if text := fmt.Sprintf(format, args...); strings.Contains(text, "Violation") {
		v.all = append(v.all, text)
	}
}
func (v *violations) Noticef(string, ...any) {}
func (v *violations) Warnf(string, ...any)   {}
func (v *violations) Fatalf(string, ...any)  {}
func (v *violations) Debugf(string, ...any)  {}
func (v *violations) Tracef(string, ...any)  {}

// taken returns what was refused since the last call.
func (v *violations) taken() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := strings.Join(v.all, "\n")
	v.all = nil
	return out
}

// users serves the accounts of nats.yaml, with passwords in place of certificates.
func users(t *testing.T) (url string, refused *violations) {
	t.Helper()
	text := fatal.Value(os.ReadFile("nats.yaml"))(t)
	var values struct {
		Config struct{ Merge map[string]any }
	}
	fatal.If(t, yaml.Unmarshal(text, &values))
	merge := values.Config.Merge
	account := merge["accounts"].(map[string]any)["gnnsched"].(map[string]any)
	for _, u := range account["users"].([]any) {
		u.(map[string]any)["password"] = "x"
	}
	merge["jetstream"] = map[string]any{"store_dir": t.TempDir()}
	merge["listen"] = "127.0.0.1:-1"
	var config bytes.Buffer
	encoder := json.NewEncoder(&config)
	encoder.SetEscapeHTML(false) // the server does not know \u003e
	file := filepath.Join(t.TempDir(), "nats.conf")
	fatal.If(t, errors.Join(encoder.Encode(merge), os.WriteFile(file, config.Bytes(), 0o600)))
	o := fatal.Value(server.ProcessConfigFile(file))(t)
	o.NoSigs = true
	s := fatal.Value(server.NewServer(o))(t)
	refused = &violations{}
	s.SetLogger(refused, false, false)
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL(), refused
}

func as(role string) nats.Option { return nats.UserInfo("CN="+role, "x") }

// Each role of nats.yaml may do its part, and not that of others.
func TestRoles(t *testing.T) {
	url, refused := users(t)
	t.Run("evaluation and worker", func(t *testing.T) {
		run, err := workers.Connect(t.Context(), url, as("evaluation"))
		if err != nil {
			t.Fatal(err, refused.taken())
		}
		defer run.Close()
		play(t, url, run)
		if v := refused.taken(); v != "" {
			t.Error(v)
		}
	})
	for role, subjects := range map[string][]string{
		"worker":     {"gnnsched.unit.b.r.u", "$JS.API.STREAM.DELETE.gnnsched-results", "$JS.API.STREAM.PURGE.gnnsched-units"},
		"evaluation": {"gnnsched.result.r.u"},
	} {
		nc := fatal.Value(nats.Connect(url, as(role)))(t)
		for _, subject := range subjects {
			if err := errors.Join(nc.Publish(subject, nil), nc.Flush()); err != nil {
				t.Error(err)
			}
			if v := refused.taken(); !strings.Contains(v, `"`+subject+`"`) {
				t.Errorf("%s may publish to %s", role, subject)
			}
		}
		nc.Close()
	}
}

// play lets a worker compute a unit with data.
func play(t *testing.T, url string, run *workers.Queue) {
	t.Helper()
	q := fatal.Value(workers.Connect(t.Context(), url, as("worker")))(t)
	defer q.Close()
	program := fatal.Value(os.Executable())(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	w := workers.Worker{Queue: q, Name: "w", Slots: 1, Command: []string{"env", "DEPLOY_TEST=child", program}, Limit: time.Minute,
		Log: zerolog.Nop()}
	working, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(working) }()
	large := strings.Repeat("x", 1<<20) // a result that goes to the object store
	name, err := run.Put(ctx, []byte(large))
	if err == nil {
		task, _ := json.Marshal(name)
		err = run.Run(ctx, []workers.Unit{{Kind: "echo", Task: task, Blobs: []string{name}, About: "echo"}}, func() {},
			func(_ int, r workers.Result) error {
				if string(r.Data) != large {
					t.Error("another result")
				}
				return nil
			})
	}
	if err != nil {
		t.Error(err)
	}
	if all, err := run.Workers(500 * time.Millisecond); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
