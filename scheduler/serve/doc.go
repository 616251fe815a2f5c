// Package serve recommends nodes for pods over HTTPS: to a kube-scheduler that cannot be replaced, as an extender of it (extender.go), and
// to people and programs, which post a pod and get ranked nodes with reasons. The answers come from an advise.Advisor.
//
// Every path but the health checks needs a client certificate or a bearer token. Requests are bounded in size, number and time
// (server.go); a request over a bound gets an error at once, so that an ignorable extender lets kube-scheduler decide alone.
package serve
