//go:build !purego

#include "textflag.h"

// HOME sets DX to the offset of the home of the key at (at), and uses AX. R8 is the number of homes.
#define HOME(at) \
	MOVL 12(at), AX \
	SHLQ $32, AX    \
	XORQ (at), AX   \
	MULQ R8         \
	SHLQ $6, DX

// func findHomes(cells *byte, homes uint64, keys []Key, alpha, beta *float64, scopes *Mask, beyond *int32) (left int)
TEXT ·findHomes(SB), NOSPLIT, $0-80
	MOVQ cells+0(FP), SI
	MOVQ homes+8(FP), R8
	MOVQ keys_base+16(FP), DI
	MOVQ keys_len+24(FP), R11
	MOVQ alpha+40(FP), R9
	MOVQ beta+48(FP), R12
	XORL R15, R15             // how many are left
	TESTQ R11, R11
	JZ   done

	// BX is the key whose home is asked for: 16 before the one that is looked at, and the last one in the end.
	SHLQ $4, R11
	ADDQ DI, R11
	SUBQ $16, R11
	MOVQ $16, CX
	MOVQ DI, BX

begin:
	HOME(BX)
	PREFETCHT0 (SI)(DX*1)
	ADDQ    $16, BX
	CMPQ    BX, R11
	CMOVQHI R11, BX
	DECQ    CX
	JNZ     begin             // CX is now the index

next:
	HOME(BX)
	PREFETCHT0 (SI)(DX*1)
	ADDQ    $16, BX
	CMPQ    BX, R11
	CMOVQHI R11, BX

	// R10 is the first cell if the key is there, else the second.
	HOME(DI)
	ADDQ    SI, DX
	MOVQ    (DX), R13
	XORQ    (DI), R13
	MOVL    12(DX), R14
	XORL    12(DI), R14
	LEAQ    32(DX), R10
	ORQ     R14, R13
	CMOVQEQ DX, R10

	// R13 is all ones if it is in none of them. Then the next cell is asked for, and the key is left to others.
	MOVQ    (R10), R13
	XORQ    (DI), R13
	MOVL    12(R10), R14
	XORL    12(DI), R14
	LEAQ    64(DX), AX
	ORQ     R14, R13
	CMOVQEQ DX, AX
	PREFETCHT0 (AX)
	NEGQ    R13
	SBBQ    R13, R13
	MOVQ    beyond+64(FP), AX
	MOVL    CX, (AX)(R15*4)
	SUBQ    R13, R15

	// What it says, or zeros.
	NOTQ    R13
	MOVQ    16(R10), AX
	ANDQ    R13, AX
	MOVQ    AX, (R9)(CX*8)
	MOVQ    24(R10), AX
	ANDQ    R13, AX
	MOVQ    AX, (R12)(CX*8)
	MOVQ    scopes+56(FP), AX
	ANDL    8(R10), R13
	MOVL    R13, (AX)(CX*4)

	INCQ    CX
	ADDQ    $16, DI
	CMPQ    DI, R11
	JLS     next

done:
	MOVQ R15, left+72(FP)
	RET
