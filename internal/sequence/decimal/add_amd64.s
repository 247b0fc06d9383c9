#include "textflag.h"

// The order that reverses a vector of 64 digits.
DATA reverse<>+0(SB)/8, $0x38393A3B3C3D3E3F
DATA reverse<>+8(SB)/8, $0x3031323334353637
DATA reverse<>+16(SB)/8, $0x28292A2B2C2D2E2F
DATA reverse<>+24(SB)/8, $0x2021222324252627
DATA reverse<>+32(SB)/8, $0x18191A1B1C1D1E1F
DATA reverse<>+40(SB)/8, $0x1011121314151617
DATA reverse<>+48(SB)/8, $0x08090A0B0C0D0E0F
DATA reverse<>+56(SB)/8, $0x0001020304050607
GLOBL reverse<>(SB), RODATA|NOPTR, $64

// The digit that a sum of two ASCII digits and a carry, 0x60 to 0x73, leaves: by the lowest six bits of the sum.
DATA sums<>+0(SB)/8, $0
DATA sums<>+8(SB)/8, $0
DATA sums<>+16(SB)/8, $0
DATA sums<>+24(SB)/8, $0
DATA sums<>+32(SB)/8, $"01234567"
DATA sums<>+40(SB)/8, $"89012345"
DATA sums<>+48(SB)/8, $"67890000"
DATA sums<>+56(SB)/8, $0
GLOBL sums<>(SB), RODATA|NOPTR, $64

// The digit that a difference of two digits and a borrow, -10 to 9, leaves, likewise.
DATA differences<>+0(SB)/8, $"01234567"
DATA differences<>+8(SB)/8, $"89000000"
DATA differences<>+16(SB)/8, $0
DATA differences<>+24(SB)/8, $0
DATA differences<>+32(SB)/8, $0
DATA differences<>+40(SB)/8, $0
DATA differences<>+48(SB)/8, $"00000001"
DATA differences<>+56(SB)/8, $"23456789"
GLOBL differences<>(SB), RODATA|NOPTR, $64

// The order that reverses the eight bytes of every word.
DATA swap<>+0(SB)/8, $0x0001020304050607
DATA swap<>+8(SB)/8, $0x08090A0B0C0D0E0F
DATA swap<>+16(SB)/8, $0x0001020304050607
DATA swap<>+24(SB)/8, $0x08090A0B0C0D0E0F
DATA swap<>+32(SB)/8, $0x0001020304050607
DATA swap<>+40(SB)/8, $0x08090A0B0C0D0E0F
DATA swap<>+48(SB)/8, $0x0001020304050607
DATA swap<>+56(SB)/8, $0x08090A0B0C0D0E0F
GLOBL swap<>(SB), RODATA|NOPTR, $64

// In all of this file SI is a, DI b, DX dst, CX how far into them the vector at hand is. Digits are looked up by a
// permutation, one instruction, in place of comparing, correcting and adding '0'.

// The fast way. A vector is eight words of eight digits. Their sums are biased so that decimal carries are carries between the
// bytes of a word, as in addWords, which leaves those between words. A word is nearly always known to carry or not to
// carry whether anything comes in from the one below: unless its digits add up to 99999999, and then this gives up. So a
// word takes the carry of the one below it without waiting for what came in there, and there is no chain.
//
//	Z16 swap, Z17 differences, Z18 the bias, Z19 an offset
//	Z2 the word sums of the vector before, of which the sign counts
//	Z4 the least word sum so far: zero if a word is not known to carry

#define WORDS \
	MOVQ dst+0(FP), DX; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DI; \
	MOVQ vectors+24(FP), CX; \
	SHLQ $6, CX; \
	VMOVDQU64 swap<>(SB), Z16; \
	VMOVDQU64 differences<>(SB), Z17; \
	VPTERNLOGD $0xFF, Z4, Z4, Z4

// WORDSDONE returns the carry, which is the sign of the topmost word or, with FLIP, its opposite; and whether all was known.
#define WORDSDONE(FLIP) \
	VPTESTNMQ Z4, Z4, K1; \
	VMOVQ X2, AX; \
	SHRQ $63, AX; \
	XORQ $FLIP, AX; \
	MOVQ AX, out+40(FP); \
	KORTESTB K1, K1; \
	SETEQ known+48(FP); \
	VZEROUPPER; \
	RET

// The sure way.
//
//	Z16 reverse, Z17 the table of digits, Z18 nine as a sum or zero, Z19 minus one, R8 how many vectors are left
//
// Digits that generate a carry are in R9, those that generate one or pass one on in R10. ADCQ runs the carries through both
// and leaves the one out of the vector in the carry flag, where nothing in the loop touches it: addresses are
// added to by LEAQ, DECQ spares it, and masks are combined in K registers. Bits of the sum that are not the exclusive or of
// the terms' are those that a carry came into.
//
// Digits are looked up by a permutation, one instruction, in place of comparing, correcting and adding '0'.

#define START \
	MOVQ dst+0(FP), DX; \
	MOVQ a+8(FP), SI; \
	MOVQ b+16(FP), DI; \
	MOVQ vectors+24(FP), R8; \
	VMOVDQU64 reverse<>(SB), Z16; \
	VPTERNLOGD $0xFF, Z19, Z19, Z19; \
	MOVQ R8, CX; \
	SHLQ $6, CX; \
	MOVQ carry+32(FP), AX; \
	NEGQ AX // sets the carry flag unless it is zero

// CARRY adds up K1 and K2 with the carry flag and leaves in K4 where carries come in.
#define CARRY \
	KMOVQ K1, R9; \
	KMOVQ K2, R10; \
	KXORQ K1, K2, K4; \
	ADCQ R9, R10; \
	KMOVQ R10, K3; \
	KXORQ K3, K4, K4

#define FINISH \
	SBBQ AX, AX; \
	NEGQ AX; \
	MOVQ AX, ret+40(FP); \
	VZEROUPPER; \
	RET

// func addWordsAVX512(dst, a, b *byte, vectors int, carry uint64) (out uint64, known bool)
TEXT ·addWordsAVX512(SB), NOSPLIT, $0-49
	WORDS
	MOVQ $0x9696969696969697, AX // 0xF6 less twice '0', and one for the carry that is taken back where there is none
	VPBROADCASTQ AX, Z18
	MOVQ carry+32(FP), AX
	DECQ AX
	VPBROADCASTQ AX, Z2

addWordsLoop:
	VMOVDQU64 -64(SI)(CX*1), Z0
	VPADDB -64(DI)(CX*1), Z0, Z0
	VPSHUFB Z16, Z0, Z0
	VPADDQ Z18, Z0, Z0
	VALIGNQ $1, Z0, Z2, Z3
	VMOVDQA64 Z0, Z2
	VPMINUQ Z0, Z4, Z4
	VPSRAQ $63, Z3, Z3 // -1 where the word below has not carried
	VPADDQ Z3, Z0, Z0
	VPERMB Z17, Z0, Z0
	VPSHUFB Z16, Z0, Z0
	VMOVDQU64 Z0, -64(DX)(CX*1)
	SUBQ $64, CX
	JNZ addWordsLoop
	WORDSDONE(1)

// func subWordsAVX512(dst, a, b *byte, vectors int, carry uint64) (out uint64, known bool)
TEXT ·subWordsAVX512(SB), NOSPLIT, $0-49
	WORDS
	MOVQ $0x4040404040404040, AX // keeps differences of digits positive while they are bytes
	VPBROADCASTQ AX, Z18
	MOVQ carry+32(FP), AX
	NEGQ AX
	VPBROADCASTQ AX, Z2

subWordsLoop:
	VPADDB -64(SI)(CX*1), Z18, Z0
	VPSUBB -64(DI)(CX*1), Z0, Z0
	VPSHUFB Z16, Z0, Z0
	VPSUBQ Z18, Z0, Z0
	VALIGNQ $1, Z0, Z2, Z3
	VMOVDQA64 Z0, Z2
	VPMINUQ Z0, Z4, Z4
	VPSRAQ $63, Z3, Z3 // -1 where the word below has borrowed
	VPADDQ Z3, Z0, Z0
	VPERMB Z17, Z0, Z0
	VPSHUFB Z16, Z0, Z0
	VMOVDQU64 Z0, -64(DX)(CX*1)
	SUBQ $64, CX
	JNZ subWordsLoop
	WORDSDONE(0)

// func addAVX512(dst, a, b *byte, vectors int, carry uint64) uint64
TEXT ·addAVX512(SB), NOSPLIT, $0-48
	VMOVDQU64 sums<>(SB), Z17
	MOVL $0x69, AX
	VPBROADCASTB AX, Z18
	START

addLoop:
	LEAQ -64(CX), CX
	VMOVDQU64 (SI)(CX*1), Z0
	VPADDB (DI)(CX*1), Z0, Z0
	VPERMB Z0, Z16, Z0
	VPCMPUB $6, Z18, Z0, K1 // above nine
	VPCMPUB $5, Z18, Z0, K2 // nine or above
	CARRY
	VPSUBB Z19, Z0, K4, Z0
	VPERMB Z17, Z0, Z0
	VPERMB Z0, Z16, Z0
	VMOVDQU64 Z0, (DX)(CX*1)
	DECQ R8
	JNZ addLoop
	FINISH

// func subAVX512(dst, a, b *byte, vectors int, carry uint64) uint64
TEXT ·subAVX512(SB), NOSPLIT, $0-48
	VMOVDQU64 differences<>(SB), Z17
	VPXORQ Z18, Z18, Z18
	START

subLoop:
	LEAQ -64(CX), CX
	VMOVDQU64 (SI)(CX*1), Z0
	VPSUBB (DI)(CX*1), Z0, Z0
	VPERMB Z0, Z16, Z0
	VPCMPB $1, Z18, Z0, K1 // below zero
	VPCMPB $2, Z18, Z0, K2 // zero or below
	CARRY
	VPADDB Z19, Z0, K4, Z0
	VPERMB Z17, Z0, Z0
	VPERMB Z0, Z16, Z0
	VMOVDQU64 Z0, (DX)(CX*1)
	DECQ R8
	JNZ subLoop
	FINISH
