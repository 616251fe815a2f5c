package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"
	"time"
)

const (
	// maxRequest bounds the bytes of a request to the sandbox.
	maxRequest = 64 << 10
	// sandboxWait limits how long a request waits for the previous run, which ends soon after its client has left.
	sandboxWait = 2 * time.Second
	// chunk is the number of bytes of output that are sent together.
	chunk = 32 << 10
)

// sandboxOptions answers with the values that a sandbox request may have.
func (s *server) sandboxOptions(w http.ResponseWriter, _ *http.Request) { respond(w, sandboxOptions()) }

// scenario answers with a request as a scenario file of gnnsched eval.
func (s *server) scenario(w http.ResponseWriter, r *http.Request) {
	var request runRequest
	if status, err := readJSON(w, r, &request); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	text, err := request.Scenario()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, text) // the client may have gone
}

// play answers with a run of the sandbox, a JSON object a line. There is one run at a time; it ends with its client.
func (s *server) play(w http.ResponseWriter, r *http.Request) {
	var request runRequest
	if status, err := readJSON(w, r, &request); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	select {
	case s.playing <- struct{}{}:
		defer func() { <-s.playing }()
	case <-r.Context().Done():
		return
	case <-s.config.Clock.After(sandboxWait):
		w.Header().Set("Retry-After", "5")
		http.Error(w, "the sandbox is in use", http.StatusTooManyRequests)
		return
	}
	if err := request.Validate(); err != nil { // it makes the policies, without rests, so there is one at a time as of the runs
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := sink{w, http.NewResponseController(w), s.config.patience}
	var text bytes.Buffer
	err := runSandbox(r.Context(), s.config.Clock, request, func(line line) error {
		if err := json.NewEncoder(&text).Encode(line); err != nil {
			return err
		}
		if text.Len() < chunk && line.Start == nil && line.End == nil {
			return nil
		}
		defer text.Reset()
		return out.send(text.Bytes())
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) // the client may have gone
	}
}

// readJSON reads a request's body. For a bad body it returns the status of the answer.
func readJSON(w http.ResponseWriter, r *http.Request, v any) (status int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return http.StatusUnsupportedMediaType, errors.New("the body must be JSON, with Content-Type: application/json")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerTimeout)) // a recorder in a test has none
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return http.StatusBadRequest, inWords(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return http.StatusBadRequest, errors.New("the body has more than one value")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return 0, nil
}

// kinds are the names of JSON's values, by the kind of Go's type.
var kinds = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Uint64: "a whole number of at least 0", reflect.Float64: "a number", reflect.Bool: "true or false",
	reflect.String: "a text", reflect.Slice: "a list", reflect.Map: "an object", reflect.Struct: "an object",
}

// inWords returns the error of a body in the words of JSON and of the request's fields.
func inWords(err error) error {
	var kind *json.UnmarshalTypeError
	var large *http.MaxBytesError
	switch field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); {
	case errors.As(err, &kind):
		return fmt.Errorf("%s: want %s, got %s", cmp.Or(kind.Field, "the body"), kinds[kind.Type.Kind()], kind.Value)
	case errors.As(err, &large):
		return fmt.Errorf("the body has more than %d bytes", large.Limit)
	case unknown:
		return fmt.Errorf("no field is called %s", field)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the body ends early: it is no JSON object")
	}
	return fmt.Errorf("the body is not JSON: %w", err)
}
