package disk

// BootID returns what tells this start of the system from every other one. As long as it is the same, all that any process
// wrote to a file, killed or not, is in the page cache; once it is another, only what was synced is sure to be there. On systems that do
// not tell, the error wraps errors.ErrUnsupported.
func BootID() ([16]byte, error) { return bootID() }
