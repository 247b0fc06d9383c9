//go:build !linux

package systest

import "syscall"

func endWithParent() *syscall.SysProcAttr { return nil }
