package kwok

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/embed"

	"gnnsched/internal/exit"
)

const (
	etcdStartPatience = 30 * time.Second
	etcdQuota         = 8 << 30 // bytes; beyond it etcd refuses writes
	etcdMaxRequest    = 8 << 20 // bytes of one write
	// etcdSlow is how long a request must take to be worth a warning. etcd's own default is
	// for servers that do nothing else.
	etcdSlow = 5 * time.Second
	// socketPathMax is the longest path of a unix socket that every Unix allows.
	socketPathMax = 100
)

// startEtcd starts a single-member etcd and returns the path of the unix socket on which it
// serves. It opens no network port: neither socket can be reached but through a directory
// that only this user may enter.
func (cl *Cluster) startEtcd(ctx context.Context) (socket string, err error) {
	dir, cleanup, err := socketDir(cl.dir.path)
	if err != nil {
		return "", err
	}
	socket = filepath.Join(dir, socketClient)
	c := embed.NewConfig()
	c.Name = "default"
	c.Dir = cl.dir.file(dirEtcd)
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	// The peer listener takes the path from Host, the client listener from Path.
	c.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: filepath.Join(dir, socketPeer)}}
	// Nobody dials these: a single member has no peers, and the API server knows the socket.
	// etcd refuses advertised addresses that are not host:port.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
	c.AdvertisePeerUrls = []url.URL{peer}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	c.InitialCluster = c.Name + "=" + peer.String()
	c.UnsafeNoFsync = !cl.config.Fsync
	c.QuotaBackendBytes = etcdQuota
	c.MaxRequestBytes = etcdMaxRequest
	c.WarningApplyDuration, c.WarningUnaryRequestDuration = etcdSlow, etcdSlow
	c.LogLevel = "warn"
	log := &etcdLog{ctx: ctx, log: cl.config.Log}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.zap())

	e, err := openEtcd(c)
	if err != nil {
		cleanup()
		return "", exit.New(exit.Internal, fmt.Errorf("start etcd on %s: %w", c.Dir, err),
			"if its data is damaged, `kwokcluster down --purge` deletes it")
	}
	cl.launch(ctx, "etcd", func(ctx context.Context) error {
		defer cleanup()
		defer e.Close()
		select {
		case <-ctx.Done():
			return nil
		case err := <-e.Err():
			return err
		case <-e.Server.StopNotify():
			return errors.New("its server stopped")
		}
	})
	select {
	case <-e.Server.ReadyNotify():
		log.serving.Store(true)
		return socket, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-time.After(etcdStartPatience):
		return "", fmt.Errorf("etcd is not ready after %v", etcdStartPatience)
	}
}

// openEtcd is embed.StartEtcd with a panic turned into an error: on damaged files etcd logs
// at level fatal or panics, and zapTo turns the former into the latter. The database is
// looked at first, because etcd opens it in a goroutine whose panic nobody can catch.
func openEtcd(c *embed.Config) (e *embed.Etcd, err error) {
	database := filepath.Join(c.Dir, "member", "snap", "db")
	if _, err := os.Stat(database); err == nil {
		db, err := bbolt.Open(database, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
		if err != nil {
			return nil, fmt.Errorf("open the database %s: %w", database, err)
		}
		if err := db.Close(); err != nil {
			return nil, fmt.Errorf("close the database %s: %w", database, err)
		}
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return embed.StartEtcd(c)
}

// socketDir makes a directory for sockets that only this user may enter, and returns it with
// a function that removes it: one in dir, or, where that path is too long for a socket, a
// temporary one.
func socketDir(dir string) (string, func(), error) {
	sockets := filepath.Join(dir, dirSockets)
	var err error
	if len(filepath.Join(sockets, socketPeer)) > socketPathMax {
		sockets, err = os.MkdirTemp("", "gnnsched-etcd-")
	} else if err = os.RemoveAll(sockets); err == nil { // it may be left from a process that was killed
		err = os.Mkdir(sockets, 0o700)
	}
	if err != nil {
		return "", nil, dirError("make a directory for etcd's sockets", err)
	}
	return sockets, func() { _ = os.RemoveAll(sockets) }, nil
}
