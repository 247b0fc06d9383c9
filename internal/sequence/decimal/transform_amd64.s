#include "textflag.h"

DATA sqrtHalf<>+0(SB)/8, $0.70710678118654752440084436210484903928483593768847
GLOBL sqrtHalf<>(SB), RODATA|NOPTR, $8

// A point is eight lanes in two registers, real parts in the even one and imaginary parts in the next. A root is, too.
// T and U are free.

// SPLIT: a, b = a + r b, a - r b
#define SPLIT(AR, AI, BR, BI, RR, RI, T, U) \
	VMULPD RR, BR, T; \
	VMULPD RR, BI, U; \
	VFNMADD231PD RI, BI, T; \
	VFMADD231PD RI, BR, U; \
	VSUBPD T, AR, BR; \
	VSUBPD U, AI, BI; \
	VADDPD T, AR, AR; \
	VADDPD U, AI, AI

// SPLITI: the same with i r in place of r.
#define SPLITI(AR, AI, BR, BI, RR, RI, T, U) \
	VMULPD RI, BR, T; \
	VMULPD RR, BR, U; \
	VFMADD231PD RR, BI, T; \
	VFNMADD231PD RI, BI, U; \
	VADDPD T, AR, BR; \
	VSUBPD U, AI, BI; \
	VSUBPD T, AR, AR; \
	VADDPD U, AI, AI

// JOIN: a, b = a + b, (a - b) / r
#define JOIN(AR, AI, BR, BI, RR, RI, T, U) \
	VSUBPD BR, AR, T; \
	VSUBPD BI, AI, U; \
	VADDPD BR, AR, AR; \
	VADDPD BI, AI, AI; \
	VMULPD RR, T, BR; \
	VMULPD RR, U, BI; \
	VFMADD231PD RI, U, BR; \
	VFNMADD231PD RI, T, BI

// JOINI: the same with i r in place of r.
#define JOINI(AR, AI, BR, BI, RR, RI, T, U) \
	VSUBPD AR, BR, T; \
	VSUBPD BI, AI, U; \
	VADDPD BR, AR, AR; \
	VADDPD BI, AI, AI; \
	VMULPD RI, T, BR; \
	VMULPD RR, T, BI; \
	VFMADD231PD RR, U, BR; \
	VFNMADD231PD RI, U, BI

// Points in Z0 to Z15, roots in Z16 to Z23, Z24 to Z31 free.
#define SPLIT8LOW \
	SPLIT(Z0, Z1, Z8, Z9, Z16, Z17, Z24, Z25); \
	SPLIT(Z2, Z3, Z10, Z11, Z16, Z17, Z26, Z27); \
	SPLIT(Z4, Z5, Z12, Z13, Z16, Z17, Z28, Z29); \
	SPLIT(Z6, Z7, Z14, Z15, Z16, Z17, Z30, Z31); \
	SPLIT(Z0, Z1, Z4, Z5, Z18, Z19, Z24, Z25); \
	SPLIT(Z2, Z3, Z6, Z7, Z18, Z19, Z26, Z27); \
	SPLITI(Z8, Z9, Z12, Z13, Z18, Z19, Z28, Z29); \
	SPLITI(Z10, Z11, Z14, Z15, Z18, Z19, Z30, Z31); \
	SPLIT(Z0, Z1, Z2, Z3, Z20, Z21, Z24, Z25); \
	SPLITI(Z4, Z5, Z6, Z7, Z20, Z21, Z26, Z27); \
	SPLIT(Z8, Z9, Z10, Z11, Z22, Z23, Z28, Z29); \
	SPLITI(Z12, Z13, Z14, Z15, Z22, Z23, Z30, Z31)

#define JOIN8LOW \
	JOIN(Z0, Z1, Z2, Z3, Z20, Z21, Z24, Z25); \
	JOINI(Z4, Z5, Z6, Z7, Z20, Z21, Z26, Z27); \
	JOIN(Z8, Z9, Z10, Z11, Z22, Z23, Z28, Z29); \
	JOINI(Z12, Z13, Z14, Z15, Z22, Z23, Z30, Z31); \
	JOIN(Z0, Z1, Z4, Z5, Z18, Z19, Z24, Z25); \
	JOIN(Z2, Z3, Z6, Z7, Z18, Z19, Z26, Z27); \
	JOINI(Z8, Z9, Z12, Z13, Z18, Z19, Z28, Z29); \
	JOINI(Z10, Z11, Z14, Z15, Z18, Z19, Z30, Z31); \
	JOIN(Z0, Z1, Z8, Z9, Z16, Z17, Z24, Z25); \
	JOIN(Z2, Z3, Z10, Z11, Z16, Z17, Z26, Z27); \
	JOIN(Z4, Z5, Z12, Z13, Z16, Z17, Z28, Z29); \
	JOIN(Z6, Z7, Z14, Z15, Z16, Z17, Z30, Z31)

// The same after a transposition: real parts in Z16 to Z23, imaginary parts in Z24 to Z31, roots in Z0 to Z7.
#define SPLIT8HIGH \
	SPLIT(Z16, Z24, Z20, Z28, Z0, Z1, Z8, Z9); \
	SPLIT(Z17, Z25, Z21, Z29, Z0, Z1, Z10, Z11); \
	SPLIT(Z18, Z26, Z22, Z30, Z0, Z1, Z12, Z13); \
	SPLIT(Z19, Z27, Z23, Z31, Z0, Z1, Z14, Z15); \
	SPLIT(Z16, Z24, Z18, Z26, Z2, Z3, Z8, Z9); \
	SPLIT(Z17, Z25, Z19, Z27, Z2, Z3, Z10, Z11); \
	SPLITI(Z20, Z28, Z22, Z30, Z2, Z3, Z12, Z13); \
	SPLITI(Z21, Z29, Z23, Z31, Z2, Z3, Z14, Z15); \
	SPLIT(Z16, Z24, Z17, Z25, Z4, Z5, Z8, Z9); \
	SPLITI(Z18, Z26, Z19, Z27, Z4, Z5, Z10, Z11); \
	SPLIT(Z20, Z28, Z21, Z29, Z6, Z7, Z12, Z13); \
	SPLITI(Z22, Z30, Z23, Z31, Z6, Z7, Z14, Z15)

#define JOIN8HIGH \
	JOIN(Z16, Z24, Z17, Z25, Z4, Z5, Z8, Z9); \
	JOINI(Z18, Z26, Z19, Z27, Z4, Z5, Z10, Z11); \
	JOIN(Z20, Z28, Z21, Z29, Z6, Z7, Z12, Z13); \
	JOINI(Z22, Z30, Z23, Z31, Z6, Z7, Z14, Z15); \
	JOIN(Z16, Z24, Z18, Z26, Z2, Z3, Z8, Z9); \
	JOIN(Z17, Z25, Z19, Z27, Z2, Z3, Z10, Z11); \
	JOINI(Z20, Z28, Z22, Z30, Z2, Z3, Z12, Z13); \
	JOINI(Z21, Z29, Z23, Z31, Z2, Z3, Z14, Z15); \
	JOIN(Z16, Z24, Z20, Z28, Z0, Z1, Z8, Z9); \
	JOIN(Z17, Z25, Z21, Z29, Z0, Z1, Z10, Z11); \
	JOIN(Z18, Z26, Z22, Z30, Z0, Z1, Z12, Z13); \
	JOIN(Z19, Z27, Z23, Z31, Z0, Z1, Z14, Z15)

// TRANSPOSE exchanges rows and lanes: row j of the result, in Tj, has lane j of A0 to A7. A0 to A7 are lost.
#define TRANSPOSE(A0, A1, A2, A3, A4, A5, A6, A7, T0, T1, T2, T3, T4, T5, T6, T7) \
	VUNPCKLPD A1, A0, T0; \
	VUNPCKHPD A1, A0, T1; \
	VUNPCKLPD A3, A2, T2; \
	VUNPCKHPD A3, A2, T3; \
	VUNPCKLPD A5, A4, T4; \
	VUNPCKHPD A5, A4, T5; \
	VUNPCKLPD A7, A6, T6; \
	VUNPCKHPD A7, A6, T7; \
	VSHUFF64X2 $0x88, T2, T0, A0; \
	VSHUFF64X2 $0xDD, T2, T0, A1; \
	VSHUFF64X2 $0x88, T6, T4, A2; \
	VSHUFF64X2 $0xDD, T6, T4, A3; \
	VSHUFF64X2 $0x88, T3, T1, A4; \
	VSHUFF64X2 $0xDD, T3, T1, A5; \
	VSHUFF64X2 $0x88, T7, T5, A6; \
	VSHUFF64X2 $0xDD, T7, T5, A7; \
	VSHUFF64X2 $0x88, A2, A0, T0; \
	VSHUFF64X2 $0xDD, A2, A0, T4; \
	VSHUFF64X2 $0x88, A3, A1, T2; \
	VSHUFF64X2 $0xDD, A3, A1, T6; \
	VSHUFF64X2 $0x88, A6, A4, T1; \
	VSHUFF64X2 $0xDD, A6, A4, T5; \
	VSHUFF64X2 $0x88, A7, A5, T3; \
	VSHUFF64X2 $0xDD, A7, A5, T7

// Eight points that stand BX bytes apart, from SI on; R9 is SI + 4 BX, R10 is 3 BX.
#define LOAD8 \
	VMOVUPD (SI), Z0; \
	VMOVUPD 64(SI), Z1; \
	VMOVUPD (SI)(BX*1), Z2; \
	VMOVUPD 64(SI)(BX*1), Z3; \
	VMOVUPD (SI)(BX*2), Z4; \
	VMOVUPD 64(SI)(BX*2), Z5; \
	VMOVUPD (SI)(R10*1), Z6; \
	VMOVUPD 64(SI)(R10*1), Z7; \
	VMOVUPD (R9), Z8; \
	VMOVUPD 64(R9), Z9; \
	VMOVUPD (R9)(BX*1), Z10; \
	VMOVUPD 64(R9)(BX*1), Z11; \
	VMOVUPD (R9)(BX*2), Z12; \
	VMOVUPD 64(R9)(BX*2), Z13; \
	VMOVUPD (R9)(R10*1), Z14; \
	VMOVUPD 64(R9)(R10*1), Z15

#define STORE8 \
	VMOVUPD Z0, (SI); \
	VMOVUPD Z1, 64(SI); \
	VMOVUPD Z2, (SI)(BX*1); \
	VMOVUPD Z3, 64(SI)(BX*1); \
	VMOVUPD Z4, (SI)(BX*2); \
	VMOVUPD Z5, 64(SI)(BX*2); \
	VMOVUPD Z6, (SI)(R10*1); \
	VMOVUPD Z7, 64(SI)(R10*1); \
	VMOVUPD Z8, (R9); \
	VMOVUPD Z9, 64(R9); \
	VMOVUPD Z10, (R9)(BX*1); \
	VMOVUPD Z11, 64(R9)(BX*1); \
	VMOVUPD Z12, (R9)(BX*2); \
	VMOVUPD Z13, 64(R9)(BX*2); \
	VMOVUPD Z14, (R9)(R10*1); \
	VMOVUPD Z15, 64(R9)(R10*1)

#define PASS \
	MOVQ z+0(FP), SI; \
	MOVQ stride+8(FP), BX; \
	SHLQ $3, BX; \
	MOVQ vectors+16(FP), CX; \
	MOVQ r+24(FP), AX; \
	LEAQ (SI)(BX*4), R9; \
	LEAQ (BX)(BX*2), R10; \
	VBROADCASTSD (AX), Z16; \
	VBROADCASTSD 8(AX), Z17; \
	VBROADCASTSD 16(AX), Z18; \
	VBROADCASTSD 24(AX), Z19; \
	VBROADCASTSD 32(AX), Z20; \
	VBROADCASTSD 40(AX), Z21; \
	VBROADCASTSD 48(AX), Z22; \
	VBROADCASTSD 56(AX), Z23

// func split8AVX512(z *float64, stride, vectors int, r *[4]complex128)
TEXT ·split8AVX512(SB), NOSPLIT, $0-32
	PASS

split8Loop:
	LOAD8
	SPLIT8LOW
	STORE8
	ADDQ $128, SI
	ADDQ $128, R9
	DECQ CX
	JNZ split8Loop
	VZEROUPPER
	RET

// func join8AVX512(z *float64, stride, vectors int, r *[4]complex128)
TEXT ·join8AVX512(SB), NOSPLIT, $0-32
	PASS

join8Loop:
	LOAD8
	JOIN8LOW
	STORE8
	ADDQ $128, SI
	ADDQ $128, R9
	DECQ CX
	JNZ join8Loop
	VZEROUPPER
	RET

#define LOAD4 \
	VMOVUPD (SI), Z0; \
	VMOVUPD 64(SI), Z1; \
	VMOVUPD (SI)(BX*1), Z2; \
	VMOVUPD 64(SI)(BX*1), Z3; \
	VMOVUPD (SI)(BX*2), Z4; \
	VMOVUPD 64(SI)(BX*2), Z5; \
	VMOVUPD (SI)(R10*1), Z6; \
	VMOVUPD 64(SI)(R10*1), Z7

#define STORE4 \
	VMOVUPD Z0, (SI); \
	VMOVUPD Z1, 64(SI); \
	VMOVUPD Z2, (SI)(BX*1); \
	VMOVUPD Z3, 64(SI)(BX*1); \
	VMOVUPD Z4, (SI)(BX*2); \
	VMOVUPD Z5, 64(SI)(BX*2); \
	VMOVUPD Z6, (SI)(R10*1); \
	VMOVUPD Z7, 64(SI)(R10*1)

// func split4AVX512(z *float64, stride, vectors int, r *[4]complex128)
TEXT ·split4AVX512(SB), NOSPLIT, $0-32
	PASS

split4Loop:
	LOAD4
	SPLIT(Z0, Z1, Z4, Z5, Z16, Z17, Z24, Z25)
	SPLIT(Z2, Z3, Z6, Z7, Z16, Z17, Z26, Z27)
	SPLIT(Z0, Z1, Z2, Z3, Z18, Z19, Z28, Z29)
	SPLITI(Z4, Z5, Z6, Z7, Z18, Z19, Z30, Z31)
	STORE4
	ADDQ $128, SI
	DECQ CX
	JNZ split4Loop
	VZEROUPPER
	RET

// func join4AVX512(z *float64, stride, vectors int, r *[4]complex128)
TEXT ·join4AVX512(SB), NOSPLIT, $0-32
	PASS

join4Loop:
	LOAD4
	JOIN(Z0, Z1, Z2, Z3, Z18, Z19, Z24, Z25)
	JOINI(Z4, Z5, Z6, Z7, Z18, Z19, Z26, Z27)
	JOIN(Z0, Z1, Z4, Z5, Z16, Z17, Z28, Z29)
	JOIN(Z2, Z3, Z6, Z7, Z16, Z17, Z30, Z31)
	STORE4
	ADDQ $128, SI
	DECQ CX
	JNZ join4Loop
	VZEROUPPER
	RET

// SCALARROOT multiplies a root that all lanes share by the run's; RR and RI become their product, T and U are free.
#define SCALARROOT(AT, RUN, RR, RI, T, U) \
	VBROADCASTSD (AT)(DX), T; \
	VBROADCASTSD (AT+8)(DX), U; \
	VMULPD.BCST (RUN)(AX), T, RR; \
	VMULPD.BCST (RUN+8)(AX), T, RI; \
	VFNMADD231PD.BCST (RUN+8)(AX), U, RR; \
	VFMADD231PD.BCST (RUN)(AX), U, RI

// VECTORROOT does so for roots that are the lanes' own.
#define VECTORROOT(AT, RUN, RR, RI, T, U) \
	VMOVUPD (AT)(DX), T; \
	VMOVUPD (AT+64)(DX), U; \
	VMULPD.BCST (RUN)(AX), T, RR; \
	VMULPD.BCST (RUN+8)(AX), T, RI; \
	VFNMADD231PD.BCST (RUN+8)(AX), U, RR; \
	VFMADD231PD.BCST (RUN)(AX), U, RI

// EIGHTH turns a root by an eighth of a circle, which is to multiply it by root(2).
#define EIGHTH(RR, RI, SR, SI) \
	VSUBPD RI, RR, SR; \
	VADDPD RI, RR, SI; \
	VMULPD.BCST sqrtHalf<>(SB), SR, SR; \
	VMULPD.BCST sqrtHalf<>(SB), SI, SI

#define SCALARROOTS \
	SCALARROOT(0, 0, Z16, Z17, Z24, Z25); \
	SCALARROOT(16, 16, Z18, Z19, Z26, Z27); \
	SCALARROOT(32, 32, Z20, Z21, Z28, Z29); \
	EIGHTH(Z20, Z21, Z22, Z23)

#define VECTORROOTS \
	VECTORROOT(64, 48, Z0, Z1, Z8, Z9); \
	VECTORROOT(192, 64, Z2, Z3, Z10, Z11); \
	VECTORROOT(320, 80, Z4, Z5, Z12, Z13); \
	EIGHTH(Z4, Z5, Z6, Z7)

#define SQUARE(R, I, T, U) \
	VADDPD R, R, T; \
	VMULPD I, I, U; \
	VFMSUB213PD U, R, R; \
	VMULPD T, I, I

// func leavesAVX512(z *float64, blocks int, leaf *float64, run *[12]float64)
TEXT ·leavesAVX512(SB), NOSPLIT, $0-32
	MOVQ z+0(FP), SI
	MOVQ blocks+8(FP), CX
	MOVQ leaf+16(FP), DX
	MOVQ run+24(FP), AX
	MOVQ $128, BX
	LEAQ 512(SI), R9
	MOVQ $384, R10

leavesLoop:
	LOAD8
	SCALARROOTS
	SPLIT8LOW
	TRANSPOSE(Z0, Z2, Z4, Z6, Z8, Z10, Z12, Z14, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	TRANSPOSE(Z1, Z3, Z5, Z7, Z9, Z11, Z13, Z15, Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31)
	VECTORROOTS
	SPLIT8HIGH
	SQUARE(Z16, Z24, Z8, Z9)
	SQUARE(Z17, Z25, Z10, Z11)
	SQUARE(Z18, Z26, Z12, Z13)
	SQUARE(Z19, Z27, Z14, Z15)
	SQUARE(Z20, Z28, Z8, Z9)
	SQUARE(Z21, Z29, Z10, Z11)
	SQUARE(Z22, Z30, Z12, Z13)
	SQUARE(Z23, Z31, Z14, Z15)
	JOIN8HIGH
	TRANSPOSE(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23, Z0, Z2, Z4, Z6, Z8, Z10, Z12, Z14)
	TRANSPOSE(Z24, Z25, Z26, Z27, Z28, Z29, Z30, Z31, Z1, Z3, Z5, Z7, Z9, Z11, Z13, Z15)
	SCALARROOTS
	JOIN8LOW
	STORE8
	ADDQ $1024, SI
	ADDQ $1024, R9
	ADDQ $448, DX
	DECQ CX
	JNZ leavesLoop
	VZEROUPPER
	RET

// Constants of settleAVX512 that DX points to, each one float64:
//	0 1/n, 8 1/base, 16 base, 24 base/2, 32 1/2, 40 2, 48 realRe, 56 realIm, 64 imagRe, 72 imagIm
//
// State that AX points to, each eight float64:
//	Z0 to Z2 carries of the real digits before, level by level; Z4 to Z6 of the imaginary ones
//	Z8, Z9 the real coefficients of the vector before, halved, and their remainders; Z10, Z11 the imaginary ones
//	Z12 the sum of squares, Z13 unused

// Three levels of carries, all lanes at once, in place of one chain through all digits: coefficients below 10^14 leave carries below
// 10^10, those below 10^6 and these below 100, so digits end up a hundred at most beyond half the base.
//
// LEVEL takes the part of the digits V beyond the base and adds it one lane further up. H has what the vector before has
// carried, and then what this one has.
#define LEVEL(V, H, T) \
	VMULPD Z15, V, T; \
	VRNDSCALEPD $0, T, T; \
	VFNMADD231PD Z16, T, V; \
	VALIGNQ $7, H, T, H; \
	VADDPD H, V, V; \
	VMOVAPD T, H

// func settleAVX512(to, from *float64, vectors int, c *[10]float64, state *[104]float64)
TEXT ·settleAVX512(SB), NOSPLIT, $0-40
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ vectors+16(FP), CX
	MOVQ c+24(FP), DX
	MOVQ state+32(FP), AX
	VMOVUPD (AX), Z0
	VMOVUPD 64(AX), Z1
	VMOVUPD 128(AX), Z2
	VMOVUPD 256(AX), Z4
	VMOVUPD 320(AX), Z5
	VMOVUPD 384(AX), Z6
	VMOVUPD 512(AX), Z8
	VMOVUPD 576(AX), Z9
	VMOVUPD 640(AX), Z10
	VMOVUPD 704(AX), Z11
	VMOVUPD 768(AX), Z12
	VBROADCASTSD 8(DX), Z15
	VBROADCASTSD 16(DX), Z16
	VBROADCASTSD 24(DX), Z17
	VBROADCASTSD (DX), Z18

settleLoop:
	VMULPD (SI), Z18, Z20
	VMULPD 64(SI), Z18, Z21
	VRNDSCALEPD $0, Z20, Z20
	VRNDSCALEPD $0, Z21, Z21
	// Twice the two numbers, then their halves and the remainders.
	VMULPD.BCST 48(DX), Z20, Z22
	VMULPD.BCST 64(DX), Z20, Z23
	VFMADD231PD.BCST 56(DX), Z21, Z22
	VFMADD231PD.BCST 72(DX), Z21, Z23
	VMULPD.BCST 32(DX), Z22, Z24
	VMULPD.BCST 32(DX), Z23, Z25
	VRNDSCALEPD $0, Z24, Z24
	VRNDSCALEPD $0, Z25, Z25
	VFNMADD231PD.BCST 40(DX), Z24, Z22
	VFNMADD231PD.BCST 40(DX), Z25, Z23
	// The vector before gets its remainders, which are those of the lanes one further up.
	VALIGNQ $1, Z9, Z22, Z26
	VALIGNQ $1, Z11, Z23, Z27
	VFMADD231PD Z26, Z17, Z8
	VFMADD231PD Z27, Z17, Z10
	LEVEL(Z8, Z0, Z28)
	LEVEL(Z10, Z4, Z29)
	LEVEL(Z8, Z1, Z30)
	LEVEL(Z10, Z5, Z31)
	LEVEL(Z8, Z2, Z28)
	LEVEL(Z10, Z6, Z29)
	VFMADD231PD Z8, Z8, Z12
	VFMADD231PD Z10, Z10, Z12
	VMOVUPD Z8, (DI)
	VMOVUPD Z10, 64(DI)
	VMOVAPD Z24, Z8
	VMOVAPD Z22, Z9
	VMOVAPD Z25, Z10
	VMOVAPD Z23, Z11
	ADDQ $128, SI
	ADDQ $128, DI
	DECQ CX
	JNZ settleLoop

	VMOVUPD Z0, (AX)
	VMOVUPD Z1, 64(AX)
	VMOVUPD Z2, 128(AX)
	VMOVUPD Z4, 256(AX)
	VMOVUPD Z5, 320(AX)
	VMOVUPD Z6, 384(AX)
	VMOVUPD Z8, 512(AX)
	VMOVUPD Z9, 576(AX)
	VMOVUPD Z10, 640(AX)
	VMOVUPD Z11, 704(AX)
	VMOVUPD Z12, 768(AX)
	VZEROUPPER
	RET
