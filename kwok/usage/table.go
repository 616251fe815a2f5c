package usage

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/metrics/pkg/apis/metrics"
)

// tableColumns are the columns of `kubectl get nodes.metrics.k8s.io` and `kubectl get pods.metrics.k8s.io`, the
// same as metrics-server's.
var tableColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "name of the node or pod"},
	{Name: "cpu", Type: "string", Format: "quantity", Description: "CPU that it uses"},
	{Name: "memory", Type: "string", Format: "quantity", Description: "memory that it uses"},
	{Name: "Window", Type: "string", Format: "duration", Description: "time for which the figures hold"},
}

// ConvertToTable implements rest.TableConvertor.
func (*storage) ConvertToTable(_ context.Context, o, _ runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: tableColumns}
	add := func(o runtime.Object) error {
		switch m := o.(type) {
		case *metrics.NodeMetrics:
			table.Rows = append(table.Rows, row(m, m.Usage, m.Window))
		case *metrics.PodMetrics:
			var cpu, memory resource.Quantity
			for _, c := range m.Containers {
				cpu.Add(*c.Usage.Cpu())
				memory.Add(*c.Usage.Memory())
			}
			table.Rows = append(table.Rows, row(m, corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}, m.Window))
		default:
			return fmt.Errorf("a %T is no usage of a node or a pod", o)
		}
		return nil
	}
	if meta.IsListType(o) {
		return table, meta.EachListItem(o, add)
	}
	return table, add(o)
}

// row returns the row of an object with the resources that it uses.
func row(o interface {
	runtime.Object
	metav1.Object
}, used corev1.ResourceList, window metav1.Duration) metav1.TableRow {
	return metav1.TableRow{
		Cells:  []any{o.GetName(), used.Cpu().String(), used.Memory().String(), window.Duration.String()},
		Object: runtime.RawExtension{Object: o},
	}
}
