package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestOpenAPIIsValid asks another implementation of OpenAPI, which reads YAML 1.1.
func TestOpenAPIIsValid(t *testing.T) {
	python := filepath.Join("..", "..", "build", "venv", "bin", "python3")
	if _, err := os.Stat(python); err != nil {
		t.Skip("no openapi-spec-validator in build/venv, which make test-deps makes")
	}
	if exec.Command(python, "-c", "import openapi_spec_validator").Run() != nil {
		t.Skip("no openapi-spec-validator in build/venv, which make test-deps makes")
	}
	if out, err := exec.Command(python, "-m", "openapi_spec_validator",
		"../../docs/openapi.yaml").CombinedOutput(); err != nil {
		t.Errorf("docs/openapi.yaml: %v: %s", err, out)
	}
}
