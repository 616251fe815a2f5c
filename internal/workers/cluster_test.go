package workers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"gnnsched/internal/fatal"
)

// member starts a server of a cluster. It has its place by its number.
func member(t *testing.T, i int, dirs [3]string, clients, routes [3]string) *server.Server {
	t.Helper()
	port := func(address string) (n int) {
		_, text, _ := net.SplitHostPort(address)
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	o := &server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: port(clients[i]), JetStream: true, StoreDir: dirs[i],
		NoSigs: true, NoLog: true}
	o.Cluster.Name, o.Cluster.Host, o.Cluster.Port = "test", "127.0.0.1", port(routes[i])
	for _, r := range routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	s, err := server.NewServer(o)
	fatal.If(t, err)
	go s.Start()
	return s
}

// At three servers units have three copies, so a run goes on while each server in turn is away.
func TestCluster(t *testing.T) {
	var dirs, clients, routes [3]string
	for _, addresses := range []*[3]string{&clients, &routes} {
		var held []net.Listener
		for i := range addresses {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			fatal.If(t, err)
			held, addresses[i] = append(held, l), l.Addr().String()
		}
		for _, l := range held {
			l.Close()
		}
	}
	var members [3]*server.Server
	for i := range members {
		dirs[i] = t.TempDir()
		members[i] = member(t, i, dirs, clients, routes)
	}
	defer func() {
		for _, m := range members {
			m.Shutdown()
			m.WaitForShutdown()
		}
	}()
	at := "nats://" + strings.Join(clients[:], ",nats://")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var queues [2]*Queue
	for i := range queues {
		var err error
		if queues[i], err = Connect(ctx, at); err != nil {
			t.Fatal(err)
		}
		defer queues[i].Close()
	}
	info, err := queues[0].unitStream.Info(ctx)
	if err != nil || info.Config.Replicas != 3 {
		t.Fatal(info, err)
	}
	defer working(t, newWorker(queues[0], 2))()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for i, m := range members {
			time.Sleep(time.Second)
			m.Shutdown()
			m.WaitForShutdown()
			time.Sleep(time.Second)
			members[i] = member(t, i, dirs, clients, routes)
		}
	}()
	var units []Unit
	for i := range 120 {
		units = append(units, Unit{Kind: "sleep", Task: fmt.Appendf(nil, `{"D":%d}`, 50_000_000+i), About: "sleep"})
	}
	got, err := results(ctx, queues[1], units)
	if err != nil || strings.Join(got, "") != strings.Repeat("slept", 120) {
		t.Error(got, err)
	}
	<-stopped
}

// A worker keeps what its units need, and of the rest what it used last.
func TestShelf(t *testing.T) {
	fetched := 0
	s := fileCache{dir: t.TempDir(), used: map[string]int{}, get: func(_ context.Context, name string) ([]byte, error) {
		if name == "lost" {
			return nil, os.ErrNotExist
		}
		fetched++
		return []byte(name), nil
	}}
	take := func(names ...string) {
		t.Helper()
		if err := s.take(t.Context(), names); err != nil {
			t.Fatal(err)
		}
	}
	take("world", "net")
	take("world")
	s.give([]string{"world", "net"})
	for i := range spare {
		name := strconv.Itoa(i)
		take(name)
		s.give([]string{name})
	}
	if err := s.take(t.Context(), []string{"0", "lost"}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(s.dir, name))
		return err == nil
	}
	if !there("world") || there("net") || !there("0") || len(s.used) != 1 {
		t.Errorf("world %v, net %v, 0 %v, used %v", there("world"), there("net"), there("0"), s.used)
	}
	if before := fetched; !slices.Equal(s.idle[len(s.idle)-1:], []string{"0"}) || before != spare+2 {
		t.Errorf("%d were fetched; the last is %s", before, s.idle[len(s.idle)-1])
	}
	take("net")
	if fetched != spare+3 {
		t.Error("what was removed is not fetched again")
	}
}
