package disk

// flush: pages of a shared map are the pages of the file.
func (r *Region) flush() error { return nil }
