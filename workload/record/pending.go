package record

import "slices"

// pending holds the rows of one table that no file has yet, in the order of their last change.
type pending[T row] struct {
	rows []T
	at   map[key]int // index in rows
	lost int64       // rows that were dropped
}

// put adds a row, or replaces the pending row of its key.
func (p *pending[T]) put(r T) {
	k := keyOf(&r)
	if i, ok := p.at[k]; ok {
		p.rows[i] = r
		return
	}
	if p.at == nil {
		p.at = map[key]int{}
	}
	p.at[k] = len(p.rows)
	p.rows = append(p.rows, r)
}

// add adds a row whose key is new.
func (p *pending[T]) add(r T) { p.rows = append(p.rows, r) }

// drop drops the oldest rows, a quarter of the limit at a time, if there are more than the limit.
func (p *pending[T]) drop(limit int) {
	if len(p.rows) <= limit {
		return
	}
	n := len(p.rows) - limit + limit/4
	p.lost += int64(n)
	p.rows = slices.Delete(p.rows, 0, n)
	if p.at == nil {
		return
	}
	clear(p.at)
	for i := range p.rows {
		p.at[keyOf(&p.rows[i])] = i
	}
}

// flush writes the rows as one part, if there are any, and then forgets them.
func (p *pending[T]) flush(dir string, number int) (written int, err error) {
	if len(p.rows) == 0 {
		return 0, nil
	}
	err = write(dir, part{tableOf[T](), number, number}, func(put func([]T) error) error { return put(p.rows) })
	if err != nil {
		return 0, err
	}
	written = len(p.rows)
	clear(p.rows)
	p.rows, p.at = p.rows[:0], nil
	return written, nil
}
