//go:build !purego

package beta

import "golang.org/x/sys/cpu"

// drawAVX512 draws that many vectors of eight samples. The indices of those that the squeeze leaves
// undecided, and what judgeAVX512 needs to decide them, are appended to the lists of the work.
//
//go:noescape
func drawAVX512(dst, alpha, beta *float64, vectors int, w *work)

// judgeAVX512 decides the undecided and leaves the indices of those that have to be drawn again.
//
//go:noescape
func judgeAVX512(w *work)

//go:noescape
func drawAVX2(dst, alpha, beta *float64, vectors int, w *work)

//go:noescape
func judgeAVX2(w *work)

// kernels returns those that this processor can run, the fastest first. GODEBUG=cpu.avx512f=off in the
// environment turns one off, cpu.avx2=off the other.
func kernels() []kernel {
	var can []kernel
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL &&
		cpu.X86.HasPOPCNT {
		can = append(can, kernelAVX512)
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasBMI1 && cpu.X86.HasPOPCNT {
		can = append(can, kernelAVX2)
	}
	return can
}

// draw calls the kernel for as many vectors of eight as dst has.
func (k kernel) draw(dst, alpha, beta []float64, w *work) {
	vectors := len(dst) / 8
	if vectors == 0 {
		return
	}
	_, _ = alpha[8*vectors-1], beta[8*vectors-1]
	switch k {
	case kernelAVX512:
		drawAVX512(&dst[0], &alpha[0], &beta[0], vectors, w)
		if w.doubtful > 0 {
			judgeAVX512(w)
		}
	case kernelAVX2:
		drawAVX2(&dst[0], &alpha[0], &beta[0], 2*vectors, w)
		if w.doubtful > 0 {
			judgeAVX2(w)
		}
	default:
		panic("BUG: beta: no such kernel")
	}
}
