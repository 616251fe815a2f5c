package runfolder

import (
	"maps"
	"net/url"
	"regexp"
	"strings"
)

// hidden stands where a secret stood.
const hidden = "REDACTED"

// secretName matches names of flags and settings whose values are secrets.
var secretName = regexp.MustCompile(`(?i)(token|passw|secret|credential|api-?key|private-?key|client-?key|authorization|bearer)`)

// secretValue matches secrets within any value: the text after Bearer or Basic, and JSON web tokens.
var secretValue = regexp.MustCompile(`(?i)\b(bearer|basic)\s+\S+|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+`)

// address matches a URL in a value.
var address = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://\S+`)

// redactCommand returns a command line without its secrets: the values of flags with telling names, and the values that redact removes.
func redactCommand(args []string) []string {
	out := make([]string, len(args))
	next := false // the previous argument was a flag with a secret, without its value
	for i, a := range args {
		name, _, with := strings.Cut(a, "=")
		isFlag := strings.HasPrefix(a, "-")
		switch {
		case next && !isFlag:
			out[i] = hidden
		case isFlag && with && secretName.MatchString(name):
			out[i] = name + "=" + hidden
		default:
			out[i] = redact(a)
		}
		next = isFlag && !with && secretName.MatchString(name)
	}
	return out
}

func redactSettings(settings map[string]string) map[string]string {
	out := maps.Clone(settings)
	for name, value := range out {
		if out[name] = redact(value); secretName.MatchString(name) && value != "" {
			out[name] = hidden
		}
	}
	return out
}

// redact removes users and passwords of URLs, their parameters with secret names, and tokens from a value.
func redact(value string) string {
	value = address.ReplaceAllStringFunc(value, func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			return hidden // it may hold anything
		}
		query := u.Query()
		changed := u.User != nil
		u.User = nil
		for name := range query {
			if secretName.MatchString(name) || strings.EqualFold(name, "key") {
				query.Set(name, hidden)
				u.RawQuery, changed = query.Encode(), true
			}
		}
		if !changed {
			return s
		}
		return u.String()
	})
	return secretValue.ReplaceAllString(value, hidden)
}
