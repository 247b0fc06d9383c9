#include "textflag.h"

// The order that reverses sixteen words of four bytes.
DATA backwards<>+0(SB)/8, $0x0000000E0000000F
DATA backwards<>+8(SB)/8, $0x0000000C0000000D
DATA backwards<>+16(SB)/8, $0x0000000A0000000B
DATA backwards<>+24(SB)/8, $0x0000000800000009
DATA backwards<>+32(SB)/8, $0x0000000600000007
DATA backwards<>+40(SB)/8, $0x0000000400000005
DATA backwards<>+48(SB)/8, $0x0000000200000003
DATA backwards<>+56(SB)/8, $0x0000000000000001
GLOBL backwards<>(SB), RODATA|NOPTR, $64

// func formatAVX512(dst *byte, z *float64, groups int, borrow uint64) uint64
TEXT ·formatAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ z+8(FP), SI
	MOVQ groups+16(FP), DX
	MOVQ borrow+24(FP), AX
	SHLQ $6, DX
	VMOVDQU64 backwards<>(SB), Z16
	VPXORQ Z17, Z17, Z17
	VPTERNLOGD $0xFF, Z18, Z18, Z18
	MOVL $10000, R8
	VPBROADCASTD R8, Z19
	MOVL $5243, R8
	VPBROADCASTW R8, Z20
	MOVL $100, R8
	VPBROADCASTW R8, Z21
	MOVL $103, R8
	VPBROADCASTW R8, Z22
	MOVL $10, R8
	VPBROADCASTW R8, Z23
	MOVL $0x30, R8
	VPBROADCASTB R8, Z24

formatLoop:
	VCVTTPD2DQ (SI), Y0
	VCVTTPD2DQ 128(SI), Y1
	VINSERTI64X4 $1, Y1, Z0, Z0
	// Negative digits borrow, zeros pass a borrow on: one addition takes it through all, as carries are in add_amd64.s.
	VPCMPD $1, Z17, Z0, K1
	VPCMPD $2, Z17, Z0, K2
	KMOVW K1, R9
	KMOVW K2, R10
	LEAQ (R9)(R10*1), R11
	ADDQ AX, R11
	XORQ R9, R10
	XORQ R11, R10
	MOVQ R11, AX
	SHRQ $16, AX
	KMOVW R10, K3
	VPADDD Z18, Z0, K3, Z0
	VPADDD Z19, Z0, Z1
	VPMINUD Z1, Z0, Z0 // as unsigned numbers, negative ones are the larger
	// Hundreds are a sixteen-bit half of their own, then tens a byte: x/100 is x*5243/2^19 below 10,000, x/10 is
	// x*103/2^10 below 100.
	VPMULHUW Z20, Z0, Z1
	VPSRLW $3, Z1, Z1
	VPMULLW Z21, Z1, Z2
	VPSUBW Z2, Z0, Z2
	VPSLLD $16, Z2, Z2
	VPORQ Z2, Z1, Z0
	VPMULLW Z22, Z0, Z1
	VPSRLW $10, Z1, Z1
	VPMULLW Z23, Z1, Z2
	VPSUBW Z2, Z0, Z2
	VPSLLW $8, Z2, Z2
	VPTERNLOGQ $0xFE, Z24, Z2, Z1 // all three together
	VPERMD Z1, Z16, Z1
	VMOVDQU64 Z1, -64(DI)(DX*1)
	ADDQ $256, SI
	SUBQ $64, DX
	JNZ formatLoop

	MOVQ AX, ret+32(FP)
	VZEROUPPER
	RET
