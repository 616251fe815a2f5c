package record

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxWord bounds names in bytes, as API servers do.
	maxWord = validation.DNS1123SubdomainMaxLength
	// maxColumn is the length in bytes of any other text. API servers accept objects up to 3 MiB, which escapes in JSON make longer.
	maxColumn = 16 << 20
)

// names returns an error for the first of some names that Kubernetes does not accept. Names may be empty.
func names(what string, all ...string) error {
	for _, n := range all {
		if n == "" || len(n) <= maxWord && subdomain(n) {
			continue
		}
		if len(n) > maxWord {
			return fmt.Errorf("the name of %s has %d bytes, want %d at most", what, len(n), maxWord)
		}
		return fmt.Errorf("the name of %s, %q, is none that Kubernetes accepts: lower case letters, digits, - and .", what, n)
	}
	return nil
}

// subdomain reports whether validation.IsDNS1123Subdomain accepts the characters of a name. Records have millions of names, so it
// takes no regular expression.
func subdomain(name string) bool {
	edge := true // the next character begins a label, so it must be a letter or digit
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			edge = false
		case c == '.' && !edge && name[i-1] != '-':
			edge = true
		case c != '-' || edge:
			return false
		}
	}
	return !edge && name[len(name)-1] != '-'
}

// texts returns an error for the first text of a row that is too long, is no UTF-8 or has control characters. It looks at every
// column of type string.
func texts[T row](r *T) error {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.String {
			continue
		}
		if text := v.Field(i).String(); len(text) > maxColumn || !plain(text) {
			column, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("parquet"), ",")
			if len(text) > maxColumn {
				return fmt.Errorf("the column %s has %d bytes, want %d at most", column, len(text), maxColumn)
			}
			return fmt.Errorf("the column %s has control characters, or is no UTF-8", column)
		}
	}
	return nil
}

// plain reports whether a text is UTF-8 without control characters.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
		}
	}
	return true
}

// Word returns a record's form of a name that no API server has checked, such as the name of a pod's owner: without control characters, and
// at most as long as a name.
func Word(text string) string {
	if len(text) <= maxWord && plain(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxWord)], ""))
}
