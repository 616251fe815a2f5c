package workers

import (
	"bytes"
	"context"
	"crypto/ed25519"
	cryptorand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
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
	"github.com/nats-io/nats.go"

	"gnnsched/internal/fatal"
)

func TestServe(t *testing.T) {
	dir := t.TempDir()
	ours, _ := serveIn(t, Serving{Dir: dir, Listen: "127.0.0.1:0"})
	if _, err := Serve(Serving{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Error("two servers in one folder:", err)
	}
	if _, err := Connect(t.Context(), ours.URL(), nats.Token("guess")); !errors.Is(err, nats.ErrAuthorization) {
		t.Error("a wrong token:", err)
	}
	token := fatal.Value(Token(dir))(t)
	q := fatal.Value(Connect(t.Context(), ours.URL(), token))(t)
	q.Close()
	if i, err := os.Stat(filepath.Join(dir, tokenFile)); err != nil || i.Mode().Perm() != 0o600 {
		t.Error(i.Mode(), err)
	}
	if Loopback("nats://192.0.2.1:4222") || Loopback("nats://127.0.0.1.example:1") || !Loopback("nats://[::1]:4222") {
		t.Error("the token would be shown to others, or not to this machine")
	}
	for address, want := range map[string]string{"0.0.0.0:0": "certificates", ":4222": "certificates", "localhost": "port",
		"127.0.0.1:seven": "port"} {
		if _, err := Serve(Serving{Dir: t.TempDir(), Listen: address}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The folder of a worker that was killed is removed by the next one; those of others at work stay.
func TestFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fatal.If(t, os.MkdirAll(filepath.Join(os.TempDir(), folderPrefix+"killed", "gnnsched-world-1"), 0o700))
	first, removeFirst, err := folder()
	fatal.If(t, err)
	second, removeSecond, err := folder()
	fatal.If(t, err)
	all, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil || len(all) != 2 || !slices.Contains(all, first) || !slices.Contains(all, second) {
		t.Error(all, err)
	}
	removeFirst()
	removeSecond()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// Beyond this machine, both sides show certificates of one authority.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ours, theirs := newAuthority(t, dir, "ours"), newAuthority(t, dir, "theirs")
	tlsOf := func(c Certificates) *tls.Config {
		return fatal.Value(c.TLS())(t)
	}
	queue := fatal.Value(Serve(Serving{Dir: filepath.Join(dir, "queue"), Listen: "0.0.0.0:0", TLS: tlsOf(ours.sign("queue"))}))(t)
	defer queue.Close()
	if q, err := queue.Connect(t.Context()); err != nil {
		t.Error("this process:", err)
	} else {
		q.Close()
	}
	url := strings.Replace(queue.URL(), "0.0.0.0", "127.0.0.1", 1)
	q, err := Connect(t.Context(), url, nats.Secure(tlsOf(ours.sign("worker"))))
	if err != nil {
		t.Fatal("a worker of ours:", err)
	}
	defer q.Close()
	if !q.Connected() {
		t.Error("not connected")
	}
	foreign := theirs.sign("worker")
	for name, c := range map[string]Certificates{"a foreign client": {Cert: foreign.Cert, Key: foreign.Key, CA: ours.ca},
		"a foreign server": theirs.sign("other")} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := Connect(ctx, url, nats.Secure(tlsOf(c))); err == nil {
			t.Errorf("%s was let in", name)
		}
		cancel()
	}
	config := tlsOf(ours.sign("renewed"))
	before := fatal.Value(config.GetClientCertificate(nil))(t)
	ours.sign("renewed") // into the same files
	if after, err := config.GetClientCertificate(nil); err != nil || bytes.Equal(before.Certificate[0], after.Certificate[0]) {
		t.Error("a renewed certificate is not used:", err)
	}
	if _, err := (Certificates{Cert: "none"}).TLS(); err == nil {
		t.Error("a missing certificate is no error")
	}
}

// authority signs certificates in a folder.
type authority struct {
	t    *testing.T
	dir  string
	ca   string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(t *testing.T, dir, name string) *authority {
	_, key, err := ed25519.GenerateKey(nil)
	fatal.If(t, err)
	a := &authority{t: t, dir: dir, ca: filepath.Join(dir, name+".crt"), key: key}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	a.write(a.ca, "CERTIFICATE", a.create(a.cert, key))
	return a
}

func (a *authority) create(c *x509.Certificate, key ed25519.PrivateKey) []byte {
	der, err := x509.CreateCertificate(cryptorand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(path, kind string, der []byte) {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) sign(name string) Certificates {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	path := filepath.Join(a.dir, a.cert.Subject.CommonName+"-"+name)
	c := Certificates{Cert: path + ".crt", Key: path + ".key", CA: a.ca}
	a.write(c.Key, "PRIVATE KEY", der)
	a.write(c.Cert, "CERTIFICATE", a.create(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key))
	return c
}

// Any NATS server with JetStream has the queue, too. It knows its clients by name and password.
func TestOtherServer(t *testing.T) {
	s := fatal.Value(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), Username: "gnn", Password: "secret", NoSigs: true,
		NoLog: true,
	}))(t)
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	q := fatal.Value(Connect(t.Context(), strings.Replace(s.ClientURL(), "//", "//gnn:secret@", 1), nats.Token("of another queue")))(t)
	defer q.Close()
	stop := working(t, newWorker(q, 1))
	got, err := results(t.Context(), q, squares(5))
	checkSquares(t, got, err)
	stop()
}

// What is prepared is tried again over the same connection: a cluster may elect its leader after the first try.
func TestConnectPreparesAgain(t *testing.T) {
	s := fatal.Value(server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true}))(t)
	s.Start()
	defer s.Shutdown()
	var tried []*nats.Conn
	nc := fatal.Value(connectNATS(t.Context(), "nats://this-process", func(_ context.Context, nc *nats.Conn) error {
		if tried = append(tried, nc); len(tried) < 3 {
			return errors.New("no leader yet")
		}
		return nil
	}, nats.InProcessServer(s)))(t)
	defer nc.Close()
	if len(tried) != 3 || tried[0] != nc || tried[2] != nc {
		t.Errorf("%d tries, over other connections than %p", len(tried), nc)
	}
}

// member starts a server of a cluster. It has its place by its number.
func member(t *testing.T, i int, dirs [3]string, clients, routes [3]string) *server.Server {
	t.Helper()
	port := func(address string) (n int) {
		_, text, _ := net.SplitHostPort(address)
		fatal.Value(fmt.Sscan(text, &n))(t)
		return n
	}
	o := &server.Options{ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: port(clients[i]), JetStream: true, StoreDir: dirs[i],
		NoSigs: true, NoLog: true}
	o.Cluster.Name, o.Cluster.Host, o.Cluster.Port = "test", "127.0.0.1", port(routes[i])
	for _, r := range routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	s := fatal.Value(server.NewServer(o))(t)
	go s.Start()
	return s
}

// At three servers units have three copies, so a run goes on while each server in turn is away.
func TestCluster(t *testing.T) {
	var dirs, clients, routes [3]string
	for _, addresses := range []*[3]string{&clients, &routes} {
		var held []net.Listener
		for i := range addresses {
			l := fatal.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
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
		fatal.If(t, s.take(t.Context(), names))
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
