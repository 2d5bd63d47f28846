package limit

// Counts returns the number of slots in use and of loads in the queues.
func (l *Loads) Counts() (taken, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken, l.waiting[0].Len() + l.waiting[1].Len()
}
