// Package choice answers for a name that is not among the known ones: which of them it was probably meant to be, and which there are.
package choice

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xrash/smetrics"

	"gnnsched/internal/each"
	"gnnsched/internal/exit"
)

// Names returns the names of all.
func Names[T any](all []T, name func(T) string) []string { return each.Map(all, name) }

// Find returns the one of all with a name. what is as for Unknown.
func Find[T any](what, name string, all []T, nameOf func(T) string) (found T, err error) {
	i := slices.IndexFunc(all, func(x T) bool { return nameOf(x) == name })
	if i < 0 {
		return found, Unknown(what, name, Names(all, nameOf))
	}
	return all[i], nil
}

// Text is the name of a text.
func Text[T ~string](x T) string { return string(x) }

// Unknown returns the error for an unknown name. what is the kind of thing, such as "policy". The error names the most similar known name,
// if one is similar, and then all known names.
func Unknown(what, name string, known []string) error {
	return errors.New("no " + what + " is called " + exit.Quote(name) + Among(name, known))
}

// Among returns the end of an error about a name that is not among the known ones: " (did you mean X?); there are X, Y, Z".
func Among(name string, known []string) string {
	text := ""
	if right := Closest(name, known); right != "" {
		text = fmt.Sprintf(" (did you mean %s?)", right)
	}
	if len(known) == 0 {
		return text
	}
	return text + "; there are " + strings.Join(known, ", ")
}

// similar is the least likeness, between 0 and 1, of a misspelt name to the known one. Swapped, missing and doubled letters have
// more than 0.9; names that only share some letters have less than 0.8.
const similar = 0.85

// Closest returns the known name that a misspelt one was probably meant to be, or "" if none is similar. Capitals do not count, and
// an underscore is a dash. A name that begins with what was typed is similar too: kube for kube-scheduler.
func Closest(wrong string, known []string) (best string) {
	typed := plain(wrong)
	most := similar
	for _, n := range known {
		of := plain(n)
		s := smetrics.JaroWinkler(typed, of, 0.7, 4)
		if len(typed) >= 3 && (strings.HasPrefix(of, typed) || sorted(of) == sorted(typed)) {
			s = max(s, similar+0.01)
		}
		if s > most {
			best, most = n, s
		}
	}
	return best
}

// sorted returns the letters of a name in order: swapped letters of a short name count as a small mistake.
func sorted(name string) string {
	letters := []byte(name)
	slices.Sort(letters)
	return string(letters)
}

// plain returns a name as Closest compares it.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }
