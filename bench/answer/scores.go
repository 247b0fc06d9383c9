package answer

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
)

// CheckScores returns an error unless a whole answer holds n scores that are in [0, 1] and not
// all the same. It takes the JSON of /predict, the JSON of /v2/models/M/infer, and the latter with a
// binary tensor. Answers with another status are somebody else's to count.
func CheckScores(raw []byte, n int) error {
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return err
	}
	if r.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	scores, err := scoresOf(body, r.Header.Get("Inference-Header-Content-Length"))
	if err != nil {
		return fmt.Errorf("%w in the answer %.200q", err, body)
	}
	if len(scores) != n {
		return fmt.Errorf("%d scores, want %d, in the answer %.200q", len(scores), n, body)
	}
	same := n > 1
	for i, s := range scores {
		if !(s >= 0 && s <= 1) {
			return fmt.Errorf("score %d is %g", i, s)
		}
		same = same && s == scores[0]
	}
	if same {
		return fmt.Errorf("all %d scores are %g", n, scores[0])
	}
	return nil
}

// scoresOf returns the scores in a body, whose JSON ends where head says, if it says so.
func scoresOf(body []byte, head string) ([]float64, error) {
	var tensor []byte
	if head != "" {
		n, err := strconv.Atoi(head)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%q bytes of JSON", head)
		}
		body, tensor = body[:n], body[n:]
	}
	var a struct {
		Scores  []float64
		Outputs []struct {
			Name, Datatype string
			Shape          []int
			Data           []float64
			Parameters     struct {
				Size *int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, err
	}
	if a.Outputs == nil {
		return a.Scores, nil
	}
	out := a.Outputs[0]
	if len(a.Outputs) != 1 || out.Name != "scores" || len(out.Shape) == 0 {
		return nil, fmt.Errorf("%d outputs, the first is %q of shape %v", len(a.Outputs), out.Name, out.Shape)
	}
	n := out.Shape[len(out.Shape)-1]
	if out.Parameters.Size == nil {
		if len(out.Data) != n {
			return nil, fmt.Errorf("%d scores of shape %v", len(out.Data), out.Shape)
		}
		return out.Data, nil
	}
	width := map[string]int{"FP32": 4, "FP64": 8}[out.Datatype]
	if width == 0 || *out.Parameters.Size != len(tensor) || len(tensor) != n*width {
		return nil, fmt.Errorf("%d bytes of %s, said to be %d, of shape %v", len(tensor), out.Datatype, *out.Parameters.Size, out.Shape)
	}
	scores := make([]float64, n)
	for i := range scores {
		if width == 4 {
			scores[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(tensor[4*i:])))
		} else {
			scores[i] = math.Float64frombits(binary.LittleEndian.Uint64(tensor[8*i:]))
		}
	}
	return scores, nil
}
