// Command schedbench measures how many pods a second kube-scheduler binds with a learned profile and
// with upstream's default profile: on a simulated cluster, and in the scheduler's loop alone with an
// in-memory client instead of an API server.
//
// Both profiles run in the same process with the same settings. A run binds a backlog: the pods
// exist before the scheduler starts, so creating them is not part of the figure. Runs alternate in
// the order default, learned, learned, default, so that a machine that becomes slower or faster
// favours neither. Each pair of neighbours gives one ratio, and the result is the median ratio.
//
// The command upstream does the same with Kubernetes' own benchmark, scheduler_perf, and also runs
// its integration tests through our profile. scheduler_perf needs modules that nothing else
// here needs, and an executable of etcd. Both are built in the module in the folder upstream.
package main
