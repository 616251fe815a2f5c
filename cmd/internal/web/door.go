package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	ucli "github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gnnsched/internal/cli"
	"gnnsched/internal/exit"
	"gnnsched/scheduler/plugin"
	"gnnsched/scheduler/shadow"
	measured "gnnsched/scheduler/usage"
)

// door lets in requests from this machine that have the key. Other users of the machine can reach the port too.
type door struct {
	key    string
	cookie string // its name; all ports of a host share cookies, so each scheduler has its own name
	ticket string // opens the door once, in place of the key: other users see the arguments of a browser
	used   *atomic.Bool
}

func newDoor() door { return doorWith(newKey()) }

func newKey() string {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	return base64.RawURLEncoding.EncodeToString(key)
}

func doorWith(key string) door {
	sum := sha256.Sum256([]byte(key))
	return door{key: key, cookie: "gnnsched-" + hex.EncodeToString(sum[:4]), ticket: newKey(), used: &atomic.Bool{}}
}

// contentPolicy allows the page's own files only.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'"

// guard answers the requests that the door refuses.
func (d door) guard(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next) // of requests that change or cost something
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !loopback(hostOf(r)):
			// A page elsewhere whose name was made to resolve to this machine.
			http.Error(w, "this server answers at localhost and 127.0.0.1 only", http.StatusMisdirectedRequest)
		case r.Method == http.MethodGet && r.URL.Path == "/" && d.opens(r.URL.Query().Get("key")):
			http.SetCookie(w, &http.Cookie{Name: d.cookie, Value: d.key, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, "/", http.StatusSeeOther) // so that the key does not stay in the address bar
		case !d.knows(r):
			http.Error(w, "Open the address that the scheduler printed when it started: it has the key.", http.StatusUnauthorized)
		case foreign(r):
			http.Error(w, "a page of another server asks", http.StatusForbidden)
		default:
			sameOrigin.ServeHTTP(w, r)
		}
	})
}

func (d door) is(key string) bool { return subtle.ConstantTimeCompare([]byte(key), []byte(d.key)) == 1 }

// opens reports whether a key is the door's, or its ticket, which is then used up.
func (d door) opens(key string) bool {
	return d.is(key) || subtle.ConstantTimeCompare([]byte(key), []byte(d.ticket)) == 1 && d.used.CompareAndSwap(false, true)
}

// knows reports whether the request has the key in its cookie.
func (d door) knows(r *http.Request) bool {
	c, err := r.Cookie(d.cookie)
	return err == nil && d.is(c.Value)
}

// foreign reports whether the browser marks the request as another page's, unless it is only a link to this page. Pages at other ports of
// this machine get the cookie, too.
func foreign(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	link := r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	return site != "" && site != "same-origin" && site != "none" && !link
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return r.Host
}

// Flag is the name of the schedulers' flag.
const Flag = "http"

// Flags returns the flags of a scheduler that serves the page.
func Flags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: Flag, Usage: "serve a page for a browser at `ADDRESS`, a port or 127.0.0.1:PORT; 0 for any. " +
			"Prints its link, off a terminal into a file"},
	}
}

// Check returns an error with exit code 2 if the flag's value is wrong.
func Check(c *ucli.Context) error {
	if !c.IsSet(Flag) {
		return nil
	}
	_, err := addressOf(c.String(Flag))
	return err
}

// Shown is the cluster and the scheduler that the page shows.
type Shown struct {
	Title     string // names the cluster
	Client    kubernetes.Interface
	Recording plugin.Recording // of the scheduler; may hold nothing
	// Shadow returns the findings so far of a shadow scheduler; nil for a scheduler that places pods.
	Shadow func(context.Context) (shadow.Live, error)
	Race   func() Race          // contenders on the same arrivals, which the page opens on; nil if there are none
	Opened func(address string) // is called with an address of the page that opens it once; may be nil
}

// Serve starts the page if the flag has a value. stop ends it.
func Serve(c *ucli.Context, of Shown) (stop func(), err error) {
	if c.String(Flag) == "" {
		return func() {}, nil
	}
	address, err := addressOf(c.String(Flag))
	if err != nil {
		return nil, err
	}
	out, remove, err := linkTo(c.App.ErrWriter, cli.OnTerminal())
	if err != nil {
		return nil, err
	}
	d := newDoor()
	link, end, err := start(c.Context, config{
		door: &d, Address: address, Title: of.Title, Client: of.Client, Book: of.Recording.Book, Curves: of.Recording.Curves,
		Shadow: of.Shadow, Race: of.Race, Usage: measured.Reports, Checkpoint: c.String("checkpoint"),
		Log: klog.Background(), Out: out,
	})
	if err != nil {
		remove()
		return nil, err
	}
	if of.Opened != nil {
		of.Opened(strings.Replace(link, d.key, d.ticket, 1))
	}
	return func() { end(); remove() }, nil
}

// linkTo returns where the link with the page's key is written: a terminal, else a file for this user alone, since others may read logs.
func linkTo(errs io.Writer, terminal bool) (out io.Writer, remove func(), err error) {
	if terminal {
		return errs, func() {}, nil
	}
	f, err := os.CreateTemp("", "gnnsched-page-*")
	if err != nil {
		return nil, nil, exit.New(exit.Usage, fmt.Errorf("--%s: a file for the link: %w", Flag, err), "name a folder with TMPDIR")
	}
	fmt.Fprintf(errs, "The link to the page is in %s\n", f.Name())
	return f, func() { f.Close(); os.Remove(f.Name()) }, nil
}

// addressOf returns HOST:PORT of the flag's value, in which the host may be missing. Other hosts than loopback are usage
// errors.
func addressOf(text string) (string, error) {
	host, port := "", text
	if strings.Contains(text, ":") {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return "", exit.New(exit.Usage, fmt.Errorf("--%s %q is no address", Flag, text), "for example --http 8080 or --http 127.0.0.1:8080")
		}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s %q: the port must be 1 to 65535, or 0 for any", Flag, text), "for example --http 8080")
	}
	host = cmp.Or(host, "127.0.0.1")
	if !loopback(host) {
		return "", exit.New(exit.Usage, fmt.Errorf("--%s serves on this machine only, and %q is not loopback", Flag, host),
			fmt.Sprintf("serve on loopback, and reach it with `ssh -L %s:127.0.0.1:%s HOST` or `kubectl port-forward POD %s`", port, port, port))
	}
	return net.JoinHostPort(host, port), nil
}

// loopback reports whether a host, without a port, is this machine's loopback interface.
func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
