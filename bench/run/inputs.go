//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

// What predictions are measured on: arms and users as CSV, which both weir and the baseline read, and
// requests. All of it is the same in every run.

const (
	banditUsers    = 100_000
	banditSegments = 4
	predictItems   = 400 // a request
	poolRequests   = 500 // made beforehand
	segmentedItems = 10  // every so many items have an arm in each segment
)

// itemID returns the id of an item. All bytes of an id as an INT64 are below 0x78, so that a binary tensor
// is text: a request in a file of weir load is text.
func itemID(i int) int64 {
	i += i * 7 / 10 // spreads a million ids over all that there are
	return int64(i%120 | i/120%120<<8 | i/120/120%120<<16 | i/120/120/120<<24)
}

// posterior is what is known of an item. Impressions range from 1 to a million and rates of success from 0.2
// to 20 %, both spread evenly by order of magnitude. An item in ten has shapes that may be below 1, as
// forgetting leaves them.
func posterior(rng *rand.Rand) (alpha, beta float64) {
	impressions := math.Exp(rng.Float64() * math.Log(1e6))
	clicks := impressions * 0.002 * math.Exp(rng.Float64()*math.Log(100))
	if rng.IntN(10) == 0 {
		return 0.1 + clicks, 0.1 + impressions - clicks
	}
	return 1 + math.Round(clicks), 1 + math.Round(impressions-clicks)
}

func segmentName(s int) string { return "s" + strconv.Itoa(s) }

// writeBanditInputs writes item,alpha,beta,segment, with a row an item and for some one in each segment;
// user,segment for every other user; and a file of requests a form.
func (b *bench) writeBanditInputs() error {
	if err := os.MkdirAll(b.path("bandit"), 0o755); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	arms := bytes.NewBufferString("item,alpha,beta,segment\n")
	row := func(id int64, segment string) {
		alpha, beta := posterior(rng)
		fmt.Fprintf(arms, "%d,%.9g,%.9g,%s\n", id, alpha, beta, segment)
	}
	for i := range b.arms {
		row(itemID(i), "")
		for s := 0; i%segmentedItems == 0 && s < banditSegments; s++ {
			row(itemID(i), segmentName(s))
		}
	}
	users := bytes.NewBufferString("user,segment\n")
	for u := 0; u < banditUsers; u += 2 {
		fmt.Fprintf(users, "u%d,%s\n", u, segmentName(u/2%banditSegments))
	}
	if err := errors.Join(os.WriteFile(b.path("bandit", "arms.csv"), arms.Bytes(), 0o644),
		os.WriteFile(b.path("bandit", "users.csv"), users.Bytes(), 0o644)); err != nil {
		return err
	}
	for _, f := range forms {
		if err := b.writePool(f, b.arms); err != nil {
			return err
		}
	}
	return nil
}

// writePool writes requests of a form for the first items.
func (b *bench) writePool(f form, items int) error {
	var requests []request
	for _, a := range draw(poolRequests, items) {
		requests = append(requests, f.write(a))
	}
	return writeRequests(b.pool(f), requests)
}

// asked is a request before it has a form.
type asked struct {
	user  string
	items []int64
}

// draw returns requests of random users for random items out of the first ones, any item at most once in a
// request.
func draw(n, items int) []asked {
	rng := rand.New(rand.NewPCG(1, 3))
	all := make([]asked, n)
	for i := range all {
		all[i].user = fmt.Sprint("u", rng.IntN(banditUsers))
		seen := map[int64]bool{}
		for len(all[i].items) < min(predictItems, items) {
			if id := itemID(rng.IntN(items)); !seen[id] {
				seen[id] = true
				all[i].items = append(all[i].items, id)
			}
		}
	}
	return all
}

// predictText is POST /predict with ids as text, predictNumbers with ids as numbers.
func predictText(a asked) request    { return predict(a, `"`) }
func predictNumbers(a asked) request { return predict(a, "") }

func predict(a asked, quote string) request {
	ids := make([]string, len(a.items))
	for i, id := range a.items {
		ids[i] = quote + strconv.FormatInt(id, 10) + quote
	}
	return request{URL: "/predict", Body: fmt.Sprintf(`{"user":%q,"items":[%s]}`, a.user,
		strings.Join(ids, ","))}
}

// inferNumbers and inferTexts are requests of the Open Inference Protocol whose tensors, there and back, are
// binary.
func inferNumbers(a asked) request {
	var items []byte
	for _, id := range a.items {
		items = binary.LittleEndian.AppendUint64(items, uint64(id))
	}
	return infer(a, items, "INT64")
}

func inferTexts(a asked) request {
	var items []byte
	for _, id := range a.items {
		items = appendText(items, strconv.FormatInt(id, 10))
	}
	return infer(a, items, "BYTES")
}

func infer(a asked, items []byte, datatype string) request {
	user := appendText(nil, a.user)
	head := fmt.Sprintf(
		`{"inputs":[{"name":"user","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":%d}},`+
			`{"name":"items","shape":[%d],"datatype":%q,"parameters":{"binary_data_size":%d}}],`+
			`"outputs":[{"name":"scores","parameters":{"binary_data":true}}]}`, len(user), len(a.items),
		datatype, len(items))
	return request{URL: "/v2/models/bandit/infer", Body: head + string(user) + string(items),
		Headers: map[string]string{
			"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": strconv.Itoa(
				len(head)),
		}}
}

// appendText appends an element of a tensor of BYTES.
func appendText(b []byte, text string) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}
