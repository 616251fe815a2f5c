package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"gnnsched/internal/exit"
	"gnnsched/internal/fatal"
)

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0": "127.0.0.1:0", "127.0.0.1:1": "127.0.0.1:1", "[::1]:80": "[::1]:80",
		"localhost:80": "localhost:80", "127.9.9.9:80": "127.9.9.9:80",
		"": "", "0.0.0.0:80": "", "10.0.0.1:80": "", "[::]:80": "", "example.org:80": "", "65536": "", "-1": "", "http": "", "::1:80": "",
		"localhost": "", "localhost.evil.example:80": "",
	} {
		got, err := addressOf(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		var e *exit.Error
		if err != nil && (!errors.As(err, &e) || e.Code != exit.Usage || e.Hint == "") {
			t.Errorf("%q: %v is no usage error with a hint", text, err)
		}
	}
}

// A ticket opens the page once, and the key always.
func TestTicket(t *testing.T) {
	d := newDoor()
	guarded := d.guard(http.NotFoundHandler())
	open := func(key string) int {
		w := httptest.NewRecorder()
		guarded.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/?key="+key, nil))
		return w.Code
	}
	for i, x := range []struct {
		key  string
		want int
	}{
		{d.ticket, http.StatusSeeOther}, {d.ticket, http.StatusUnauthorized}, {d.key, http.StatusSeeOther}, {d.key, http.StatusSeeOther},
		{"", http.StatusUnauthorized},
	} {
		if got := open(x.key); got != x.want {
			t.Errorf("%d: %d, want %d", i, got, x.want)
		}
	}
}

// The link with the key is for a terminal, or for a file that others cannot read.
func TestLink(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, terminal := range []bool{true, false} {
		var said bytes.Buffer
		out, remove, err := linkTo(&said, terminal)
		fatal.If(t, err)
		io.WriteString(out, "key")
		files := fatal.Value(filepath.Glob(filepath.Join(os.TempDir(), "*")))(t)
		if terminal != strings.Contains(said.String(), "key") || terminal != (len(files) == 0) {
			t.Errorf("terminal %t: %q, %v", terminal, said.String(), files)
		}
		for _, f := range files {
			if i, err := os.Stat(f); err != nil || i.Mode().Perm() != 0o600 || !strings.Contains(said.String(), f) {
				t.Errorf("%v, %v", i.Mode(), err)
			}
		}
		remove()
		if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
			t.Error("left:", left, err)
		}
	}
}

// Only requests to a loopback host with the key come in, and none of another page.
func TestDoor(t *testing.T) {
	s := newTestServer(t, config{}, frozen{frame: frameOf(1)})
	key := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: s.door.cookie, Value: s.door.key}) }
	for _, c := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"the key", "GET", "/", key, 200},
		{"through a tunnel", "GET", "/", func(r *http.Request) { key(r); r.Host = "localhost:9999" }, 200},
		{"IPv6", "GET", "/", func(r *http.Request) { key(r); r.Host = "[::1]:9999" }, 200},
		{"no key", "GET", "/", func(*http.Request) {}, 401},
		{"no key to the stream", "GET", "/api/stream", func(*http.Request) {}, 401},
		{"no key to a file", "GET", "/main.js", func(*http.Request) {}, 401},
		{"a wrong key", "GET", "/?key=wrong", func(*http.Request) {}, 401},
		{"an empty key", "GET", "/?key=", func(*http.Request) {}, 401},
		{"a wrong cookie", "GET", "/", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: s.door.cookie, Value: "wrong"}) }, 401},
		{"the key elsewhere", "GET", "/api/events?key=sesame", func(*http.Request) {}, 401},
		{"a name that resolves to loopback", "GET", "/", func(r *http.Request) { key(r); r.Host = "evil.example" }, 421},
		{"that name with the key", "GET", "/?key=sesame", func(r *http.Request) { r.Host = "evil.example:8080" }, 421},
		{"a name that begins alike", "GET", "/", func(r *http.Request) { key(r); r.Host = "localhost.evil.example" }, 421},
		{"another site's page", "GET", "/api/events", func(r *http.Request) { key(r); r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"another port's page", "GET", "/api/events", func(r *http.Request) { key(r); r.Header.Set("Sec-Fetch-Site", "same-site") }, 403},
		{"the page itself", "GET", "/api/events", func(r *http.Request) { key(r); r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
		{"a link", "GET", "/", func(r *http.Request) {
			key(r)
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Sec-Fetch-Mode", "navigate")
		}, 200},
		{"another method", "DELETE", "/api/events", key, 405},
		{"another origin's form", "POST", "/api/events", func(r *http.Request) { key(r); r.Header.Set("Origin", "http://localhost:1") }, 403},
	} {
		r := fatal.Value(http.NewRequestWithContext(t.Context(), c.method, s.http.URL+c.path, nil))(t)
		c.change(r)
		resp, _ := do(t, r)
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s, want %d", c.name, resp.Status, c.want)
		}
		if h := resp.Header; h.Get("Content-Security-Policy") != contentPolicy || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", c.name, h)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+"/?key=sesame", nil)
	resp, _ := do(t, r)
	if cookie := resp.Header.Get("Set-Cookie"); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" ||
		!strings.Contains(cookie, "HttpOnly; SameSite=Strict") {
		t.Errorf("%s to %s with %q", resp.Status, resp.Header.Get("Location"), cookie)
	}
	if strings.Contains(contentPolicy, "unsafe") {
		t.Error("the policy allows more than the page's files")
	}
}

// start serves at the printed address, watches the cluster, and leaves nothing behind.
func TestStart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	client := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}})
	_, stop, err := start(t.Context(), config{Address: "127.0.0.1:0", Client: client, Out: &out})
	fatal.If(t, err)
	address := strings.TrimSuffix(strings.TrimPrefix(out.String(), "Open "), " in a browser\n")
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	resp := fatal.Value(browser.Get(address))(t)
	page, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(page), "main.js") || resp.Request.URL.RawQuery != "" {
		t.Errorf("%s at %s: %v: %.80s", resp.Status, resp.Request.URL, err, page)
	}
	_ = resp.Body.Close()
	u, _ := url.Parse(address)
	resp, err = browser.Get("http://" + u.Host + "/api/stream")
	fatal.If(t, err)
	e := newStream(t, resp.Body)
	if got := e.next(topicCluster); !strings.Contains(got, `"node-a"`) {
		t.Errorf("%s", got)
	}
	if _, _, err := start(t.Context(), config{Address: u.Host, Client: client}); exit.Code(err) != exit.Usage {
		t.Errorf("a port in use: %v", err)
	}
	stop()
	if _, err := io.ReadAll(resp.Body); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, net.ErrClosed) {
		t.Errorf("the stream ends with %v", err)
	}
	browser.CloseIdleConnections()
}

// pipes listens to one connection that holds nothing: a write waits until the client reads.
type pipes struct{ connections chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, open := <-p.connections
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// A client that does not read is dropped, and the scheduler's book never waits for it.
func TestSlowClient(t *testing.T) {
	s := newTestServer(t, config{patience: 5 * time.Second}, frozen{frame: frameOf(100)})
	there, here := net.Pipe()
	p := pipes{make(chan net.Conn, 1)}
	p.connections <- there
	h := &http.Server{Handler: s.handler()}
	done := make(chan struct{})
	go func() { defer close(done); _ = h.Serve(p) }()
	fatal.Value(io.WriteString(here, "GET /api/stream HTTP/1.1\r\nHost: localhost\r\nCookie: "+s.door.cookie+"=sesame\r\n\r\n"))(t)
	if _, err := io.ReadFull(here, make([]byte, 1)); err != nil || !s.feed.watched() { // the rest waits for a reader
		t.Fatalf("no stream: %v", err)
	}
	for i := range 5000 {
		s.book.Decided(decided(i, "web"))
	}
	fatal.UntilTrue(t, "it to be so", func() bool { return !s.feed.watched() })
	close(p.connections)
	_ = here.Close()
	_ = h.Shutdown(context.WithoutCancel(t.Context()))
	<-done
}
