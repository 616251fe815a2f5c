// Package web is --http of the schedulers: a page for a browser that shows the cluster and the scheduler's decisions as
// they are made.
//
// The page's parts are embedded, and its Content-Security-Policy allows nothing else. The state of the cluster comes
// from packages state and watch, as in ktop; decisions come from the scheduler's book. Changes go to the browser as
// server-sent events. A client holds no queue: each gets the newest state when it can take it, and one that does not
// read is dropped. The scheduler never waits for a client.
//
// The server listens on loopback only. It answers requests that name a loopback host and have the key in a cookie; the
// scheduler prints an address with the key when it starts.
package web
