package cluster

import "strconv"

// Effect is the effect of a taint on pods that do not tolerate it.
type Effect string

// The effects of Kubernetes. NoSchedule and NoExecute keep new pods off a node, PreferNoSchedule
// does not.
const (
	NoSchedule       Effect = "NoSchedule"
	PreferNoSchedule Effect = "PreferNoSchedule"
	NoExecute        Effect = "NoExecute"
)

// Taint keeps pods off a node unless they tolerate it.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect Effect `json:"effect"`
}

// ControlPlane reports whether the taint marks a control plane on which ordinary pods cannot run. Some control planes have no such
// taint (k3s, minikube): they are workers too.
func (t Taint) ControlPlane() bool {
	switch t.Key {
	case "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master":
		return t.Effect == NoSchedule || t.Effect == NoExecute
	}
	return false
}

// Toleration lets a pod run on nodes with matching taints. An empty Key matches every key and an
// empty Effect every effect. With Exists, Value is ignored.
type Toleration struct {
	Key, Value string
	Exists     bool
	Effect     Effect
}

// TolerationsKey returns a text that is the same for equal lists, and different for others.
func TolerationsKey(list []Toleration) string {
	var key []byte
	for _, t := range list {
		key = strconv.AppendQuote(key, t.Key)
		key = strconv.AppendQuote(key, t.Value)
		key = strconv.AppendBool(key, t.Exists)
		key = append(append(key, t.Effect...), ';')
	}
	return string(key)
}

// tolerates reports whether t matches the taint x.
func (t Toleration) tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	return t.Exists || (t.Key != "" && t.Value == x.Value)
}

// tolerated reports whether one of the tolerations matches the taint x.
func tolerated(tolerations []Toleration, x Taint) bool {
	for _, t := range tolerations {
		if t.tolerates(x) {
			return true
		}
	}
	return false
}
