package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
)

// The topics of the stream, which are the names of its events. Of each, a client gets the newest message only. The
// stream of decisions is apart from them, because none of these is left out unless a client is slow.
const (
	topicCluster  = "cluster"
	topicLearning = "learning"
	topicShadow   = "shadow"
	topicTrouble  = "trouble"
	topicUsage    = "usage"

	eventDecisions = "decisions"
)

// feed holds the newest message of each topic, and wakes those who wait for news.
type feed struct {
	kicked chan struct{} // asks the publisher to publish at once

	mu       sync.Mutex
	clients  int
	messages map[string]message
	changed  chan struct{} // closed when something is new
}

// message is an encoded message with its number in the topic.
type message struct {
	number int
	data   []byte
}

func newFeed() *feed {
	return &feed{kicked: make(chan struct{}, 1), messages: map[string]message{}, changed: make(chan struct{})}
}

// publish replaces the message of a topic, and wakes all waiting clients, unless it equals the previous one. nil withdraws the topic's
// message. It fails for numbers that JSON does not have.
func (f *feed) publish(topic string, v any) error {
	var data []byte
	if v != nil {
		var err error
		if data, err = json.Marshal(v); err != nil {
			return fmt.Errorf("encode the topic %s: %w", topic, err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.messages[topic]
	if !bytes.Equal(last.data, data) {
		f.messages[topic] = message{last.number + 1, data}
		f.wake()
	}
	return nil
}

// news wakes all who wait.
func (f *feed) news() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake()
}

func (f *feed) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// since returns the messages newer than seen and updates seen. The returned channel is closed at the next news.
func (f *feed) since(seen map[string]int) (fresh map[string][]byte, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh = map[string][]byte{}
	for topic, m := range f.messages {
		if m.number > seen[topic] {
			seen[topic] = m.number
			fresh[topic] = m.data
		}
	}
	return fresh, f.changed
}

// enter counts a client unless there are too many, and asks the publisher for the newest state.
func (f *feed) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clients >= maxClients {
		return false
	}
	f.clients++
	f.kick()
	return true
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clients--
}

// watched reports whether there is a client.
func (f *feed) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clients > 0
}

func (f *feed) kick() {
	select {
	case f.kicked <- struct{}{}:
	default: // it was asked already
	}
}
