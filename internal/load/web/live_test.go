package web

// cut drops all clients, as if each had been too slow.
func (l *live) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.clients {
		delete(l.clients, c)
		close(c.events)
	}
}
