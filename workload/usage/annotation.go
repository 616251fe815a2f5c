package usage

import (
	"encoding/json"
	"errors"
	"fmt"

	"gnnsched/internal/exit"
)

// Annotation is the annotation of a pod with its model as JSON.
const Annotation = "gnnsched.io/usage"

// maxAnnotation is the longest annotation that is read, in bytes. All annotations of an object together have
// 256 KiB.
const maxAnnotation = 64 << 10

// maxMessage is the longest error of ParseAnnotation, in bytes.
const maxMessage = 500

// ParseAnnotation reads a pod's annotation. The owner of the pod wrote it, so it may hold anything: errors
// are short and free of control characters.
func ParseAnnotation(value string) (*Model, error) {
	if len(value) > maxAnnotation {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d; use fewer values", Annotation, len(value), maxAnnotation)
	}
	m := &Model{}
	if err := m.UnmarshalJSON([]byte(value)); err != nil {
		return nil, errors.New("annotation " + Annotation + ": " + exit.Clean(err.Error(), maxMessage))
	}
	return m, nil
}

// FormatAnnotation returns the annotation of a pod with a model. It returns an error if the annotation would be longer than maxAnnotation,
// which happens only with long series.
func FormatAnnotation(m *Model) (string, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	if len(b) > maxAnnotation {
		return "", fmt.Errorf("the model has %d bytes as an annotation of a pod, more than %d; use fewer values or a larger step", len(b),
			maxAnnotation)
	}
	return string(b), nil
}
