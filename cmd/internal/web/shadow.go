package web

import (
	"context"
	"time"

	"gnnsched/scheduler/shadow"
)

// shadowWait limits the wait for a shadow scheduler, which answers between events.
const shadowWait = 2 * time.Second

// publishShadow publishes a shadow scheduler's findings, if this is one and it answers.
func (s *server) publishShadow(ctx context.Context) {
	if s.config.Shadow == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, shadowWait)
	defer cancel()
	if found, err := s.config.Shadow(ctx); err == nil { // otherwise it is asked again soon
		s.tell(topicShadow, found)
	}
}

// inShadow asks a shadow scheduler for its findings so far.
type inShadow func(context.Context) (shadow.Live, error)
