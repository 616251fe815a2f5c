package metric

import (
	"net/http"
	"time"
)

// SlowClientLimit is the time in which a body must have arrived.
const SlowClientLimit = 30 * time.Second

// GuardSlowClients returns a handler that gives a body a time to arrive, from when the header is there. Requests without a body, such
// as those for streams, may take longer. A handler may set another deadline.
func GuardSlowClients(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // a recorder in a test has none
		}
		next.ServeHTTP(w, r)
	})
}
