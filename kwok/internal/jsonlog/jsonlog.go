// Package jsonlog passes JSON log lines of other programs' loggers on to zerolog.
package jsonlog

import (
	"encoding/json"
	"strings"

	"github.com/rs/zerolog"
)

// Forward passes one JSON line with the fields "level" and "msg" on to log if it is a
// warning or worse. A line that is not JSON is passed on as it is.
func Forward(log zerolog.Logger, line []byte) {
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		log.Warn().Msg(strings.TrimSpace(string(line)))
		return
	}
	name, _ := fields["level"].(string)
	level, err := zerolog.ParseLevel(strings.ToLower(name))
	if err != nil || level < zerolog.WarnLevel || cancelled(fields) {
		return
	}
	msg, _ := fields["msg"].(string)
	for _, k := range []string{"level", "msg", "ts", "time", "caller", "source"} {
		delete(fields, k) // the logger has its own, or nobody needs it
	}
	log.WithLevel(min(level, zerolog.ErrorLevel)).Fields(fields).Msg(msg)
}

// cancelled tells whether the line is about a request that its client gave up, which is no
// fault.
func cancelled(fields map[string]any) bool {
	e, _ := fields["error"].(string)
	return strings.Contains(e, "context canceled") || strings.Contains(e, "code = Canceled")
}
