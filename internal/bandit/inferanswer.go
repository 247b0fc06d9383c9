package bandit

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"
)

// answerInference samples the posteriors that sc holds and answers with tensors.
func (b *Bandit) answerInference(w *reply, sc *scratch, degraded bool, start time.Time) {
	looked := time.Now()
	sc.sample(&sc.query)
	sampled := time.Now()
	in, q := &sc.inference, &sc.query
	dst := append(w.Body, '{')
	if in.id != nil {
		dst = append(append(append(dst, `"id":`...), in.id...), ',')
	}
	dst = append(dst, `"model_name":`...)
	dst = append(dst, b.modelJSON...)
	dst = append(dst, `,"model_version":"`+modelVersion+`"`...)
	if degraded {
		dst = append(dst, `,"parameters":{"degraded":true}`...)
	}
	dst = append(dst, `,"outputs":[`...)
	a := tensors{sc: sc, dst: dst, raw: sc.raw[:0], size: len(sc.score), top: q.top > 0}
	scores, items := &in.outputs[scoresOutput], &in.outputs[itemsOutput]
	all := !scores.asked && !items.asked
	switch {
	case a.top:
		a.size = len(sc.best(q, q.top))
	case scores.classes > 0:
		sc.best(q, scores.classes)
	}
	switch {
	case scores.classes > 0:
		a.classes(min(scores.classes, a.size), in.sends(scores))
	case all || scores.asked:
		a.scores(in.sends(scores))
	}
	if items.asked || all && a.top {
		a.items(in.items.datatype, in.sends(items))
	}
	a.dst = append(a.dst, `]}`...)
	if len(a.raw) > 0 {
		w.ContentType = "application/octet-stream"
		w.FieldInt(headerLength, len(a.dst))
		a.dst = append(a.dst, a.raw...)
	}
	w.Body, sc.raw = a.dst, a.raw
	b.count(len(sc.score), w.stripe, start, looked, sampled)
}

// sends reports whether the data of an output are binary.
func (in *inference) sends(o *output) bool {
	if o.said {
		return o.binary
	}
	return in.binary
}

// tensors are the outputs of an answer under way: their JSON, and the binary data that follow it.
type tensors struct {
	sc       *scratch
	dst, raw []byte
	size     int  // of scores and items
	top      bool // they are in the order of sc.order, else in that of the request
	began    int  // where the binary data of the tensor under way begin
}

// at returns which item of the request the i-th element is about.
func (a *tensors) at(i int) int {
	if a.top {
		return int(a.sc.order[i])
	}
	return i
}

// begin begins a tensor.
func (a *tensors) begin(name, datatype string, size int, binary bool) {
	if a.dst[len(a.dst)-1] != '[' {
		a.dst = append(a.dst, ',')
	}
	a.dst = append(append(a.dst, `{"name":"`...), name...)
	a.dst = append(append(a.dst, `","datatype":"`...), datatype...)
	a.dst = strconv.AppendInt(append(a.dst, `","shape":[`...), int64(size), 10)
	a.dst = append(a.dst, ']')
	if a.began = len(a.raw); !binary {
		a.dst = append(a.dst, `,"data":[`...)
	}
}

// end ends it.
func (a *tensors) end(binary bool) {
	if binary {
		a.dst = strconv.AppendInt(append(a.dst, `,"parameters":{"binary_data_size":`...),
			int64(len(a.raw)-a.began), 10)
		a.dst = append(a.dst, `}}`...)
		return
	}
	if last := len(a.dst) - 1; a.dst[last] == ',' {
		a.dst = a.dst[:last]
	}
	a.dst = append(a.dst, `]}`...)
}

func (a *tensors) scores(binary bool) {
	a.begin("scores", "FP64", a.size, binary)
	if binary {
		a.raw = slices.Grow(a.raw, 8*a.size)
	}
	for i := range a.size {
		x := a.sc.score[a.at(i)]
		if binary {
			a.raw = le.AppendUint64(a.raw, math.Float64bits(x))
		} else {
			a.dst = append(strconv.AppendFloat(a.dst, x, 'g', -1, 64), ',')
		}
	}
	a.end(binary)
}

// classes gives scores as texts, the k best of them.
func (a *tensors) classes(k int, binary bool) {
	a.begin("scores", "BYTES", k, binary)
	var text []byte
	for i, at := range a.sc.order[:k] {
		text = append(appendScore(text[:0], a.sc.score[at]), ':')
		if a.top {
			at = int32(i)
		}
		text = append(strconv.AppendInt(text, int64(at), 10), ':')
		text = append(text, a.sc.query.items[a.sc.order[i]].text...)
		a.text(text, binary)
	}
	a.end(binary)
}

// items gives the items as they were sent.
func (a *tensors) items(d *datatype, binary bool) {
	a.begin("items", d.name, a.size, binary)
	for i := range a.size {
		text := a.sc.query.items[a.at(i)].text
		switch {
		case d.width == 0:
			a.text(text, binary)
		case !binary:
			a.dst = append(append(a.dst, text...), ',')
		default:
			a.raw = append(a.raw, make([]byte, d.width)...)
			n, _ := strconv.ParseUint(string(text), 10, 64)
			if text[0] == '-' {
				signed, _ := strconv.ParseInt(string(text), 10, 64)
				n = uint64(signed)
			}
			if to := a.raw[len(a.raw)-d.width:]; d.width == 8 {
				le.PutUint64(to, n)
			} else {
				le.PutUint32(to, uint32(n))
			}
		}
	}
	a.end(binary)
}

// text gives an element of BYTES.
func (a *tensors) text(text []byte, binary bool) {
	if binary {
		a.raw = append(le.AppendUint32(a.raw, uint32(len(text))), text...)
	} else {
		a.dst = append(appendText(a.dst, string(text)), ',')
	}
}

var le = binary.LittleEndian
