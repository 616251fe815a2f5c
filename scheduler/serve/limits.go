package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/advise"
	"gnnsched/scheduler/plugin"
)

// limits bounds the number and the time of concurrent requests.
type limits struct {
	slots   chan struct{} // holds a value for each request that is worked on
	timeout time.Duration
}

// worker answers a request with the given body.
type worker func(ctx context.Context, body []byte) (answer any, err error)

// fault is an error with a status for HTTP, and a reason for programs.
type fault struct {
	status int
	reason string
	err    error
}

// Error implements error.
func (f *fault) Error() string { return f.err.Error() }

// Unwrap returns the error.
func (f *fault) Unwrap() error { return f.err }

// bad returns the fault of a malformed request.
func bad(format string, a ...any) *fault {
	return &fault{http.StatusBadRequest, "bad_request", fmt.Errorf(format, a...)}
}

var (
	errOverload = errors.New("too many requests are being answered")
	errDeadline = errors.New("the answer took too long")
	errPanic    = errors.New("a bug in the program ended the answer; its log has the place")
)

// result is a worker's answer.
type result struct {
	answer any
	err    error
}

// bound lets work answer with a body of at most maxBytes, if a slot is free, within the timeout. Work that goes on
// after the timeout keeps its slot until it ends.
func (l *limits) bound(name string, maxBytes int64, work worker) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		select {
		case l.slots <- struct{}{}:
		default:
			w.Header().Set("Retry-After", "1")
			refuse(w, name, &fault{http.StatusTooManyRequests, "overload", errOverload})
			return
		}
		ctx, cancel := context.WithTimeoutCause(r.Context(), l.timeout, errDeadline)
		defer cancel()
		body, err := read(w, r, maxBytes, begun.Add(l.timeout))
		if err != nil {
			<-l.slots
			refuse(w, name, err)
			return
		}
		done := make(chan result, 1)
		inFlight.Inc()
		go func() {
			defer func() { inFlight.Dec(); <-l.slots }()
			done <- l.run(ctx, work, body)
		}()
		select {
		case got := <-done:
			l.write(w, name, got)
		case <-ctx.Done():
			refuse(w, name, context.Cause(ctx))
		}
		duration.WithLabelValues(name).Observe(time.Since(begun).Seconds())
	})
}

// run calls work, and turns a panic into an error.
func (l *limits) run(ctx context.Context, work worker, body []byte) (out result) {
	defer func() {
		if p := recover(); p != nil {
			klog.FromContext(ctx).Error(fmt.Errorf("panic: %v", p), "An answer failed", "stack", string(debug.Stack()))
			out = result{err: errPanic}
		}
	}()
	out.answer, out.err = work(ctx, body)
	return out
}

// write writes the answer or the error.
func (l *limits) write(w http.ResponseWriter, name string, got result) {
	if got.err != nil {
		refuse(w, name, got.err)
		return
	}
	requests.WithLabelValues(name, "ok").Inc()
	respond(w, http.StatusOK, got.answer)
}

// read reads the body of a request, which must be JSON if there may be one, before a point in time.
func read(w http.ResponseWriter, r *http.Request, maxBytes int64, before time.Time) ([]byte, error) {
	if maxBytes == 0 {
		return nil, nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &fault{
			http.StatusUnsupportedMediaType, "bad_request", errors.New("the body must be JSON, with Content-Type: application/json"),
		}
	}
	_ = http.NewResponseController(w).SetReadDeadline(before) // a recorder in a test has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, &fault{http.StatusRequestEntityTooLarge, "too_large", fmt.Errorf("the body is larger than %d bytes", large.Limit)}
	}
	if err != nil {
		return nil, bad("the body cannot be read: %w", err)
	}
	return body, nil
}

// problem is the body of every answer that is not 200.
type problem struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// maxMessage is the number of bytes of an error's message, which may quote the request.
const maxMessage = 500

// refuse answers with an error and counts it by its reason.
func refuse(w http.ResponseWriter, name string, err error) {
	f := faultOf(err)
	requests.WithLabelValues(name, f.reason).Inc()
	respond(w, f.status, problem{f.reason, advise.Shorten(f.Error(), maxMessage)})
}

// faultOf gives an error its status and reason.
func faultOf(err error) *fault {
	var known *fault
	var undecided *plugin.Undecided
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, advise.ErrNotSynced):
		return &fault{http.StatusServiceUnavailable, "not_ready", err}
	case errors.Is(err, errDeadline), errors.Is(err, context.DeadlineExceeded):
		return &fault{http.StatusServiceUnavailable, "deadline", errDeadline}
	case errors.As(err, &undecided):
		return &fault{http.StatusServiceUnavailable, "undecided", err}
	case errors.Is(err, context.Canceled):
		return &fault{http.StatusServiceUnavailable, "gone", err}
	}
	return &fault{http.StatusInternalServerError, "error", err}
}

// respond writes a JSON document.
func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may have gone
}

// door lets those in who have a client certificate or a token.
type door struct {
	config Config
	who    authenticator.Request
}

// newDoor reads the tokens. ca is nil if client certificates are not taken.
func newDoor(c Config, ca *dynamiccertificates.DynamicFileCAContent) (*door, error) {
	var ways []authenticator.Request
	if ca != nil {
		ways = append(ways, x509.NewDynamic(ca.VerifyOptions, x509.CommonNameUserConversion))
	}
	if c.TokenFile != "" {
		tokens, err := tokenfile.NewCSV(c.TokenFile)
		if err != nil {
			return nil, exit.New(exit.Usage, fmt.Errorf("read the tokens: %w", err), "a line of --token-auth-file is: token,user,uid")
		}
		ways = append(ways, bearertoken.New(tokens))
	}
	return &door{config: c, who: union.New(ways...)}, nil
}

var (
	errNoCredentials = errors.New("the request has neither a valid client certificate nor a valid bearer token")
	errNotAllowed    = errors.New("the caller's name is not among the allowed ones")
)

// guard answers 401 to callers that cannot be verified, and 403 to names that are not allowed.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, ok, err := d.who.AuthenticateRequest(r)
		switch {
		case err != nil || !ok: // the answer does not tell the exact fault
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, "door", &fault{http.StatusUnauthorized, "unauthorized", errNoCredentials})
		case len(d.config.AllowedNames) > 0 && !slices.Contains(d.config.AllowedNames, caller.User.GetName()):
			refuse(w, "door", &fault{http.StatusForbidden, "forbidden", errNotAllowed})
		default:
			next.ServeHTTP(w, r)
		}
	})
}
