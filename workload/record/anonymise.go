package record

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"gnnsched/internal/cluster/kube"
)

// Anonymiser replaces names by pseudonyms: of pods, namespaces, owners, nodes, images, claims, classes and schedulers, and the keys and
// values of labels, taints and selectors. Equal names get equal pseudonyms everywhere, so selectors match as before. Only the key's owner
// can find the name behind a pseudonym, by trying names.
//
// Well-known keys of labels stay (see wellKnown), and the values of keys for the operating system or the architecture stay, too. Node
// affinity with Gt and Lt compares values as numbers, which pseudonyms are not; such terms match nothing afterwards.
//
// Its methods may be called from several goroutines.
type Anonymiser struct {
	mu    sync.Mutex
	key   []byte
	known map[string]string
}

// keyBytes is the least length of an Anonymiser's key.
const keyBytes = 16

// NewAnonymiser returns an anonymiser. The same key gives the same pseudonyms.
func NewAnonymiser(key []byte) (*Anonymiser, error) {
	if len(key) < keyBytes {
		return nil, fmt.Errorf("a key of %d bytes is too short; use %d or more", len(key), keyBytes)
	}
	return &Anonymiser{key: key, known: map[string]string{}}, nil
}

// maxKnown bounds the memory for pseudonyms that were computed before.
const maxKnown = 100_000

// name returns the pseudonym of a name: a DNS label, which is also a value of a label. The empty name stays.
func (a *Anonymiser) name(s string) string {
	if s == "" {
		return ""
	}
	if p, ok := a.known[s]; ok {
		return p
	}
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(s)) //nolint:errcheck // never fails
	p := "x" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:10]))
	if len(a.known) >= maxKnown {
		clear(a.known)
	}
	a.known[strings.Clone(s)] = p
	return p
}

func (a *Anonymiser) names(list []string) {
	for i := range list {
		list[i] = a.name(list[i])
	}
}

// labelKey returns the pseudonym of a label's or taint's key, unless it is well known.
func (a *Anonymiser) labelKey(s string) string {
	if wellKnown[s] {
		return s
	}
	return a.name(s)
}

// labelValue returns the pseudonym of the value of a label.
func (a *Anonymiser) labelValue(key, value string) string {
	if openValues[key] {
		return value
	}
	return a.name(value)
}

// resource returns the pseudonym of a resource's name. Names of Kubernetes' own resources and of usual devices stay.
func (a *Anonymiser) resource(name string) string {
	domain, _, extended := strings.Cut(name, "/")
	if !extended || openResources[domain] {
		return name
	}
	return a.name(name)
}

// Anonymise replaces the names in a row. A nil Anonymiser does nothing.
func Anonymise[T row](a *Anonymiser, r *T) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch x := any(r).(type) {
	case *Pod:
		a.pod(x)
	case *Node:
		x.Name = a.name(x.Name)
		x.GPUModel = a.name(x.GPUModel)
		x.Extended, x.Capacity = a.resources(x.Extended), a.resources(x.Capacity)
		x.Labels = a.labels(x.Labels)
		x.Taints = rewrite(x.Taints, func(list *[]corev1.Taint) {
			for i := range *list {
				t := &(*list)[i]
				t.Key, t.Value = a.labelKey(t.Key), a.labelValue(t.Key, t.Value)
			}
		})
	case *Object:
		x.Namespace = a.name(x.Namespace)
		switch x.Kind {
		case KindNamespace:
			x.Name, x.Spec = a.name(x.Name), a.labels(x.Spec)
		case KindPriorityClass:
			x.Name = a.class(x.Name)
		case KindBudget:
			x.Name = a.name(x.Name)
			x.Spec = rewrite(x.Spec, func(s *policyv1.PodDisruptionBudgetSpec) { a.selector(s.Selector) })
		default:
			x.Name, x.Scale = a.name(x.Name), rewrite(x.Scale, a.scale)
		}
	case *Sample:
		x.Namespace, x.Name = a.name(x.Namespace), a.name(x.Name)
	case *Run:
		x.Anonymised = true
	}
}

func (a *Anonymiser) pod(p *Pod) {
	for _, f := range []*string{&p.UID, &p.Namespace, &p.Name, &p.OwnerName, &p.Node, &p.Group} {
		*f = a.name(*f)
	}
	if kind, name, ok := strings.Cut(p.Workload, "/"); ok {
		p.Workload = kind + "/" + a.name(name)
	}
	if p.Scheduler != corev1.DefaultSchedulerName {
		p.Scheduler = a.name(p.Scheduler)
	}
	if !slices.Contains(openOwners, p.OwnerKind) { // a custom resource
		if kind, name, ok := strings.Cut(p.Workload, "/"); ok && kind == p.OwnerKind {
			p.Workload = a.name(kind) + "/" + name
		}
		p.OwnerKind = a.name(p.OwnerKind)
	}
	p.PriorityClass = a.class(p.PriorityClass)
	p.GPUModels = rewrite(p.GPUModels, func(l *[]string) { a.names(*l) })
	p.Claims = rewrite(p.Claims, func(l *[]string) { a.names(*l) })
	p.Images = rewrite(p.Images, func(l *[]string) { a.names(*l) })
	p.Extended = a.resources(p.Extended)
	p.Labels, p.NodeSelector = a.labels(p.Labels), a.labels(p.NodeSelector)
	p.Affinity = rewrite(p.Affinity, a.affinity)
	p.Spread = rewrite(p.Spread, func(list *[]corev1.TopologySpreadConstraint) {
		for i := range *list {
			s := &(*list)[i]
			s.TopologyKey = a.labelKey(s.TopologyKey)
			a.selector(s.LabelSelector)
			a.keys(s.MatchLabelKeys)
		}
	})
	p.Tolerations = rewrite(p.Tolerations, func(list *[]corev1.Toleration) {
		for i := range *list {
			t := &(*list)[i]
			t.Key, t.Value = a.labelKey(t.Key), a.labelValue(t.Key, t.Value)
		}
	})
	p.HostPorts = rewrite(p.HostPorts, func(list *[]string) { // protocol and port stay, addresses do not
		for i, x := range *list {
			if f := strings.Split(x, "/"); len(f) == 3 && f[1] != anyAddress {
				(*list)[i] = f[0] + "/" + a.name(f[1]) + "/" + f[2]
			}
		}
	})
}

// scale replaces the names of the owner and of the target. Names of metrics other than cpu and memory are somebody's, too.
func (a *Anonymiser) scale(s *Scale) {
	for _, of := range []*string{&s.Owner, &s.Target} {
		if kind, name, ok := strings.Cut(*of, "/"); ok {
			if !slices.Contains(openOwners, kind) {
				kind = a.name(kind)
			}
			*of = kind + "/" + a.name(name)
		}
	}
	for i, m := range s.Metrics {
		if name, goal, _ := strings.Cut(m, " "); name != "cpu" && name != "memory" {
			s.Metrics[i] = a.name(name) + " " + goal
		}
	}
}

// anyAddress is the host address of a port on all addresses.
const anyAddress = "0.0.0.0"

func (a *Anonymiser) class(s string) string {
	if strings.HasPrefix(s, "system-") {
		return s
	}
	return a.name(s)
}

func (a *Anonymiser) keys(list []string) {
	for i := range list {
		list[i] = a.labelKey(list[i])
	}
}

func (a *Anonymiser) labels(text string) string {
	return rewrite(text, func(m *map[string]string) {
		out := make(map[string]string, len(*m))
		for k, v := range *m {
			out[a.labelKey(k)] = a.labelValue(k, v)
		}
		*m = out
	})
}

func (a *Anonymiser) resources(text string) string {
	return rewrite(text, func(m *map[string]string) {
		out := make(map[string]string, len(*m))
		for k, v := range *m {
			out[a.resource(k)] = v
		}
		*m = out
	})
}

func (a *Anonymiser) selector(s *metav1.LabelSelector) {
	if s == nil {
		return
	}
	out := make(map[string]string, len(s.MatchLabels))
	for k, v := range s.MatchLabels {
		out[a.labelKey(k)] = a.labelValue(k, v)
	}
	s.MatchLabels = out
	for i := range s.MatchExpressions {
		e := &s.MatchExpressions[i]
		for j := range e.Values {
			e.Values[j] = a.labelValue(e.Key, e.Values[j])
		}
		e.Key = a.labelKey(e.Key)
	}
}

func (a *Anonymiser) affinity(x *corev1.Affinity) {
	for _, t := range kube.NodeTerms(x) {
		for i := range t.MatchExpressions {
			e := &t.MatchExpressions[i]
			for j := range e.Values {
				e.Values[j] = a.labelValue(e.Key, e.Values[j])
			}
			e.Key = a.labelKey(e.Key)
		}
		for i := range t.MatchFields { // metadata.name
			a.names(t.MatchFields[i].Values)
		}
	}
	for _, t := range kube.PodTerms(x) {
		a.selector(t.LabelSelector)
		a.selector(t.NamespaceSelector)
		a.names(t.Namespaces)
		t.TopologyKey = a.labelKey(t.TopologyKey)
		a.keys(t.MatchLabelKeys)
		a.keys(t.MismatchLabelKeys)
	}
}

// rewrite changes a JSON text. A text that cannot be read becomes null, so that no name slips through.
func rewrite[T any](text string, change func(*T)) string {
	var v T
	if text == "" || ReadColumn(text, &v) != nil {
		return ""
	}
	change(&v)
	return JSON(v)
}

const (
	// maxWord bounds names in bytes, as API servers do.
	maxWord = validation.DNS1123SubdomainMaxLength
	// maxColumn is the length in bytes of any other text. API servers accept objects up to 3 MiB, which escapes in JSON make longer.
	maxColumn = 16 << 20
)

// names returns an error for the first of some names that Kubernetes does not accept. Names may be empty.
func names(what string, all ...string) error {
	for _, n := range all {
		if n == "" || len(n) <= maxWord && subdomain(n) {
			continue
		}
		if len(n) > maxWord {
			return fmt.Errorf("the name of %s has %d bytes, want %d at most", what, len(n), maxWord)
		}
		return fmt.Errorf("the name of %s, %q, is none that Kubernetes accepts: lower case letters, digits, - and .", what, n)
	}
	return nil
}

// subdomain reports whether validation.IsDNS1123Subdomain accepts the characters of a name. Records have millions of names, so it
// takes no regular expression.
func subdomain(name string) bool {
	edge := true // the next character begins a label, so it must be a letter or digit
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			edge = false
		case c == '.' && !edge && name[i-1] != '-':
			edge = true
		case c != '-' || edge:
			return false
		}
	}
	return !edge && name[len(name)-1] != '-'
}

// texts returns an error for the first text of a row that is too long, is no UTF-8 or has control characters. It looks at every
// column of type string.
func texts[T row](r *T) error {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() != reflect.String {
			continue
		}
		if text := v.Field(i).String(); len(text) > maxColumn || !plain(text) {
			column, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("parquet"), ",")
			if len(text) > maxColumn {
				return fmt.Errorf("the column %s has %d bytes, want %d at most", column, len(text), maxColumn)
			}
			return fmt.Errorf("the column %s has control characters, or is no UTF-8", column)
		}
	}
	return nil
}

// plain reports whether a text is UTF-8 without control characters.
func plain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f {
			return utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
		}
	}
	return true
}

// Word returns a record's form of a name that no API server has checked, such as the name of a pod's owner: without control characters, and
// at most as long as a name.
func Word(text string) string {
	if len(text) <= maxWord && plain(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text[:min(len(text), maxWord)], ""))
}

// wellKnown are the keys of labels and taints that an Anonymiser keeps, because schedulers and controllers depend on them. The list is
// closed: anyone may put the name of a team behind node-role.kubernetes.io.
var wellKnown = set(
	"kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/hostname", "kubernetes.io/metadata.name",
	"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type",
	"topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region",
	"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node.kubernetes.io/exclude-from-external-load-balancers",
	"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable", "node.kubernetes.io/memory-pressure",
	"node.kubernetes.io/disk-pressure", "node.kubernetes.io/pid-pressure", "node.kubernetes.io/network-unavailable",
	"node.kubernetes.io/out-of-service",
	"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component", "app.kubernetes.io/part-of",
	"app.kubernetes.io/version",
	"app.kubernetes.io/managed-by", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name", "batch.kubernetes.io/job-name",
	"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-completion-index", "job-name", "controller-uid", "app", "k8s-app",
	"pod-template-hash", "pod-template-generation", "controller-revision-hash",
	"karpenter.sh/nodepool", "karpenter.sh/capacity-type", "eks.amazonaws.com/nodegroup", "cloud.google.com/gke-nodepool",
	"kubernetes.azure.com/agentpool",
	"nvidia.com/gpu", "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.memory", "alibabacloud.com/gpu-card-model",
	"kwok.x-k8s.io/node",
)

// openValues are the keys of labels whose values an Anonymiser keeps.
var openValues = set("kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
	"karpenter.sh/capacity-type", "nvidia.com/gpu.count")

// openResources are the domains of resources that an Anonymiser keeps.
var openResources = set("nvidia.com", "amd.com", "intel.com", "gpu.intel.com", "habana.ai", "google.com", "aws.amazon.com",
	"alibabacloud.com", "vpc.amazonaws.com", "hugepages")

// openOwners are the kinds of owners that an Anonymiser keeps.
var openOwners = []string{"", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController", "Node"}

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, n := range names {
		out[n] = true
	}
	return out
}

// KeyOf returns the key of a label whose punctuation an exporter of metrics has replaced by underscores. It restores well-known keys only;
// others stay unchanged.
func KeyOf(exported string) string {
	if key, ok := exportedKeys[exported]; ok {
		return key
	}
	return exported
}

var exportedKeys = func() map[string]string {
	punctuation, out := strings.NewReplacer(".", "_", "/", "_", "-", "_"), map[string]string{}
	for key := range wellKnown {
		out[punctuation.Replace(key)] = key
	}
	return out
}()
