// Package preference lets the preferences of manifests count: the modes that a user chooses from, the
// rule by which declared preferences come first, how default spreading is weighed, and a copy of upstream's preference scores for the
// simulator's nodes and pods.
//
// Inside kube-scheduler, upstream's own plugins compute the scores. The copy in this package has what
// the simulator's pods can prefer: upstream's default topology spread over nodes and zones for pods of
// one owner, and nodes without a PreferNoSchedule taint.
package preference
