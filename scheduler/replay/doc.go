// Package replay plays a record of a cluster again in memory, under a profile of kube-scheduler.
//
//	source, err := replay.Read(rec, replay.Window{})      // what the record holds, cleaned
//	real, err := replay.Real(ctx, source, config)         // what really happened
//	course, err := replay.Run(ctx, source, config)        // the same pods and nodes, placed by config.Profile
//
// Nodes come, change and go as in the record, and so do pods. At the beginning, pods are where they really were. After that,
// the profile places each pod at its arrival, on the state that its own choices have made, with all of upstream's
// filters and with preemption. Pods that fit nowhere wait; they are tried again, higher priorities first, when
// something changes. A pod that finished by itself runs as long as it did. All others end when they really ended: someone
// ended them. Pods of DaemonSets and static pods are where and when they really were.
//
// Time is that of the record. Nothing depends on the clock of the machine, and equal seeds give equal courses.
package replay
