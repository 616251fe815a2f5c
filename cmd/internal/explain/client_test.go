package explain

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ucli "github.com/urfave/cli/v2"

	"gnnsched/internal/exit"
	"gnnsched/scheduler/decision"
	"gnnsched/scheduler/shadow"
)

// last asks a server with the flags of a command line.
func last(q decision.Query, args ...string) (records []decision.Record, err error) {
	app := &ucli.App{Flags: serverFlags(), ExitErrHandler: func(*ucli.Context, error) {}, Action: func(c *ucli.Context) error {
		client, err := newClient(c)
		if err == nil {
			records, err = client.Last(c.Context, q)
		}
		return err
	}}
	return records, app.RunContext(context.Background(), append([]string{"test"}, args...))
}

func TestLast(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	book := decision.NewBook(100, nil)
	for i := range 5 {
		book.Decided(decision.Decision{
			Number: uint64(i), Pod: decision.Pod{Namespace: "shop", Name: fmt.Sprint("p-", i)}, At: time.Unix(int64(i), 0), Node: "a\x1b[2J",
		})
	}
	s := httptest.NewTLSServer(book)
	defer s.Close()
	for _, c := range []struct {
		q    decision.Query
		want []string
	}{
		{decision.Query{}, []string{"p-4", "p-3", "p-2", "p-1", "p-0"}},
		{decision.Query{Limit: 2}, []string{"p-4", "p-3"}},
		{decision.Query{Namespace: "shop", Pod: "p-1"}, []string{"p-1"}},
		{decision.Query{Namespace: "shop", Pod: "none"}, nil},
	} {
		got, err := last(c.q, "--server", s.URL+"/", "--token-file", token)
		if err != nil || len(got) != len(c.want) {
			t.Fatalf("%+v: %d records, %v", c.q, len(got), err)
		}
		for i, r := range got {
			if r.Pod != c.want[i] || r.Node != "a[2J" {
				t.Errorf("%+v: %s on %q", c.q, r.Pod, r.Node)
			}
		}
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	for address, code := range map[string]int{strings.Replace(other.URL, "http", "https", 1): exit.Usage,
		"https://127.0.0.1:1": exit.Unreachable} {
		if _, err := last(decision.Query{}, "--server", address, "--token-file", token); exit.Code(err) != code {
			t.Errorf("%s: %v", address, err)
		}
	}
	s.Config.Handler = http.NotFoundHandler()
	if _, err := last(decision.Query{}, "--server", s.URL, "--token-file", token); exit.Code(err) != exit.Usage {
		t.Errorf("a scheduler without a book: %v", err)
	}
	s.Close()
	if _, err := last(decision.Query{}, "--server", s.URL, "--token-file", token); exit.Code(err) != exit.Unreachable {
		t.Errorf("no scheduler: %v", err)
	}
}

// A server that sends more than was asked for does not break who asked, and a replaced token is used.
func TestHostileAnswerAndNewToken(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(token, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	book := decision.NewBook(100, nil)
	for i := range 50 {
		book.Decided(decision.Decision{
			Number: uint64(i), Pod: decision.Pod{Namespace: "shop", Name: fmt.Sprint("p-", i)}, At: time.Unix(int64(i), 0), Node: "a",
		})
	}
	var got []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		r.URL.RawQuery = "" // the limit is ignored
		book.ServeHTTP(w, r)
	}))
	defer s.Close()
	app := &ucli.App{Flags: serverFlags(), Action: func(c *ucli.Context) error {
		client, err := newClient(c)
		if err != nil {
			return err
		}
		for _, next := range []string{"second", "third"} {
			found, err := client.Last(c.Context, decision.Query{Limit: 3})
			if err != nil || len(found) != 3 {
				t.Errorf("%d records, %v", len(found), err)
			}
			write(next)
		}
		return nil
	}}
	if err := app.Run([]string{"test", "--server", s.URL, "--token-file", token}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != "Bearer first" || got[1] != "Bearer second" {
		t.Errorf("tokens %v", got)
	}
}

// A shadow scheduler reports its findings. For another scheduler, or an answer of another form, the error says so.
func TestShadow(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	answer := `{"version": "gnnsched.shadow/v1", "profile": "gnn", "agreement": 0.5, "recent": [{"pod": "shop/p"}]}`
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != shadow.Path || r.Header.Get("Authorization") != "Bearer secret" || answer == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer s.Close()
	ask := func() (found shadow.Live, err error) {
		app := &ucli.App{Flags: serverFlags(), ExitErrHandler: func(*ucli.Context, error) {}, Action: func(c *ucli.Context) error {
			client, err := newClient(c)
			if err == nil {
				found, err = client.Shadow(c.Context)
			}
			return err
		}}
		return found, app.Run([]string{"test", "--server", s.URL, "--token-file", token})
	}
	if l, err := ask(); err != nil || l.Profile != "gnn" || l.Agreement != 0.5 || len(l.Recent) != 1 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, c := range []struct{ answer, says string }{
		{"", "in the shadow of no other one"}, {`{"version": "gnnsched.shadow/v9"}`, "gnnsched.shadow/v9"}, {"x", "not a report"},
	} {
		answer = c.answer
		if _, err := ask(); exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v", c.answer, err)
		}
	}
}
