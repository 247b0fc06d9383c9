//go:build !linux

package feasttest

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
