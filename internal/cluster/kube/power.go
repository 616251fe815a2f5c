package kube

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"gnnsched/internal/cluster"
	"gnnsched/internal/exit"
)

// PowerAnnotation is a node's annotation with the power of its machine in watts, as JSON:
//
//	{"idle": 60, "full": 240, "curve": [100, 140, 190], "sleep": 5}
const PowerAnnotation = "gnnsched.io/power"

// maxPower is the longest annotation that is read, in bytes.
const maxPower = 4 << 10

// Power returns the model in a node's annotation; nil without one. Errors are short and free of control characters.
func Power(n *corev1.Node) (*cluster.PowerModel, error) {
	text, has := n.Annotations[PowerAnnotation]
	if !has {
		return nil, nil
	}
	if len(text) > maxPower {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", PowerAnnotation, len(text), maxPower)
	}
	m := &cluster.PowerModel{}
	err := cluster.DecodeStrict([]byte(text), m)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return nil, errors.New("annotation " + PowerAnnotation + ": " + exit.Clean(strings.ReplaceAll(err.Error(), "\n", "; "), 300))
	}
	return m, nil
}
