package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestNginxTakesTheConfiguration(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed")
	}
	site, err := os.ReadFile("../../deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf := configuration(string(site), "127.0.0.1:8080", []string{"127.0.0.1:8081", "127.0.0.1:8083"})
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(nginx, "-t", "-p", dir, "-c", filepath.Join(dir, "conf")).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s\n%s", err, said, conf)
	}
}

func TestDirectoryOfSomebodyElseIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	theirs := filepath.Join(dir, "theirs")
	if err := os.WriteFile(theirs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := empty(dir); err == nil {
		t.Error("a directory with files in it was taken")
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
	own := filepath.Join(dir, "own")
	for range 2 {
		if err := empty(own); err != nil {
			t.Error(err)
		}
	}
}
