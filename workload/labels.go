package workload

// The labels of every object that runsim makes. cleancluster deletes objects by them.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by" // always ManagedBy
	ManagedBy      = "gnnsched"
	LabelRun       = "gnnsched.io/run"        // id of the run that made the object
	LabelFill      = "gnnsched.io/fill"       // number of the run's fill, from 1
	LabelShape     = "gnnsched.io/shape"      // the pod shape's name
	LabelName      = "app.kubernetes.io/name" // the Deployment's name
)

// NodeTaint is the key of kwok's annotation, and of the usual taint, on simulated nodes. The
// annotation's value is NodeSimulated. All pods of a plan tolerate the taint, which some
// clusters use to keep ordinary pods off simulated nodes.
const (
	NodeTaint     = "kwok.x-k8s.io/node"
	NodeSimulated = "fake"
)
