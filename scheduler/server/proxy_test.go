package server

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// tcpProxy forwards TCP connections to a server, and can make the server look as if it were gone or hung.
type tcpProxy struct {
	target, address string
	done            sync.WaitGroup

	mu       sync.Mutex
	moves    *sync.Cond // hangs or ended has changed
	hangs    bool
	ended    bool
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]bool
}

// startProxy listens on a free port of 127.0.0.1 and forwards to the target, host:port. The caller must call
// Close.
func startProxy(target string) (*tcpProxy, error) {
	p := &tcpProxy{target: target, address: "127.0.0.1:0", open: map[net.Conn]bool{}}
	p.moves = sync.NewCond(&p.mu)
	if err := p.Restore(); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	return p, nil
}

// Address returns the address of the proxy, host:port.
func (p *tcpProxy) Address() string { return p.address }

// Refuse closes all connections and refuses new ones, as if the server had been killed.
func (p *tcpProxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse()
}

func (p *tcpProxy) refuse() (err error) {
	if p.listener != nil {
		err = p.listener.Close()
		p.listener = nil
	}
	for c := range p.open {
		err = errors.Join(err, c.Close())
		delete(p.open, c)
	}
	p.hangs = false
	p.moves.Broadcast()
	return err
}

// Hang keeps connections, accepts new ones, and forwards nothing, as if the server had been stopped.
func (p *tcpProxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = true
}

// Restore forwards again. Connections that hung go on.
func (p *tcpProxy) Restore() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = false
	p.moves.Broadcast()
	if p.listener != nil || p.ended {
		return nil
	}
	l, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("proxy for %s: %w", p.target, err)
	}
	p.listener = l
	p.done.Go(func() { p.accept(l) })
	return nil
}

// Close ends the proxy and waits for its goroutines.
func (p *tcpProxy) Close() error {
	p.mu.Lock()
	p.ended = true
	err := p.refuse()
	p.mu.Unlock()
	p.done.Wait()
	return err
}

// accept forwards each connection to l, until l is closed.
func (p *tcpProxy) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(l, from) })
	}
}

// serve forwards one connection.
func (p *tcpProxy) serve(l net.Listener, from net.Conn) {
	defer p.close(from)
	if !p.add(l, from) || !p.moving(from) {
		return
	}
	to, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.close(to)
	if !p.add(l, to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		p.copy(from, to)
		p.close(from)
	})
	p.copy(to, from)
	p.close(to)
	back.Wait()
}

// add notes an open connection. It reports false if l was closed meanwhile.
func (p *tcpProxy) add(l net.Listener, c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		return false
	}
	p.open[c] = true
	return true
}

// close closes a connection, which may be closed already.
func (p *tcpProxy) close(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	c.Close()
	p.moves.Broadcast()
}

// moving waits while the proxy hangs, and reports whether the connection is open.
func (p *tcpProxy) moving(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.hangs && p.open[c] {
		p.moves.Wait()
	}
	return p.open[c]
}

// copy forwards what comes from one connection to the other, until one is closed.
func (p *tcpProxy) copy(to, from net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if !p.moving(from) || err != nil && n == 0 {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// echoServer starts a server that returns each line, and stops it with the test.
func echoServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					fmt.Fprintln(c, s.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

func sayLine(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
}

// hearsLine reads a line, for at most a time; "" if none came.
func hearsLine(t *testing.T, c net.Conn, within time.Duration) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

func TestProxy(t *testing.T) {
	p, err := startProxy(echoServer(t))
	if err != nil {
		t.Fatal(err)
	}
	c := connectTo(t, p)
	sayLine(t, c, "one")
	if got := hearsLine(t, c, 20*time.Second); got != "one" {
		t.Fatalf("heard %q", got)
	}
	p.Hang()
	late := connectTo(t, p) // accepted, and served later
	sayLine(t, c, "two")
	sayLine(t, late, "three")
	if got := hearsLine(t, c, 100*time.Millisecond) + hearsLine(t, late, 100*time.Millisecond); got != "" {
		t.Errorf("a proxy that hangs says %q", got)
	}
	restoreProxy(t, p)
	if got := hearsLine(t, c, 20*time.Second) + hearsLine(t, late, 20*time.Second); got != "twothree" {
		t.Errorf("after it hung, it says %q", got)
	}
	if err := p.Refuse(); err != nil {
		t.Error(err)
	}
	if got := hearsLine(t, c, 20*time.Second); got != "" {
		t.Errorf("a closed connection says %q", got)
	}
	if again, err := net.Dial("tcp", p.Address()); err == nil {
		again.Close()
		t.Error("a connection is not refused")
	}
	restoreProxy(t, p)
	c = connectTo(t, p)
	sayLine(t, c, "four")
	if got := hearsLine(t, c, 20*time.Second); got != "four" {
		t.Errorf("after it refused, it says %q", got)
	}
	p.Hang()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func connectTo(t *testing.T, p *tcpProxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func restoreProxy(t *testing.T, p *tcpProxy) {
	t.Helper()
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
}
