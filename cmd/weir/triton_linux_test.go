package main

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"weir/internal/bandit/featurestore/feasttest"
)

// Triton's own client, in Python, talks to the real binary; what it asserts is in its script.
func TestTritonsClientIsAnsweredUnchanged(t *testing.T) {
	python, err := feasttest.Python("tritonclient")
	feasttest.Need(t, err)
	dir := t.TempDir()
	p := start(t, "--data", dir+"/data", "--bandit-arms", writeArms(t, dir))

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "testdata/triton/client.py", p.public, "bandit")
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		t.Fatalf("client.py: %v\n%s%s", err, out, said)
	}
	var byClient []float64
	if err := json.Unmarshal(out, &byClient); err != nil {
		t.Fatalf("client.py said %q: %v", out, err)
	}
	// With one seed, POST /predict has the same samples, to nine digits.
	status, body := ask(t, http.MethodPost, "http://"+p.public+"/predict",
		`{"user":"u1","items":[7,8,9,1099511627776],"seed":42}`)
	var direct struct{ Scores []float64 }
	if err := json.Unmarshal([]byte(body), &direct); status != http.StatusOK || err != nil ||
		len(direct.Scores) != len(byClient) {
		t.Fatalf("POST /predict: %d %s", status, body)
	}
	for i, want := range direct.Scores {
		if math.Abs(byClient[i]-want) > 1e-8*want {
			t.Errorf("score %d is %v by the client and %v by POST /predict", i, byClient[i], want)
		}
	}
}
