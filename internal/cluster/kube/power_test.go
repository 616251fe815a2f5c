package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPower(t *testing.T) {
	node := func(text string) *corev1.Node {
		n := &corev1.Node{}
		n.Annotations = map[string]string{PowerAnnotation: text}
		return n
	}
	m, err := Power(node(`{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}`))
	if err != nil || m.Idle != 60 || m.At(0.5) != 140 || *m.Sleep != 5 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := Power(&corev1.Node{}); m != nil || err != nil {
		t.Errorf("without an annotation: %+v, %v", m, err)
	}
	for text, want := range map[string]string{
		"":                           "annotation gnnsched.io/power: ",
		"60":                         "annotation gnnsched.io/power: ",
		`{"idle": 60}`:               "full: 0 is not 60 to 100000 watts",
		`{}`:                         "full: 0 is not 0.001 to 100000 watts",
		`{"idle": 1, "max": 2}`:      "max",
		`{"idle": "\n\u001b[31m"}`:   "annotation gnnsched.io/power: ",
		strings.Repeat(" ", 5000):    "5000 bytes, more than 4096",
		`{"idle": -1, "full": 1e99}`: "idle: -1",
	} {
		m, err := Power(node(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\x1b") || m != nil {
			t.Errorf("%.40q: %+v, %v, want %q", text, m, err, want)
		}
	}
}
