package kwok

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
	"gnnsched/kwok/nodepool"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		conf Config
		want string // in the error; "" for none
	}{
		{"least", Config{Dir: "d"}, ""},
		{"open with a name", Config{Dir: "d", BindAddress: "0.0.0.0", AdvertiseHost: "cluster"}, ""},
		{"open with an address", Config{Dir: "d", BindAddress: "::", AdvertiseHost: "10.1.2.3"}, ""},
		{"other loopback", Config{Dir: "d", BindAddress: "127.0.0.2"}, ""},
		{"no directory", Config{}, "directory"},
		{"port", Config{Dir: "d", Port: 65536}, "65536"},
		{"negative port", Config{Dir: "d", Port: -1}, "-1"},
		{"open", Config{Dir: "d", BindAddress: "0.0.0.0"}, "open to the network"},
		{"not an address", Config{Dir: "d", BindAddress: "localhost"}, "not an IP address"},
		{"not a host", Config{Dir: "d", AdvertiseHost: "a b"}, "a b"},
		{"pools", Config{Dir: "d", Pools: []nodepool.Pool{{Name: "x"}}}, "capacity"},
	} {
		err := c.conf.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want a usage error about %q", c.name, err, c.want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer l.Close() //nolint:errcheck // the test is over
	dir := t.TempDir()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = Start(context.Background(), Config{Dir: dir, Port: port})
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("got %v", err)
	}
	if held, err := lockHeld(dir); err != nil || held {
		t.Errorf("the failed start holds the lock: %v, %v", held, err)
	}
}

func TestKubeconfigThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	touch(t, file)
	_, err := Start(context.Background(), Config{Dir: t.TempDir(), KubeconfigCopies: []string{filepath.Join(file, "kubeconfig")}})
	if exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v", err)
	}
}

func TestDamagedDataIsAnError(t *testing.T) {
	for _, file := range []string{"snap/db", "wal/0000000000000000-0000000000000000.wal"} {
		dir := t.TempDir()
		fatal.If(t, MakeDir(dir))
		touch(t, filepath.Join(dir, dirEtcd, "member", file))
		_, err := Start(context.Background(), Config{Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "start etcd") {
			t.Errorf("%s: got %v", file, err)
		}
		if held, err := lockHeld(dir); err != nil || held {
			t.Errorf("%s: the failed start holds the lock: %v, %v", file, held, err)
		}
	}
}

func TestSocketDir(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", socketPathMax))
	fatal.If(t, os.MkdirAll(long, 0o700))
	dir, cleanup, err := socketDir(long)
	fatal.If(t, err)
	if strings.HasPrefix(dir, long) || len(filepath.Join(dir, socketPeer)) > socketPathMax {
		t.Errorf("sockets in %s", dir)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	cleanup()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
	if _, _, err := socketDir("/nowhere"); exit.Code(err) != exit.Usage {
		t.Errorf("in a directory that does not exist: %v", err)
	}
}

// Each directory has its own context name, which does not change.
func TestContextNames(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/data")
	t.Chdir(t.TempDir())
	seen := map[string]string{}
	for dir, want := range map[string]string{
		"/data/gnnsched/kwok": "gnnsched-kwok", "/data/gnnsched/../gnnsched/kwok/": "gnnsched-kwok",
		"/a/experiment": "gnnsched-kwok-experiment-8e9803", "/b/experiment": "gnnsched-kwok-experiment-bbdf4c", "experiment": "",
	} {
		c := Config{Dir: dir}
		fatal.If(t, c.complete())
		if want != "" && c.Context != want {
			t.Errorf("%s: context %s, want %s", dir, c.Context, want)
		}
		if other, taken := seen[c.Context]; taken && want != "gnnsched-kwok" {
			t.Errorf("%s and %s have the context %s", dir, other, c.Context)
		}
		seen[c.Context] = dir
	}
	c := Config{Dir: "/a/experiment", Context: "mine"}
	if err := c.complete(); err != nil || c.Context != "mine" {
		t.Errorf("context %s, %v", c.Context, err)
	}
}
