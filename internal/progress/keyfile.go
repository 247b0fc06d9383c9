package progress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"weir/internal/disk"
	"weir/internal/disk/record"
)

// keyFile is an append-only log of user keys; the n-th key has slot n. It is a record.Log whose frames hold
// entries:
//
//	uvarint 0 and a u64, little-endian    a number
//	uvarint 1                             a key that was erased
//	uvarint n+1 and n bytes               a name of n bytes, 1 to 255
//
// A frame that a crash has torn was never synced, so its keys were never given cells: it is cut
// off at open. When keys are missing that were, the file was damaged, and is refused.
type keyFile struct {
	log    *record.Log
	faults disk.Faults
	path   string
	count  uint64 // keys, those not written yet included

	frame  []byte // entries not written yet, behind the frame's header
	saved  uint64 // where the log ended at the last sync
	failed error  // a sync that failed: nothing more is added
}

const maxKeyFrame = 1 << 20

var keyFormat = record.Format{Magic: "weirkeys", Version: 1, Is: "a file of user keys",
	Replace: "restore it from a backup, or go on with the keys that are left by weir repair --accept-loss"}

// openKeyFile opens or makes a key file of which the first used keys have cells. With acceptLoss keys that
// are missing are no error: their users begin anew, and their cells stay unused.
func openKeyFile(path string, used uint64, acceptLoss bool, faults disk.Faults) (_ *keyFile, err error) {
	k := &keyFile{faults: faults, path: path, frame: make([]byte, record.FrameHeader)}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) && (used == 0 || acceptLoss) {
		if err = disk.WriteFileAtomic(path, record.LogPage(keyFormat, record.NewID(), 0), 0o600); err == nil {
			f, err = os.OpenFile(path, os.O_RDWR, 0)
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, keyFormat.Corrupt(path, 0, "it is missing, and %d keys are in use", used)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	// A process killed right after a rename may have left a name that only the cache knows.
	if err := faults.SyncDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	r, err := record.ReadLog(f, path, keyFormat)
	if err != nil {
		return nil, err
	}
	end, err := r.Frames(record.PageSize, func(payload []byte, _ int64) (err error) {
		k.count, err = k.entries(payload, k.count, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	damaged, err := r.Damaged(end)
	if err != nil {
		return nil, err
	}
	if (damaged || k.count < used) && !acceptLoss {
		return nil, keyFormat.Corrupt(path, end, "%d keys are whole, %d are in use", k.count, used)
	}
	if k.log, err = r.Resume(f, end, faults); err != nil {
		return nil, err
	}
	k.saved = k.log.End()
	for k.count < used {
		k.append([]byte{1})
		if err := k.flush(maxKeyFrame); err != nil {
			return nil, err
		}
	}
	return k, k.sync()
}

// each calls fn with every key in the order of their slots. A key is a name, or a number when
// name is nil; the name is valid during the call. Keys that were erased are passed over.
func (k *keyFile) each(fn func(slot, number uint64, name []byte) error) error {
	r, err := record.ReadLog(k.log.File(), k.path, keyFormat)
	if err != nil {
		return err
	}
	slot := uint64(0)
	end, err := r.Frames(record.PageSize, func(payload []byte, _ int64) (err error) {
		slot, err = k.entries(payload, slot, fn)
		return err
	})
	if err == nil && uint64(end) != k.log.End() {
		return keyFormat.Corrupt(k.path, end, "it was changed while it was in use")
	}
	return err
}

// entries gives the entries of a frame to fn, the first of which has that slot, and returns that of the
// entry behind them.
func (k *keyFile) entries(b []byte, slot uint64, fn func(slot, number uint64, name []byte) error) (uint64,
	error) {
	for ; len(b) > 0; slot++ {
		kind, n := binary.Uvarint(b)
		length := 8
		if kind > 0 {
			length = int(min(kind-1, MaxName+1))
		}
		if n <= 0 || length > len(b)-n || length > MaxName {
			return slot, keyFormat.Corrupt(k.path, 0, "key %d is none", slot)
		}
		entry := b[n : n+length : n+length]
		b = b[n+length:]
		var err error
		switch {
		case fn == nil || kind == 1:
		case kind == 0:
			err = fn(slot, binary.LittleEndian.Uint64(entry), nil)
		default:
			err = fn(slot, 0, entry)
		}
		if err != nil {
			return slot, err
		}
	}
	return slot, nil
}

// add appends a key and returns its slot, which may be used after the next sync.
func (k *keyFile) add(number uint64, name []byte) (uint64, error) {
	if name != nil && (len(name) == 0 || len(name) > MaxName) {
		return 0, fmt.Errorf("a user's id has %d bytes, expected 1 to %d", len(name), MaxName)
	}
	k.append(appendKey(nil, number, name))
	return k.count - 1, k.flush(maxKeyFrame)
}

// appendKey appends the entry of a key.
func appendKey(b []byte, number uint64, name []byte) []byte {
	if name == nil {
		return binary.LittleEndian.AppendUint64(append(b, 0), number)
	}
	return append(binary.AppendUvarint(b, uint64(len(name))+1), name...)
}

func (k *keyFile) append(entry []byte) {
	k.frame = append(k.frame, entry...)
	k.count++
}

// flush writes the entries that wait if they take so many bytes.
func (k *keyFile) flush(least int) error {
	if k.failed != nil || len(k.frame)-record.FrameHeader < least {
		return k.failed
	}
	err := k.log.Append(k.frame)
	k.frame = k.frame[:record.FrameHeader]
	if err != nil {
		return fmt.Errorf("%s cannot take new users: %w", k.path, err)
	}
	return nil
}

// sync makes all added keys last. When there is no room, adding may be tried later, after cut;
// after a failed sync nothing more can be added, as what reached the disk is unknown until the
// file is opened again.
func (k *keyFile) sync() error {
	if err := k.flush(1); err != nil || k.log.End() == k.saved {
		return err
	}
	if err := k.log.Sync(); err != nil {
		k.failed = fmt.Errorf("%s cannot take new users: %w", k.path, err)
		return k.failed
	}
	k.saved = k.log.End()
	return nil
}

// cut takes back what was added since the file ended at end and had count keys.
func (k *keyFile) cut(end, count uint64) error {
	k.count, k.frame = count, k.frame[:record.FrameHeader]
	if k.failed != nil {
		return nil // what is in the file beyond is found to be of no use when it is opened again
	}
	k.saved = min(k.saved, end)
	return k.log.Cut(end)
}

// erase writes the file anew without the keys that gone names. When it fails, the file is as it was.
func (k *keyFile) erase(gone func(slot uint64) bool) (err error) {
	fresh := &keyFile{faults: k.faults, path: k.path + ".new", frame: make([]byte, record.FrameHeader)}
	if err := os.Remove(fresh.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	fresh.log, _, err = record.OpenLog(fresh.path, keyFormat, record.LogOptions{Faults: k.faults},
		func([]byte) error { return nil })
	if err != nil {
		return err
	}
	replaced := false
	defer func() {
		if !replaced {
			err = errors.Join(err, fresh.close(), os.Remove(fresh.path))
		}
	}()
	fill := func(slot uint64) error { // with what was erased before
		for fresh.count < slot {
			fresh.append([]byte{1})
		}
		return fresh.flush(maxKeyFrame)
	}
	err = k.each(func(slot, number uint64, name []byte) error {
		if gone(slot) {
			return nil
		}
		if err := fill(slot); err != nil {
			return err
		}
		fresh.append(appendKey(nil, number, name))
		return fresh.flush(maxKeyFrame)
	})
	if err = errors.Join(err, fill(k.count)); err != nil {
		return err
	}
	if err = fresh.sync(); err != nil {
		return err
	}
	if err = os.Rename(fresh.path, k.path); err != nil {
		return err
	}
	replaced = true
	old := k.log
	k.log, k.saved = fresh.log, fresh.saved
	// Until the directory is on the disk the erased keys may come back after a loss of power, which harms
	// nobody.
	return errors.Join(k.faults.SyncDir(filepath.Dir(k.path)), old.Close())
}

func (k *keyFile) close() error { return k.log.Close() }
