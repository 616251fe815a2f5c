package web

// publishUsage publishes the measurements of the scheduler's sources of usage, if it has any.
func (s *server) publishUsage() {
	if s.config.Usage == nil {
		return
	}
	if reports := s.config.Usage(); len(reports) > 0 {
		s.tell(topicUsage, reports)
	}
}
