package disk

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

const bootIDPath = "/proc/sys/kernel/random/boot_id"

func bootID() (id [16]byte, err error) {
	text, err := os.ReadFile(bootIDPath)
	if err != nil {
		return id, fmt.Errorf("tell this start of the system from others: %w", err)
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	if n, err := hex.Decode(id[:], []byte(digits[:min(len(digits), 32)])); err != nil || n != len(id) {
		return id, fmt.Errorf("%s holds %q, not a UUID", bootIDPath, text)
	}
	return id, nil
}
