package convert

import (
	"fmt"
	"strings"
)

// roster joins a table of machines with the measurements of other tables, by the names of machines.
type roster struct {
	what, table string // such as machine and vmtable.csv
	given       map[string]size
	measured    map[string]bool // machines of the table
	strangers   map[string]bool // measured machines that the table lacks
}

// size is a machine's size: cores and bytes.
type size struct {
	cores  float64
	memory int64
}

func newRoster(what, table string) *roster {
	return &roster{what, table, map[string]size{}, map[string]bool{}, map[string]bool{}}
}

// is notes the size of a machine.
func (o *roster) is(name string, s size) { o.given[strings.Clone(name)] = s }

// of returns the size of a measurement's machine. ok is false if the table lacks the machine.
func (o *roster) of(t *table, name string) (s size, ok bool) {
	s, ok = o.given[name]
	switch {
	case ok && !o.measured[name]:
		o.measured[strings.Clone(name)] = true
	case !ok && len(o.given) == 0:
		t.fail("no %s is known yet: give %s before the measurements", o.what, o.table)
	case !ok && !o.strangers[name]:
		o.strangers[strings.Clone(name)] = true
	}
	return s, ok
}

// close notes the rows without a counterpart. It returns an error if no row has one.
func (o *roster) close(r *reading) error {
	silent := map[string]bool{}
	for name := range o.given {
		if !o.measured[name] {
			silent[name] = true
		}
	}
	switch {
	case len(o.measured) == 0 && len(o.strangers) > 0:
		return fmt.Errorf("no measurement belongs to a %s of %s: it has %s, the measurements are of %s",
			o.what, o.table, some(silent), some(o.strangers))
	case len(o.measured) == 0 && len(silent) > 0:
		return fmt.Errorf("no file has measurements of the %ss of %s; name those files too", o.what, o.table)
	}
	if len(silent) > 0 {
		r.note("%ss of %s were left out, as they have no measurements: %s", o.what, o.table, some(silent))
	}
	if len(o.strangers) > 0 {
		r.note("measurements were left out, as %s lacks their %ss: %s", o.table, o.what, some(o.strangers))
	}
	return nil
}

// some returns the number of names and the first one in order.
func some(names map[string]bool) string {
	first, any := "", false
	for name := range names {
		if !any || name < first {
			first, any = name, true
		}
	}
	return fmt.Sprintf("%d (%.60q is the first)", len(names), first)
}
