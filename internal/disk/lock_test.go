package disk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/systest"
)

// The test binary is its own second process: with this set it locks the directory, says so, and waits to be
// killed.
const lockerEnv = "WEIR_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lockerEnv); dir != "" {
		if _, err := LockDir(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("locked")
		select {}
	}
	os.Exit(m.Run())
}

func TestLockNamesTheProcessThatHoldsIt(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), lockerEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := systest.Start(child); err != nil {
		t.Fatal(err)
	}
	killed := false
	defer func() {
		if !killed {
			child.Process.Kill()
			child.Wait()
		}
	}()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the child said %q, error %v", line, err)
	}

	_, err = LockDir(dir)
	if !errors.Is(err, ErrLocked) {
		t.Fatalf("LockDir of a locked directory: %v, want ErrLocked", err)
	}
	for _, want := range []string{dir, fmt.Sprintf("process %d", child.Process.Pid),
		"choose another directory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}

	child.Process.Kill()
	child.Wait()
	killed = true
	lock, err := LockDir(dir)
	if err != nil {
		t.Fatalf("LockDir after the holder was killed: %v", err)
	}
	defer lock.Close()
	pid, err := os.ReadFile(filepath.Join(dir, "LOCK"))
	if want := fmt.Sprint(os.Getpid()); err != nil || strings.TrimSpace(string(pid)) != want {
		t.Errorf("LOCK holds %q, error %v, want %q", pid, err, want)
	}
}

func TestLockIsFreeAfterClose(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		lock, err := LockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LockDir(dir); !errors.Is(err, ErrLocked) {
			t.Fatalf("second LockDir: %v, want ErrLocked", err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLockOfAMissingDirectorySaysWhatToDo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	_, err := LockDir(dir)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "create "+dir) {
		t.Errorf("error %v, want ErrNotExist that says to create %s", err, dir)
	}
}
