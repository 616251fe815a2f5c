// Package watch feeds a [state.Cluster] from a live API server: it lists the nodes and
// pods once, follows their changes, and reconnects when the server goes away.
//
// The reflectors write straight into the running sum. No informer cache keeps the objects:
// a pod leaves behind five numbers and its name, so that 150,000 of them fit in some tens
// of megabytes.
package watch
