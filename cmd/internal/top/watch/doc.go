// Package watch feeds a [state.Cluster] from an API server. It lists the nodes and
// pods once, follows their changes, and reconnects when the server goes away.
//
// The reflectors write straight into the running sums; no informer cache keeps the objects. Of each pod only five numbers and its name are
// kept, so that 150,000 pods take some tens of megabytes. Details that few screens show, such as a scheduler's decisions, are read on
// demand.
package watch
