package web

// publishUsage publishes what the scheduler's sources of usage have measured, if it has any.
func (s *server) publishUsage() {
	if s.config.Usage == nil {
		return
	}
	if reports := s.config.Usage(); len(reports) > 0 {
		s.tell(topicUsage, reports)
	}
}
