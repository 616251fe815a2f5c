package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net"
	"net/http"
)

// door lets in requests from this machine that have the key. Other users of the machine can reach the port too.
type door struct {
	key    string
	cookie string // its name; all ports of a host share cookies, so each scheduler has its own name
}

func newDoor() door {
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	return doorWith(base64.RawURLEncoding.EncodeToString(key))
}

func doorWith(key string) door {
	sum := sha256.Sum256([]byte(key))
	return door{key: key, cookie: "gnnsched-" + hex.EncodeToString(sum[:4])}
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
		case r.Method == http.MethodGet && r.URL.Path == "/" && d.is(r.URL.Query().Get("key")):
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
