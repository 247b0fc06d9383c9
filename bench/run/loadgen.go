//go:build linux

package main

import (
	"context"
	"time"
)

const aboutLoad = "What asking the floor costs: wrk and `weir load` in turn, 64 connections in a closed " +
	"loop. What weir load adds to latencies is the lag in its result, at half of the rate of its closed " +
	"loop: how late a request was sent, and how long an answer may have waited to be seen."

const lag = "what it adds at half of its ceiling, p99, us"

func (b *bench) measureLoad(ctx context.Context) error {
	s := server{name: floor, command: "build/bin/floor --port {port}", path: "/"}
	return b.during(ctx, s, func(p *process) error {
		if _, err := b.wrk(ctx, p, time.Second, 64, "summary.lua"); err != nil { // is not counted
			return err
		}
		return b.inTurns([]string{wrk, weirLoad}, func(name string, round int) error {
			put := func(figure string, value float64) { b.put("load", name, figure, round, value) }
			ask := func() (*load, error) { return b.weirLoad(ctx, p, b.duration, "/", "--connections", "64") }
			if name == wrk {
				ask = func() (*load, error) { return b.wrk(ctx, p, b.duration, 64, "summary.lua") }
			}
			closed, err := ask()
			if err != nil {
				return err
			}
			put(cpu, closed.generatorCPU)
			put("requests/s", closed.served)
			put("p50, us", closed.p50)
			put("p99, us", closed.p99)
			if name == wrk {
				return nil
			}
			// As many connections from the beginning as a stall of the machine can take: opening them is not
			// the subject.
			open, err := b.openLoop(ctx, p, closed.served/2, "/", "--warm", "1000")
			if err != nil {
				return err
			}
			put(lag, open.lag)
			put("p50 there, us", open.p50)
			put("p99 there, us", open.p99)
			put("its thread works there, %", 100*open.generatorBusy)
			return nil
		})
	})
}
