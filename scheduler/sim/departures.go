package sim

// departure is a running pod and when it leaves.
type departure struct {
	at   float64 // in arrivals
	pod  int32   // which arrival it was
	node int32
}

func (d departure) before(o departure) bool {
	return d.at < o.at || d.at == o.at && d.pod < o.pod
}

// departures is a binary heap with the next to leave on top. It is container/heap without
// the interface, whose boxing would allocate at every step.
type departures []departure

func (h *departures) push(d departure) {
	*h = append(*h, d)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(q[parent]) {
			break
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *departures) pop() departure {
	q := *h
	top, last := q[0], len(q)-1
	q[0] = q[last]
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q[child].before(q[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
