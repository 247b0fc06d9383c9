package arms

// Marks is a mark for each arm of a Learned that is taught of at one moment: for those who compare it with a
// list of arms. It is for one goroutine, beside the one that adds.
type Marks struct {
	cells  *cells
	marked []bool
}

// Marks returns a mark for each arm, none of them set.
func (l *Learned) Marks() *Marks {
	c := l.cells.Load()
	return &Marks{c, make([]bool, c.size)}
}

// Mark marks an arm. It returns false when nothing is taught of it, or it has its mark.
func (m *Marks) Mark(k Key) bool {
	if m.cells.size == 0 {
		return false
	}
	cell, at := m.cells.locate(k)
	if cell == nil || m.marked[at] || cell[2].Load()|cell[3].Load() == 0 {
		return false
	}
	m.marked[at] = true
	return true
}

// Unmarked calls f with the arms that are not marked, until it returns false.
func (m *Marks) Unmarked(f func(Key) bool) {
	for at, marked := range m.marked {
		cell := m.cells.words[at*cellWords:]
		k := Key{cell[0].Load(), cell[1].Load()}
		if k.Hi != 0 && !marked && cell[2].Load()|cell[3].Load() != 0 && !f(k) {
			return
		}
	}
}
