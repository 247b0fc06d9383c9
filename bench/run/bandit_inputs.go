//go:build linux

package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"weir/bench/pool"
)

// What the bandit is measured on: arms and users as CSV, which both weir and the baseline read, and
// pools of requests. All of it is the same in every run.

const (
	banditUsers    = 100_000
	banditSegments = 4
	predictItems   = 400 // of a request
	poolRequests   = 500 // in a pool
	// Every so many items have an arm in each segment.
	segmentedItems = 10
)

// catalogue is the items: their ids rise, and are spread thin over ten times as many numbers.
type catalogue []int64

func newCatalogue(items int) catalogue {
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make(catalogue, items)
	for i := range ids {
		ids[i] = 10*int64(i) + rng.Int64N(10) + 1
	}
	return ids
}

// posterior is what is known of an item. Impressions range from 1 to a million and rates of success from 0.2 to
// 20 %, both spread evenly by order of magnitude. An item in ten has shapes that may be below 1, as
// forgetting leaves them.
func posterior(rng *rand.Rand) (alpha, beta float64) {
	impressions := math.Exp(rng.Float64() * math.Log(1e6))
	clicks := impressions * 0.002 * math.Exp(rng.Float64()*math.Log(100))
	if rng.IntN(10) == 0 {
		return 0.1 + clicks, 0.1 + impressions - clicks
	}
	return 1 + math.Round(clicks), 1 + math.Round(impressions-clicks)
}

// writeArms writes item,alpha,beta,segment: a row an item and for some items one in each segment.
func writeArms(to io.Writer, items catalogue) error {
	rng := rand.New(rand.NewPCG(1, 2))
	w := bufio.NewWriterSize(to, 1<<20)
	w.WriteString("item,alpha,beta,segment\n")
	var line []byte
	row := func(id int64, segment string) {
		alpha, beta := posterior(rng)
		line = strconv.AppendInt(line[:0], id, 10)
		line = strconv.AppendFloat(append(line, ','), alpha, 'g', 9, 64)
		line = strconv.AppendFloat(append(line, ','), beta, 'g', 9, 64)
		w.Write(append(append(append(line, ','), segment...), '\n'))
	}
	for i, id := range items {
		row(id, "")
		for s := 0; i%segmentedItems == 0 && s < banditSegments; s++ {
			row(id, segmentName(s))
		}
	}
	return w.Flush()
}

func segmentName(s int) string { return "s" + strconv.Itoa(s) }

// writeUsers writes user,segment for every other user. The rest have none.
func writeUsers(to io.Writer) error {
	w := bufio.NewWriter(to)
	w.WriteString("user,segment\n")
	for u := 0; u < banditUsers; u += 2 {
		fmt.Fprintf(w, "u%d,%s\n", u, segmentName(u/2%banditSegments))
	}
	return w.Flush()
}

// writeFile has write write a file that is there as a whole or not at all.
func writeFile(path string, write func(io.Writer) error) error {
	temp := path + ".new"
	f, err := os.Create(temp)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// asked is a request before it has a form.
type asked struct {
	user  string
	items []int64
}

// draw returns requests of random users for random items, any item at most once in a request.
func draw(items catalogue, n int) []asked {
	rng := rand.New(rand.NewPCG(1, 3))
	all := make([]asked, n)
	for i := range all {
		all[i].user = fmt.Sprint("u", rng.IntN(banditUsers))
		seen := map[int64]bool{}
		for len(all[i].items) < min(predictItems, len(items)) {
			id := items[rng.IntN(len(items))]
			if !seen[id] {
				seen[id] = true
				all[i].items = append(all[i].items, id)
			}
		}
	}
	return all
}

// predictJSON is POST /predict with ids as text.
func predictJSON(a asked) []byte {
	body := append([]byte(`{"user":"`), a.user...)
	body = append(body, `","items":[`...)
	for i, id := range a.items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(strconv.AppendInt(append(body, '"'), id, 10), '"')
	}
	return pool.Post("/predict", "application/json", append(body, "]}"...))
}

// predictNumbers is the same with ids as numbers.
func predictNumbers(a asked) []byte {
	body := append([]byte(`{"user":"`), a.user...)
	body = append(body, `","items":[`...)
	for i, id := range a.items {
		if i > 0 {
			body = append(body, ',')
		}
		body = strconv.AppendInt(body, id, 10)
	}
	return pool.Post("/predict", "application/json", append(body, "]}"...))
}

const inferPath = "/v2/models/bandit/infer"

// infer is a request of the Open Inference Protocol whose tensors, there and back, are binary.
func infer(a asked, items []byte, datatype string) []byte {
	user := binary.LittleEndian.AppendUint32(nil, uint32(len(a.user)))
	user = append(user, a.user...)
	head := fmt.Appendf(nil, `{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":%d}},`+
		`{"name":"items","shape":[%d],"datatype":%q,"parameters":{"binary_data_size":%d}}],"outputs":[{"name":"scores","parameters":{"binary_data":true}}]}`,
		len(user), len(a.items), datatype, len(items))
	length := len(head)
	body := append(append(head, user...), items...)
	return pool.Post(inferPath, "application/octet-stream", body, fmt.Sprint("Inference-Header-Content-Length: ", length))
}

func inferNumbers(a asked) []byte {
	var items []byte
	for _, id := range a.items {
		items = binary.LittleEndian.AppendUint64(items, uint64(id))
	}
	return infer(a, items, "INT64")
}

func inferTexts(a asked) []byte {
	var items []byte
	for _, id := range a.items {
		text := strconv.FormatInt(id, 10)
		items = append(binary.LittleEndian.AppendUint32(items, uint32(len(text))), text...)
	}
	return infer(a, items, "BYTES")
}

// writePool writes the requests in one form and returns the file's path.
func writePool(dir, name string, requests []asked, form func(asked) []byte) (string, error) {
	all := make([]pool.Request, len(requests))
	for i, a := range requests {
		all[i] = pool.Request{Bytes: form(a), Scores: len(a.items)}
	}
	path := filepath.Join(dir, name+".pool")
	return path, pool.Write(path, all)
}

// banditInputs are the paths of what was written.
type banditInputs struct {
	dir        string
	items      catalogue
	arms       string // CSV
	users      string // CSV
	armsFile   string // weir's
	pools      map[string]string
	importTime float64 // seconds
}

func writeInputs(dir string, items int) (*banditInputs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	in := &banditInputs{
		dir: dir, items: newCatalogue(items), pools: map[string]string{},
		arms: filepath.Join(dir, "arms.csv"), users: filepath.Join(dir, "users.csv"), armsFile: filepath.Join(dir, "arms.weir"),
	}
	if err := writeFile(in.arms, func(w io.Writer) error { return writeArms(w, in.items) }); err != nil {
		return nil, err
	}
	if err := writeFile(in.users, writeUsers); err != nil {
		return nil, err
	}
	requests := draw(in.items, poolRequests)
	for i, l := range banditLoads {
		path, err := writePool(dir, strconv.Itoa(i), requests, l.form)
		if err != nil {
			return nil, err
		}
		in.pools[l.name] = path
	}
	return in, nil
}
