// Package tcpproxy forwards TCP connections to a server, and can make the server look as if it were gone
// or hung, for tests and benchmarks of outages.
package tcpproxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

// Proxy forwards the connections to its address.
type Proxy struct {
	target, address string
	done            sync.WaitGroup

	mu       sync.Mutex
	moves    *sync.Cond // hangs or ended has changed
	hangs    bool
	ended    bool
	listener net.Listener // nil while connections are refused
	open     map[net.Conn]bool
}

// Start listens on a free port of 127.0.0.1 and forwards to the target, host:port. The caller must call
// Close.
func Start(target string) (*Proxy, error) {
	p := &Proxy{target: target, address: "127.0.0.1:0", open: map[net.Conn]bool{}}
	p.moves = sync.NewCond(&p.mu)
	if err := p.Restore(); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	return p, nil
}

// Address returns the address of the proxy, host:port.
func (p *Proxy) Address() string { return p.address }

// Refuse closes all connections and refuses new ones, as if the server had been killed.
func (p *Proxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refuse()
}

func (p *Proxy) refuse() (err error) {
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
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = true
}

// Restore forwards again. Connections that hung go on.
func (p *Proxy) Restore() error {
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
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.ended = true
	err := p.refuse()
	p.mu.Unlock()
	p.done.Wait()
	return err
}

// accept forwards each connection to l, until l is closed.
func (p *Proxy) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		p.done.Go(func() { p.serve(l, from) })
	}
}

// serve forwards one connection.
func (p *Proxy) serve(l net.Listener, from net.Conn) {
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
func (p *Proxy) add(l net.Listener, c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != l {
		return false
	}
	p.open[c] = true
	return true
}

// close closes a connection, which may be closed already.
func (p *Proxy) close(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	c.Close()
	p.moves.Broadcast()
}

// moving waits while the proxy hangs, and reports whether the connection is open.
func (p *Proxy) moving(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.hangs && p.open[c] {
		p.moves.Wait()
	}
	return p.open[c]
}

// copy forwards what comes from one connection to the other, until one is closed.
func (p *Proxy) copy(to, from net.Conn) {
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
