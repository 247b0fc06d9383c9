package main

import "syscall"

// endWithParent lets the system end a server whose test binary was killed.
func endWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
