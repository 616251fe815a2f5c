// Package liverun plays a record on a simulated cluster with a real API server and a real kube-scheduler, at a sped-up pace.
//
//	out, err := liverun.Run(ctx, liverun.Config{Launcher: launcher, Dir: dir, Source: source, Profile: profile, Speed: 60})
//	course, err := replay.Real(ctx, out.Source, config)   // the same figures as of a replay in memory
//
// The cluster has the nodes that the record has at the window's beginning. The driver of runsim creates and deletes the pods, and package
// live records the result. The times of that second record are then moved into the first one's window.
package liverun
