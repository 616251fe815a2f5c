package dra

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"gnnsched/internal/cluster/cards"
)

// shape holds the cards of a node. It is immutable but for what it remembers of wants.
type shape struct {
	*cards.Set
	ids []structured.DeviceID // of Devices

	mu      sync.Mutex
	matched map[string][]bool    // which devices an expression selects; see selects
	sizes   map[string]partSizes // by the capacity that is asked for; see partsOf
}

// newShape reads the slices of one node; nil if there are no cards that a policy can know.
func newShape(in []*resourceapi.ResourceSlice) *shape {
	set := cards.Read(in)
	if set == nil {
		return nil
	}
	s := &shape{Set: set, matched: map[string][]bool{}, sizes: map[string]partSizes{}}
	for _, d := range set.Devices {
		s.ids = append(s.ids, structured.MakeDeviceID(d.Driver, set.Cards[d.Card].Pool, d.Name))
	}
	return s
}
