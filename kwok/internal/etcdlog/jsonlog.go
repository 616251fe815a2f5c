package etcdlog

import (
	"encoding/json"
	"strings"

	"github.com/rs/zerolog"
)

// Forward passes one JSON line with the fields "level" and "msg" to log if it is a warning or an
// error. If harmless is not nil and true for the line's error, Forward logs the line at level debug.
// It logs a line that is not JSON as a warning.
func Forward(log zerolog.Logger, line []byte, harmless func(text string) bool) {
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
	if text, ok := fields["err"].(string); ok && harmless != nil && harmless(text) {
		level = zerolog.DebugLevel
	}
	msg, _ := fields["msg"].(string)
	for _, k := range []string{"level", "msg", "ts", "time", "caller", "source"} {
		delete(fields, k) // log has its own, or they are not needed
	}
	log.WithLevel(min(level, zerolog.ErrorLevel)).Fields(fields).Msg(msg)
}

// cancelled reports whether the line is about a request that its client cancelled, which is not a
// fault.
func cancelled(fields map[string]any) bool {
	e, _ := fields["error"].(string)
	return strings.Contains(e, "context canceled") || strings.Contains(e, "code = Canceled")
}
