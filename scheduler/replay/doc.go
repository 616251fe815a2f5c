// Package replay plays a record of a cluster again in memory, under a profile of kube-scheduler.
//
//	source, err := replay.Read(rec, replay.Window{})      // what the record holds, cleaned
//	real, err := replay.Real(ctx, source, config)         // what really happened
//	course, err := replay.Run(ctx, source, config)        // the same pods and nodes, placed by config.Profile
//
// Nodes and pods come, change and go as in the record. At the beginning, pods are on their real nodes. After that, the profile places each
// pod at its arrival, on the state left by its own choices, with all of upstream's filters and with preemption. Pods that fit nowhere wait;
// they are tried again, higher priorities first, when something changes. A pod that finished by itself runs for its recorded duration. All
// others end at their recorded time, because someone ended them. Pods of DaemonSets and static pods keep their recorded nodes and times.
// If the record knows the owners of pods, these react to what happens (owners).
//
// Times are the record's. Nothing depends on the machine's clock, and equal seeds give equal courses.
package replay
