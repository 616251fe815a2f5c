package nodereservation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"gnnsched/internal/cluster/kube"
)

// CordonTime is how long a node stays cordoned by a run of gnnsched defrag that does not renew its mark.
const CordonTime = 10 * time.Minute

// Emptied is the value of kube.DefragAnnotation on the nodes that a run cordoned and emptied.
const Emptied = "emptied"

// Moving returns the value of kube.DefragAnnotation of a node that is cordoned from now on for CordonTime.
func Moving(now time.Time) string {
	return kube.DefragMoving + " until " + now.Add(CordonTime).UTC().Format(time.RFC3339)
}

// Cordoned reports whether a run cordoned the node to move its pods, and until when. Marks of earlier versions have no time.
func Cordoned(n *v1.Node) (until time.Time, is bool) {
	text, is := strings.CutPrefix(n.Annotations[kube.DefragAnnotation], kube.DefragMoving)
	until, _ = time.Parse(time.RFC3339, strings.TrimPrefix(text, " until "))
	return until, is
}

// GiveBack uncordons the nodes of runs that have ended without doing so, and returns their names. It also removes holds that are over, and
// Emptied where somebody has uncordoned the node. over reports whether a mark with this time is.
func GiveBack(ctx context.Context, c kubernetes.Interface, nodes []*v1.Node, over func(until time.Time) bool) (names []string, err error) {
	var errs []error
	for _, n := range nodes {
		annotations, spec := map[string]any{}, map[string]any(nil)
		if until, is := Cordoned(n); is && over(until) {
			names = append(names, n.Name)
			annotations[kube.DefragAnnotation], spec = nil, map[string]any{"unschedulable": nil}
		}
		if n.Annotations[kube.DefragAnnotation] == Emptied && !n.Spec.Unschedulable {
			annotations[kube.DefragAnnotation] = nil
		}
		if text := n.Annotations[kube.HoldsAnnotation]; text != "" && over(lastOf(text)) {
			annotations[kube.HoldsAnnotation] = nil
		}
		if len(annotations) > 0 {
			errs = append(errs, Change{n.Name, n.ResourceVersion, annotations, spec}.Patch(ctx, c))
		}
	}
	return names, errors.Join(errs...)
}

// lastOf returns when the last of a node's holds ends; the zero time if the annotation cannot be read.
func lastOf(annotation string) (out time.Time) {
	var list []Hold
	_ = json.Unmarshal([]byte(annotation), &list)
	for _, h := range list {
		if h.Until.After(out) {
			out = h.Until
		}
	}
	return out
}

// Change is a change of a node.
type Change struct {
	Node, Version     string         // Version "" is any
	Annotations, Spec map[string]any // nil removes a value
}

// Patch makes the change. A node that is gone, or has another version by now, stays as it is.
func (x Change) Patch(ctx context.Context, c kubernetes.Interface) error {
	meta := map[string]any{"annotations": x.Annotations}
	if x.Version != "" {
		meta["resourceVersion"] = x.Version
	}
	all := map[string]any{"metadata": meta}
	if x.Spec != nil {
		all["spec"] = x.Spec
	}
	patch, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = c.CoreV1().Nodes().Patch(ctx, x.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !slices.ContainsFunc([]func(error) bool{apierrors.IsNotFound, apierrors.IsConflict, apierrors.IsInvalid},
		func(is func(error) bool) bool { return is(err) }) {
		return fmt.Errorf("mark node %s: %w", x.Node, err)
	}
	return nil
}
