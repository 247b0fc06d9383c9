#include "textflag.h"

// Constants for vectors of 64 digits.

DATA reverse<>+0(SB)/8, $0x38393A3B3C3D3E3F
DATA reverse<>+8(SB)/8, $0x3031323334353637
DATA reverse<>+16(SB)/8, $0x28292A2B2C2D2E2F
DATA reverse<>+24(SB)/8, $0x2021222324252627
DATA reverse<>+32(SB)/8, $0x18191A1B1C1D1E1F
DATA reverse<>+40(SB)/8, $0x1011121314151617
DATA reverse<>+48(SB)/8, $0x08090A0B0C0D0E0F
DATA reverse<>+56(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $64

// In all of this file:
//	Z16 the order that reverses a vector, Z17 '0', Z18 2*'0' or zero, Z19 nine or unused, Z20 ten, Z21 minus one
//	SI a, DI b, DX dst, CX how far into them the vector at hand is, R8 how many vectors are left
//
// Digits that generate a carry are in R9, those that generate one or pass one on in R10. ADCQ runs the carries through both and
// leaves the one out of the vector in the carry flag, where nothing in the loop touches it: additions to addresses are by LEAQ,
// DECQ spares it, and masks are combined in K registers. Sum bits that are not the exclusive or of the terms' are those that
// a carry came into.

#define CONSTANTS \
	VMOVDQU64 reverse<>(SB), Z16; \
	MOVL $0x30, AX; \
	VPBROADCASTB AX, Z17; \
	MOVL $10, AX; \
	VPBROADCASTB AX, Z20; \
	VPTERNLOGD $0xFF, Z21, Z21, Z21

// CARRY adds up K1 and K2 with the carry flag and leaves in K4 where carries come in.
#define CARRY \
	KMOVQ K1, R9; \
	KMOVQ K2, R10; \
	ADCQ R9, R10; \
	KXORQ K1, K2, K4; \
	KMOVQ R10, K3; \
	KXORQ K3, K4, K4

// func addAVX512(dst, a, b *byte, vectors int, carry uint64) uint64
TEXT ·addAVX512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DX
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DI
	MOVQ vectors+24(FP), R8
	CONSTANTS
	MOVL $0x60, AX
	VPBROADCASTB AX, Z18
	MOVL $9, AX
	VPBROADCASTB AX, Z19
	MOVQ R8, CX
	SHLQ $6, CX
	MOVQ carry+32(FP), AX
	NEGQ AX // sets the carry flag unless it is zero

addLoop:
	LEAQ -64(CX), CX
	VMOVDQU64 (SI)(CX*1), Z0
	VPADDB (DI)(CX*1), Z0, Z0
	VPSUBB Z18, Z0, Z0
	VPERMB Z0, Z16, Z0
	VPCMPUB $6, Z19, Z0, K1 // above nine
	VPCMPUB $5, Z19, Z0, K2 // nine or above
	CARRY
	VPSUBB Z21, Z0, K4, Z0
	VPSUBB Z20, Z0, Z1
	VPMINUB Z1, Z0, Z0 // what was below ten has wrapped around
	VPORQ Z17, Z0, Z0
	VPERMB Z0, Z16, Z0
	VMOVDQU64 Z0, (DX)(CX*1)
	DECQ R8
	JNZ addLoop

	SBBQ AX, AX
	NEGQ AX
	MOVQ AX, ret+40(FP)
	VZEROUPPER
	RET

// func subAVX512(dst, a, b *byte, vectors int, borrow uint64) uint64
TEXT ·subAVX512(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DX
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DI
	MOVQ vectors+24(FP), R8
	CONSTANTS
	VPXORQ Z18, Z18, Z18
	MOVQ R8, CX
	SHLQ $6, CX
	MOVQ borrow+32(FP), AX
	NEGQ AX

subLoop:
	LEAQ -64(CX), CX
	VMOVDQU64 (SI)(CX*1), Z0
	VPSUBB (DI)(CX*1), Z0, Z0
	VPERMB Z0, Z16, Z0
	VPCMPB $1, Z18, Z0, K1 // below zero
	VPCMPB $2, Z18, Z0, K2 // zero or below
	CARRY
	VPADDB Z21, Z0, K4, Z0
	VPADDB Z20, Z0, Z1
	VPMINUB Z1, Z0, Z0 // as unsigned numbers, negative ones are the larger
	VPORQ Z17, Z0, Z0
	VPERMB Z0, Z16, Z0
	VMOVDQU64 Z0, (DX)(CX*1)
	DECQ R8
	JNZ subLoop

	SBBQ AX, AX
	NEGQ AX
	MOVQ AX, ret+40(FP)
	VZEROUPPER
	RET
