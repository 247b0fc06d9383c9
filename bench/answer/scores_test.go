package answer

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestOnlyAsManyScoresAsAskedForThatAreProbabilitiesPass(t *testing.T) {
	fp64 := func(values ...float64) (tensor string) {
		for _, v := range values {
			tensor += string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
		}
		return tensor
	}
	fp32 := string(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.25)), math.Float32bits(1)))
	infer := func(datatype string, n, size int) string {
		return fmt.Sprintf(`{"model_name":"bandit","outputs":[{"name":"scores","datatype":%q,"shape":[%d],"parameters":{"binary_data_size":%d}}]}`, datatype, n, size)
	}
	const status = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, status, json, tensor, err string
	}{
		{"JSON", status, `{"scores":[0,1]}`, "", ""},
		{"JSON and more", status, `{"scores":[0.123456789,0.5e-9],"degraded":true}`, "", ""},
		{"too few", status, `{"scores":[0.5]}`, "", "1 scores, want 2"},
		{"above 1", status, `{"scores":[0.5,1.0000001]}`, "", "score 1 is 1.0000001"},
		{"below 0", status, `{"scores":[-0.5,1]}`, "", "score 0 is -0.5"},
		{"all alike", status, `{"scores":[0.5,0.5]}`, "", "all 2 scores are 0.5"},
		{"no JSON", status, `{"scores":[0.5,`, "", "JSON"},
		{"an error is another's", "HTTP/1.1 503 Service Unavailable\r\n", `{}`, "", ""},
		{"protocol, JSON", status, `{"outputs":[{"name":"scores","datatype":"FP64","shape":[2],"data":[0.5,0.25]}]}`, "", ""},
		{"protocol, too few", status, `{"outputs":[{"name":"scores","datatype":"FP64","shape":[2],"data":[0.5]}]}`, "", "1 scores of shape [2]"},
		{"other output", status, `{"outputs":[{"name":"x","datatype":"FP64","shape":[2],"data":[0.5,0.25]}]}`, "", `the first is "x"`},
		{"FP64", status, infer("FP64", 2, 16), fp64(0.5, 0.25), ""},
		{"FP32", status, infer("FP32", 2, 8), fp32, ""},
		{"not a number", status, infer("FP64", 2, 16), fp64(0.5, math.NaN()), "score 1 is NaN"},
		{"cut off", status, infer("FP64", 2, 16), fp64(0.5), "8 bytes of FP64, said to be 16"},
		{"other shape", status, infer("FP64", 3, 16), fp64(0.5, 0.25), "16 bytes of FP64"},
		{"other type", status, infer("INT64", 2, 16), fp64(0.5, 0.25), "INT64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := c.status
			if c.tensor != "" {
				raw += fmt.Sprintf("Inference-Header-Content-Length: %d\r\n", len(c.json))
			}
			raw += fmt.Sprintf("Content-Length: %d\r\n\r\n%s%s", len(c.json)+len(c.tensor), c.json, c.tensor)
			err := CheckScores([]byte(raw), 2)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
	const lies = status + "Inference-Header-Content-Length: 70\r\nContent-Length: 2\r\n\r\n{}"
	if err := CheckScores([]byte(lies), 2); err == nil || !strings.Contains(err.Error(), `"70" bytes of JSON`) {
		t.Errorf("a head beyond the answer is the error %v", err)
	}
}
