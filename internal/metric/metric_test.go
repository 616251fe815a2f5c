package metric

import "testing"

func TestValue(t *testing.T) {
	var s Set
	v := s.Counters("counted_total", "For a test.", "a")
	v.WithLabelValues("x").Add(2) // goes nowhere
	if n, err := Value(v.WithLabelValues("x")); n != 0 || err != nil {
		t.Errorf("not registered: %d, %v", n, err)
	}
	s.Register()
	s.Register()
	v.WithLabelValues("x").Add(3)
	for label, want := range map[string]int{"x": 3, "y": 0} {
		if n, err := Value(v.WithLabelValues(label)); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", label, n, err, want)
		}
	}
}
