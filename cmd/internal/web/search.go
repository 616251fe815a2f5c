package web

import (
	"fmt"
	"net/http"

	"gnnsched/cmd/internal/top/state"
)

// The rows of the pages that have ktop's filter.
const (
	mostPending = 1000
	mostCauses  = 100
	mostDevices = 200 // nodes
	mostParts   = 20  // of a GPU
	mostModels  = 50
	maxFilter   = 1000 // bytes
)

// filterOf returns the filter of a request. It answers a too long filter with status 400.
func filterOf(w http.ResponseWriter, r *http.Request) (text string, ok bool) {
	text = r.URL.Query().Get("filter")
	if len(text) > maxFilter {
		http.Error(w, fmt.Sprintf("the filter has %d bytes, more than %d; shorten it", len(text), maxFilter), http.StatusBadRequest)
		return "", false
	}
	return text, true
}

// pendingPods answers with the pending pods that pass a filter, the oldest first, and with the reasons why they wait.
func (s *server) pendingPods(w http.ResponseWriter, r *http.Request) {
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	s.ask(w, r, state.Ask{Pending: true}, func(d state.Details) any {
		found := state.Select(d.Pending, f, (*state.PendingPod).Texts)
		return struct {
			Pods   list[pending]     `json:"pods"`
			Causes list[state.Cause] `json:"causes"`
			All    int               `json:"all"` // without the filter
		}{
			listOf(found, mostPending, pendingOf),
			listOf(state.CausesOf(found), mostCauses, func(c *state.Cause) state.Cause { return *c }),
			len(d.Pending),
		}
	})
}

// model is the sum of the GPUs of one model.
type model struct {
	Name string `json:"name"`
	GPU  usage  `json:"gpu"`
}

// nodeCards is a node with its GPUs.
type nodeCards struct {
	Node  string `json:"node"`
	Model string `json:"model"`
	GPU   usage  `json:"gpu"`
	Cards []card `json:"cards"`
}

// devices answers with the nodes with GPUs that pass a filter, and with the sums of the models.
func (s *server) devices(w http.ResponseWriter, r *http.Request) {
	f, ok := filterOf(w, r)
	if !ok {
		return
	}
	s.ask(w, r, state.Ask{Devices: true}, func(d state.Details) any {
		found := state.Select(d.Devices, f, (*state.NodeCards).Texts)
		nodes := make([]state.Node, len(found))
		for i := range found {
			nodes[i] = found[i].Node
		}
		return struct {
			Models list[model]     `json:"models"`
			Nodes  list[nodeCards] `json:"nodes"`
			All    int             `json:"all"` // without the filter
		}{
			listOf(state.ModelsOf(nodes), mostModels, func(m *state.Model) model { return model{m.Name, usageOf(m.GPU)} }),
			listOf(found, mostDevices, func(x *state.NodeCards) nodeCards {
				return nodeCards{x.Node.Name, x.Node.GPUModel, usageOf(x.Node.GPU), cardsOf(x.Cards, mostParts)}
			}),
			len(d.Devices),
		}
	})
}
