package workload

// What runsim puts on everything that it makes, and cleancluster goes by.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by" // always ManagedBy
	ManagedBy      = "gnnsched"
	LabelRun       = "gnnsched.io/run"        // the run that made the object
	LabelFill      = "gnnsched.io/fill"       // which fill of the run, from 1
	LabelShape     = "gnnsched.io/shape"      // the pod shape's name
	LabelName      = "app.kubernetes.io/name" // the Deployment's name
)

// NodeTaint is the key of the taint and of the annotation by which kwok knows the nodes that
// it simulates. Every pod of a plan tolerates it, so that a plan also runs on clusters that
// keep ordinary pods off their simulated nodes.
const (
	NodeTaint     = "kwok.x-k8s.io/node"
	NodeSimulated = "fake"
)
