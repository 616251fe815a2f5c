package sim

// departure is a running pod that leaves at a time.
type departure struct {
	at   float64
	pod  int32 // its arrival
	node int32
}

func (d departure) before(o departure) bool {
	return d.at < o.at || d.at == o.at && d.pod < o.pod
}

// departures is a binary heap with the next pod to leave on top. Unlike container/heap it does not
// box its values, which would allocate memory at every step.
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
