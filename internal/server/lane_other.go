//go:build !linux

package server

import (
	"context"
	"errors"
	"net"
)

// fastLane needs epoll: elsewhere net/http serves everything.
type fastLane struct{}

func newFastLane(*Server, net.Addr) (*fastLane, error) { return nil, errors.ErrUnsupported }

func (*fastLane) start(func(net.Listener))                       {}
func (*fastLane) accept(*net.TCPListener, <-chan struct{}) error { return errors.ErrUnsupported }
func (*fastLane) retime()                                        {}
func (*fastLane) announceStop()                                  {}
func (*fastLane) awaitStop(context.Context) error                { return nil }
func (*fastLane) finish(context.Context) error                   { return nil }
func (*fastLane) ready() int64                                   { return 0 }
func (*fastLane) queued(int) (waited, ready uint64)              { return 0, 0 }

// peerAddr is for sockets of loops.
func peerAddr(int) net.Addr { return nil }
