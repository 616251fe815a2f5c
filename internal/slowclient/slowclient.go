// Package slowclient keeps clients that send the body of a request slowly, or never, from holding connections.
package slowclient

import (
	"net/http"
	"time"
)

// Within is the time in which a body must have arrived.
const Within = 30 * time.Second

// Guard returns a handler that gives a body a time to arrive, from when the header is there. Requests without a body, such as those for
// streams, may take longer. A handler may set another deadline.
func Guard(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // a recorder in a test has none
		}
		next.ServeHTTP(w, r)
	})
}
