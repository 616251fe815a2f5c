package tcpproxy

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// echo starts a server that returns each line, and stops it with the test.
func echo(t *testing.T) (address string) {
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

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
}

// hears reads a line, for at most a time; "" if none came.
func hears(t *testing.T, c net.Conn, within time.Duration) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

const long, short = 20 * time.Second, 100 * time.Millisecond

func TestProxy(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("", func(t *testing.T) {
		p, err := Start(echo(t))
		if err != nil {
			t.Fatal(err)
		}
		c := connect(t, p)
		say(t, c, "one")
		if got := hears(t, c, long); got != "one" {
			t.Fatalf("heard %q", got)
		}
		p.Hang()
		late := connect(t, p) // accepted, and served later
		say(t, c, "two")
		say(t, late, "three")
		if got := hears(t, c, short) + hears(t, late, short); got != "" {
			t.Errorf("a proxy that hangs says %q", got)
		}
		restore(t, p)
		if got := hears(t, c, long) + hears(t, late, long); got != "twothree" {
			t.Errorf("after it hung, it says %q", got)
		}
		if err := p.Refuse(); err != nil {
			t.Error(err)
		}
		if got := hears(t, c, long); got != "" {
			t.Errorf("a closed connection says %q", got)
		}
		if again, err := net.Dial("tcp", p.Address()); err == nil {
			again.Close()
			t.Error("a connection is not refused")
		}
		restore(t, p)
		c = connect(t, p)
		say(t, c, "four")
		if got := hears(t, c, long); got != "four" {
			t.Errorf("after it refused, it says %q", got)
		}
		p.Hang()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

func connect(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func restore(t *testing.T, p *Proxy) {
	t.Helper()
	if err := p.Restore(); err != nil {
		t.Fatal(err)
	}
}
