package moves

// never ends no search.
func never() bool { return false }

// Room looks for the moves that make room for a waiting pod: those on one node, of the fewest pods with the least memory, within the
// limits. On each node the largest pods stay that fit beside the pod; the others go to the fullest nodes that take them. No pod makes room
// for a pod that makes room. It leaves the state as it was. If there are no such moves, the row is negative, and reasons counts why.
func Room(s *State, pod int, l Limits, progress func(done float64)) (steps []Step, row int32, reasons map[string]int) {
	e := newEmptying(s, l, never)
	row, reasons = nowhere, map[string]int{}
	for k := range int32(len(s.nodes)) {
		progress(float64(k) / float64(len(s.nodes)))
		x := e.attempt(strategy{})
		x.barred[k] = true
		if why := x.clear(k, int32(pod)); why != "" {
			reasons[why]++
		} else if x.better(e.best) {
			e.best, row = x, k
		}
	}
	if row < 0 {
		return nil, row, reasons
	}
	return e.result(e.best.steps), row, reasons
}

// clear finds the moves that make room on a node, as steps, and undoes them. why describes the obstacle.
func (x *attempt) clear(row, waits int32) (why string) {
	var off []int32 // the node, for now
	for _, i := range x.pods[row] {
		if x.stays(i) == "" {
			off = append(off, i)
			x.put(i, nowhere, 0)
		}
	}
	defer func() {
		for _, i := range append(off, waits) {
			x.put(i, x.home[i].Row, x.home[i].Devices)
		}
	}()
	if why := x.rules.Refusal(x.all[waits].ID, row, nil); why != "" {
		return why
	}
	x.put(waits, row, x.nodes[row].ChooseDevices(x.all[waits].Requests))
	for _, i := range off {
		p, on := &x.all[i], x.home[i].Devices
		if n := x.nodes[row]; (on == 0 || n.FitsOn(p.Requests, on)) && x.rules.Refusal(p.ID, row, nil) == "" {
			x.put(i, row, on)
			continue
		}
		if !x.place(i) {
			return "has a pod that must go, and " + x.rules.Refusals(p.ID, x.barred)
		}
		x.note(i)
	}
	if x.exceeds() {
		return "needs more moves than the limits allow"
	}
	return ""
}
