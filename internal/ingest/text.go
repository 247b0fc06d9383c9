package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"sync"
)

const (
	blockSize = 256 << 10 // of text that is parsed at a time
	maxRow    = 32 << 20  // longest row of text: a list of MaxList strings of MaxString bytes is 17 MB
)

// A block is a run of whole rows of text.
type block struct {
	data []byte
	line int64 // number of its first line
}

// A job is a block on its way through a worker.
type job struct {
	block
	batch Batch
	err   error // instead of a block: why there is none
	done  chan struct{}
}

// readText cuts a stream into blocks, parses them on all cores and emits the batches in order.
// skip is how many lines come before the rows. cut returns how much of data is whole rows; at the
// end of the stream everything is.
func readText(ctx context.Context, s *stream, skip int64, to target,
	cut func(data []byte) int, parse func(block, *Batch), emit func(*Batch) error) error {

	ctx, cancel := context.WithCancel(ctx)
	workers := runtime.GOMAXPROCS(0)
	// Every job is in one of these channels or in somebody's hands, so that none ever blocks.
	free := make(chan *job, workers+3)
	todo := make(chan *job, cap(free))
	order := make(chan *job, cap(free))
	for range cap(free) {
		free <- &job{done: make(chan struct{}, 1)}
	}

	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		defer close(order)
		defer close(todo)
		cutBlocks(ctx, s, skip, cut, free, func(j *job) {
			todo <- j
			order <- j
		})
	})
	for range workers {
		running.Go(func() {
			for j := range todo {
				if j.err == nil {
					j.batch.reset(len(to.fields), 0)
					parse(j.block, &j.batch)
				}
				j.done <- struct{}{}
			}
		})
	}
	for j := range order {
		<-j.done
		if j.err != nil {
			return j.err
		}
		if err := emit(&j.batch); err != nil {
			return err
		}
		s.counted.report(to.bytes)
		free <- j
	}
	return ctx.Err()
}

// cutBlocks reads the stream to its end and submits it block by block. What is left of a block
// after its last whole row begins the next.
func cutBlocks(ctx context.Context, s *stream, skip int64, cut func([]byte) int, free chan *job,
	submit func(*job)) {
	line := int64(1)
	var rest []byte
	for skip > 0 {
		l, err := s.ReadSlice('\n')
		if len(l) == 0 && err != nil {
			break
		}
		if l[len(l)-1] == '\n' {
			skip--
			line++
		}
	}
	for {
		var j *job
		select {
		case j = <-free:
		case <-ctx.Done():
			return
		}
		j.data = append(j.data[:0], rest...)
		size := 0
		want := max(blockSize, 2*len(rest))
		for {
			j.data = grow(j.data, want)
			n, err := io.ReadFull(s, j.data[len(j.data):want])
			j.data = j.data[:len(j.data)+n]
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				j.line = line
				if len(j.data) > 0 {
					submit(j)
				}
				return
			}
			if err != nil {
				j.err = err
				submit(j)
				return
			}
			if size = cut(j.data); size > 0 {
				break
			}
			if len(j.data) > maxRow {
				j.err = fmt.Errorf("row %d is longer than %d MiB: is a quote not closed?", line, maxRow>>20)
				submit(j)
				return
			}
			want = 2 * len(j.data)
		}
		rest = append(rest[:0], j.data[size:]...)
		j.data, j.line = j.data[:size], line
		line += int64(bytes.Count(j.data, []byte{'\n'}))
		submit(j)
	}
}

// row appends a row of text by fill, which says what is wrong with it: then nothing of it stays.
func (b *Batch) row(file string, line int64, fill func() (BadRow, bool)) {
	b.seen++
	b.marks = b.marks[:0]
	for i := range b.Columns {
		b.marks = append(b.marks, b.Columns[i].mark())
	}
	bad, ok := fill()
	if ok {
		b.Rows++
		b.lines = append(b.lines, line)
		return
	}
	for i := range b.Columns {
		b.Columns[i].rewind(b.marks[i])
	}
	bad.File, bad.Row = file, line
	b.bad = append(b.bad, bad)
}

// grow gives data the capacity n.
func grow(data []byte, n int) []byte {
	if cap(data) >= n {
		return data
	}
	return append(make([]byte, 0, n), data...)
}
