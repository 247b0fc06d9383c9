//go:build !unix

package disk

// syncDir does nothing: elsewhere directories cannot be synced, and the file system orders its own metadata.
func syncDir(string) error { return nil }
