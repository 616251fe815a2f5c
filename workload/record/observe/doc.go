// Package observe translates the objects of a Kubernetes API into the rows of a record.
//
// [Pod], [Node], [Namespace], [PriorityClass] and [Budget] translate one object each, and so do [Deployment] and the other functions for
// owners of pods. A [Follower] is told about all
// objects as they come, change and go, and adds rows to a record whenever something changes that the record holds.
//
// [ReadObjects] reads the output of `kubectl get pods,nodes -A -o json`. [Looks] groups the files of one look at a cluster, and [Known]
// holds the objects that are present by the looks so far. A list of one namespace says nothing about the others.
package observe
