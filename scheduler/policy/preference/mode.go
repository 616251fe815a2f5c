package preference

import (
	"encoding/json"
	"fmt"
	"slices"

	"gnnsched/internal/choice"
)

// Mode says how the preferences of manifests count. Preferences are preferred node and pod
// (anti-)affinity, PreferNoSchedule taints, soft topology spread and image locality.
type Mode string

const (
	// First lets the policy choose only among the nodes that upstream's preference plugins like
	// best, upstream's default topology spread included.
	First Mode = "first"
	// Declared is First without what nobody declared: upstream's default topology spread and image
	// locality. It is for clusters that are to be packed.
	Declared Mode = "declared"
	// Blend leaves preferences to upstream's score plugins that a scheduler profile enables beside
	// LearnedScore; kube-scheduler adds up the scores.
	Blend Mode = "blend"
	// Off ignores preferences.
	Off Mode = "off"
)

// Modes are the valid values, the default first.
var Modes = []Mode{First, Declared, Blend, Off}

// Validate returns an error unless m is one of Modes.
func (m Mode) Validate() error { return m.OneOf(Modes) }

// OneOf returns an error unless m is one of modes.
func (m Mode) OneOf(modes []Mode) error {
	if slices.Contains(modes, m) {
		return nil
	}
	return fmt.Errorf("preferences is %q%s", m, choice.Among(string(m), choice.Names(modes, choice.Text)))
}

// UnmarshalJSON implements json.Unmarshaler. It takes false for Off, because YAML reads an unquoted
// off as a boolean.
func (m *Mode) UnmarshalJSON(b []byte) error {
	if string(b) == "false" {
		*m = Off
		return nil
	}
	return json.Unmarshal(b, (*string)(m))
}

// Best appends to rows the indices of the highest sums, in ascending order. Of all nodes these are
// the ones that a policy may choose with First and Declared. There is no tolerance: the sums are
// integers that already round off what does not matter, equal cases get equal sums, and on a large
// cluster one point may be the only sign that another replica is on the node.
func Best(sums []int64, rows []int32) []int32 {
	if len(sums) == 0 {
		return rows
	}
	best := slices.Max(sums)
	for i, v := range sums {
		if v == best {
			rows = append(rows, int32(i))
		}
	}
	return rows
}
