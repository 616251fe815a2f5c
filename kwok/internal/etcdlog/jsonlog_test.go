package etcdlog

import (
	"bytes"
	"testing"

	"github.com/rs/zerolog"
)

func TestForward(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"zap warning", `{"level":"warn","ts":"2026","caller":"a.go:1","msg":"slow","took":"3s"}`,
			`{"level":"warn","took":"3s","message":"slow"}`},
		{"slog error", `{"time":"2026","level":"ERROR","source":{"file":"x"},"msg":"no","err":"e"}`,
			`{"level":"error","err":"e","message":"no"}`},
		{"fatal is an error here", `{"level":"fatal","msg":"gone"}`, `{"level":"error","message":"gone"}`},
		{"information", `{"level":"info","msg":"hello"}`, ""},
		{"given up by its client", `{"level":"warn","msg":"retrying","error":"rpc error: code = Canceled desc = context canceled"}`, ""},
		{"unknown level", `{"level":"LOUD","msg":"x"}`, ""},
		{"harmless", `{"level":"ERROR","msg":"no","err":"never mind"}`, `{"level":"debug","err":"never mind","message":"no"}`},
		{"not JSON", "panic: no\n", `{"level":"warn","message":"panic: no"}`},
	} {
		var out bytes.Buffer
		Forward(zerolog.New(&out), []byte(c.in), func(text string) bool { return text == "never mind" })
		want := c.want
		if want != "" {
			want += "\n"
		}
		if out.String() != want {
			t.Errorf("%s: got %q, want %q", c.name, out.String(), want)
		}
	}
}
