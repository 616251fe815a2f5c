package usage

import "strconv"

// writer writes a page of metrics in Prometheus' text format.
type writer struct {
	buf   []byte
	name  string  // of the current family
	since float64 // seconds since the sample
}

// page appends the families of a page for one node.
func (w *writer) page(p page, n *nodeSample) {
	for i := range p {
		f := &p[i]
		w.name = f.name
		w.text("# HELP ", f.name, " ", f.help, "\n# TYPE ", f.name, " ", f.kind, "\n")
		for _, write := range f.lines {
			write(w, n)
		}
	}
}

// line appends one sample. labels are names and values by turns. The values need no escapes: they are names
// that the API server has checked.
func (w *writer) line(value float64, labels ...string) {
	w.text(w.name)
	for i := 0; i < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		w.text(open, labels[i], `="`, labels[i+1], `"`)
	}
	if len(labels) > 0 {
		w.text("}")
	}
	w.text(" ")
	w.buf = strconv.AppendFloat(w.buf, value, 'g', -1, 64)
	w.text("\n")
}

func (w *writer) text(parts ...string) {
	for _, s := range parts {
		w.buf = append(w.buf, s...)
	}
}
