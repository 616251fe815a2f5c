package server

import (
	"errors"
	"io"
	"net"
	"sync"
)

// tcpProxy forwards TCP connections to a server, and can make the server look as if it were gone or hung.
type tcpProxy struct {
	target, address string
	hanging         sync.RWMutex // locked for writing while the proxy hangs
	hangs           bool

	mu       sync.Mutex
	listener net.Listener
	closed   net.Listener // the last that was
	open     []net.Conn
}

// startProxy listens on a free port of 127.0.0.1 and forwards to the target, host:port. The caller must call Refuse at the end.
func startProxy(target string) (*tcpProxy, error) {
	p := &tcpProxy{target: target, address: "127.0.0.1:0"}
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.address = p.listener.Addr().String()
	return p, nil
}

func (p *tcpProxy) listen() (err error) {
	if p.listener, err = net.Listen("tcp", p.address); err == nil {
		go p.accept(p.listener)
	}
	return err
}

// Refuse closes all connections and refuses new ones, as if the server had been killed.
func (p *tcpProxy) Refuse() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.listener.Close()
	p.closed = p.listener
	for _, c := range p.open {
		c.Close()
	}
	p.open = nil
	return err
}

// Hang keeps connections, accepts new ones, and forwards nothing, as if the server had been stopped.
func (p *tcpProxy) Hang() error {
	p.hanging.Lock()
	p.hangs = true
	return nil
}

// Restore forwards again. Connections that hung go on.
func (p *tcpProxy) Restore() error {
	if p.hangs {
		p.hangs = false
		p.hanging.Unlock()
		return nil
	}
	return p.listen()
}

// accept forwards each connection to l, until l is closed.
func (p *tcpProxy) accept(l net.Listener) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			from.Close()
			continue
		}
		p.mu.Lock()
		refused := p.closed == l // since it was accepted
		if !refused {
			p.open = append(p.open, from, to)
		}
		p.mu.Unlock()
		if refused {
			_ = errors.Join(from.Close(), to.Close())
			return
		}
		go p.copy(from, to)
		go p.copy(to, from)
	}
}

// gated is a connection to which nothing is written while the proxy hangs.
type gated struct {
	net.Conn
	hanging *sync.RWMutex
}

// Write implements io.Writer.
func (g gated) Write(b []byte) (int, error) {
	g.hanging.RLock()
	defer g.hanging.RUnlock()
	return g.Conn.Write(b)
}

// copy forwards what comes from one connection to the other, and closes both when one ends.
func (p *tcpProxy) copy(to, from net.Conn) {
	_, _ = io.Copy(gated{to, &p.hanging}, from)
	_ = errors.Join(to.Close(), from.Close())
}
