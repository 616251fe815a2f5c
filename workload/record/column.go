package record

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// JSON returns a value as the text of a column, without control characters. The types of columns can always be written.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	out := string(b)
	if !strings.ContainsFunc(out, unicode.IsControl) {
		return out
	}
	var escaped strings.Builder // JSON does not escape 0x7f to 0x9f
	for _, r := range out {
		if unicode.IsControl(r) {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	return escaped.String()
}

// Column returns a list or a map as the text of a column: null if it is empty, else JSON.
func Column[T []string | map[string]string | []corev1.Toleration | []corev1.Taint | []corev1.TopologySpreadConstraint](v T) string {
	if len(v) == 0 {
		return ""
	}
	return JSON(v)
}

// ReadColumn reads a JSON column. It leaves into unchanged if the column is null or cannot be read.
func ReadColumn[T any](column string, into *T) error {
	if column == "" {
		return nil
	}
	var out T
	if err := json.Unmarshal([]byte(column), &out); err != nil {
		return err
	}
	*into = out
	return nil
}

// Labels reads a column of labels; the result is never nil. A column that cannot be read has none.
func Labels(column string) map[string]string {
	var out map[string]string
	if ReadColumn(column, &out) != nil || out == nil {
		return map[string]string{}
	}
	return out
}

// Intern shares the texts of a pod that other pods are likely to have, too.
func (p *Pod) Intern() {
	for _, f := range []*string{
		&p.Namespace, &p.OwnerKind, &p.OwnerName, &p.Workload, &p.Scheduler, &p.PriorityClass, &p.Preemption, &p.GPUModels, &p.GPUIndex,
		&p.Extended, &p.Labels, &p.NodeSelector, &p.Affinity, &p.Spread, &p.Tolerations, &p.HostPorts, &p.Claims, &p.Images, &p.Holds,
		&p.DoNotDisrupt,
		&p.Health, &p.End, &p.Node,
	} {
		*f = unique.Make(*f).Value()
	}
}
