package workers

import (
	"context"
	"fmt"
	"net"
	"net/url"
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
