package counted

import (
	"testing"

	"k8s.io/component-base/metrics"
)

func TestValue(t *testing.T) {
	v := metrics.NewCounterVec(&metrics.CounterOpts{Name: "gnnsched_counted_total", Help: "For a test."}, []string{"a"})
	v.WithLabelValues("x").Add(2) // goes nowhere
	if n, err := Value(v.WithLabelValues("x")); n != 0 || err != nil {
		t.Errorf("not registered: %d, %v", n, err)
	}
	metrics.NewKubeRegistry().MustRegister(v)
	v.WithLabelValues("x").Add(3)
	for label, want := range map[string]int{"x": 3, "y": 0} {
		if n, err := Value(v.WithLabelValues(label)); n != want || err != nil {
			t.Errorf("%s: %d, %v; want %d", label, n, err, want)
		}
	}
}
