package main

import (
	"errors"
	"fmt"
	"unsafe"

	"gnnsched/gnn/feature"
	"gnnsched/scheduler/sim/vector"
)

// arguments are a caller's arrays in C: int64_t, char[] and pointers, one after another. No function keeps a pointer after it returns. An
// array of an observation whose pointer is NULL is left out. package vector documents the arrays.
type arguments struct {
	size    int64 // of this struct in bytes
	message [512]byte

	slots                                   int64 // padded: rows of each environment; 0: ragged
	roomCandidates, roomNodes               int64 // rows for which there is room
	roomGroups, roomPaths                   int64
	candidates, nodes, zones, groups, paths int64 // written: rows in use

	actions   *int64
	seeds     *uint64
	resetMask *uint8

	reward                         *float64
	terminated                     *uint8
	objective                      *float64
	unscheduled, waited, decisions *int64
	seed                           *uint64

	podX, clusterX          *float32
	candidateOffsets        *int64
	candidateX              *float32
	candidateNode           *int64
	mask                    *uint8
	nodeOffsets, zoneOffset *int64
	nodeX                   *float32
	nodeZone                *int64
	groupX, groupWeight     *float32
	groupNode               *int64
	pathX, pathWeight       *float32
	pathCandidate, pathNode *int64
	nodeRaw, podRaw         *int64
}

// maxRows bounds the rows of an array, so that no length overflows.
const maxRows = 1 << 32

// check returns an error unless the struct has the form that this library knows.
func (a *arguments) check() error {
	if want := int64(unsafe.Sizeof(*a)); a.size != want {
		return fmt.Errorf("the arguments have %d bytes, want %d: library and package are of different versions", a.size, want)
	}
	for _, n := range []int64{a.slots, a.roomCandidates, a.roomNodes, a.roomGroups, a.roomPaths} {
		if n < 0 || n > maxRows {
			return fmt.Errorf("an array has %d rows", n)
		}
	}
	return nil
}

// say writes a message that the caller reads after an error.
func (a *arguments) say(err error) {
	n := copy(a.message[:len(a.message)-1], err.Error())
	a.message[n] = 0
}

// slice makes a slice of the caller's memory; nil of NULL or without elements.
func slice[T any](p *T, rows, width int64) []T {
	if p == nil || rows == 0 || width == 0 {
		return nil
	}
	return unsafe.Slice(p, rows*width)
}

// arrays returns the caller's arrays for n environments with features of these widths.
func (a *arguments) arrays(count int, w feature.Widths) *vector.Arrays {
	n, c := int64(count), a.roomCandidates
	if a.slots > 0 {
		c = n * a.slots
	}
	return &vector.Arrays{
		Slots: int(a.slots),
		Results: vector.Results{
			Reward: slice(a.reward, n, 1), Terminated: slice(a.terminated, n, 1), Objective: slice(a.objective, n, 1),
			Unscheduled: slice(a.unscheduled, n, 1), Waited: slice(a.waited, n, 1), Decisions: slice(a.decisions, n, 1), Seed: slice(a.seed, n, 1),
		},
		PodX: slice(a.podX, n, int64(w.Pod)), ClusterX: slice(a.clusterX, n, int64(w.Cluster)),
		CandidateOffsets: slice(a.candidateOffsets, n+1, 1), CandidateX: slice(a.candidateX, c, int64(w.Candidate)),
		CandidateNode: slice(a.candidateNode, c, 1), Mask: slice(a.mask, c, 1),
		NodeOffsets: slice(a.nodeOffsets, n+1, 1), ZoneOffsets: slice(a.zoneOffset, n+1, 1),
		NodeX: slice(a.nodeX, a.roomNodes, int64(w.Node)), NodeZone: slice(a.nodeZone, a.roomNodes, 1),
		GroupX: slice(a.groupX, a.roomGroups, int64(w.Group)), GroupWeight: slice(a.groupWeight, a.roomGroups, 1),
		GroupNode: slice(a.groupNode, a.roomGroups, 1),
		PathX:     slice(a.pathX, a.roomPaths, int64(w.Path)), PathWeight: slice(a.pathWeight, a.roomPaths, 1),
		PathCandidate: slice(a.pathCandidate, a.roomPaths, 1), PathNode: slice(a.pathNode, a.roomPaths, 1),
		NodeRaw: slice(a.nodeRaw, a.roomNodes, vector.RawNode), PodRaw: slice(a.podRaw, n, vector.RawPod),
	}
}

var errMissing = errors.New("an array is missing")

// actionsOf returns the actions of n environments.
func (a *arguments) actionsOf(n int) ([]int64, error) {
	if a.actions == nil {
		return nil, errMissing
	}
	return slice(a.actions, int64(n), 1), nil
}

// startOf returns the start that the caller asks for.
func (a *arguments) startOf(n int, what int32) (vector.Start, error) {
	s := vector.Start{Skip: what == resetTraining}
	for _, m := range slice(a.resetMask, int64(n), 1) {
		s.Mask = append(s.Mask, m != 0)
	}
	if what == resetOn {
		return s, nil
	}
	if a.seeds == nil {
		return s, errMissing
	}
	for i, seed := range slice(a.seeds, int64(n), 1) {
		episode, err := episodeOf(seed, what)
		if err != nil {
			return s, fmt.Errorf("environment %d: %w", i, err)
		}
		s.Seeds = append(s.Seeds, episode)
	}
	return s, nil
}
