//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Eight samples at once. The method is that of the package comment; see SIMD.md for what is done differently and why it is still exact.
//
// Z0 to Z2 are a, b and c of eight generators; R8 the constants; Z31 ones. A random word in W, and macros' results, are named by
// their last operands, as the assembler has it. Operands stand in the reverse of the manuals' order: VSUBPD b, a, c is c = a - b.

#define C(field) field(R8)
#define AT(field, i) (field+8*i)(R8)

// RANDOM leaves a random word in every lane of W: SFC64. All lanes' counters are equal, so one of them does.
#define COUNTER (work_lanes+192)(R9)

#define RANDOM(W) \
	VPADDQ Z0, Z1, W; \
	VPADDQ.BCST COUNTER, W, W; \
	INCQ COUNTER; \
	VPSRLQ $11, Z1, Z0; \
	VPXORQ Z0, Z1, Z0; \
	VPSLLQ $3, Z2, Z1; \
	VPADDQ Z1, Z2, Z1; \
	VPROLQ $24, Z2, Z2; \
	VPADDQ W, Z2, Z2

// NEGLOG sets L to -2 scale^2 log(W/2^64): the mantissa's first three bits choose a reciprocal that brings it near one. T1 to T8 are scratch.
#define NEGLOG(W, L, T1, T2, T3, T4, T5, T6, T7, T8) \
	VCVTUQQ2PD W, T1; \
	VGETEXPPD T1, T2; \
	VGETMANTPD $0, T1, T1; \
	VPSRLQ $49, T1, T3; \
	VPERMPD AT(zmm_reciprocals, 0), T3, T4; \
	VPERMPD AT(zmm_logs, 0), T3, L; \
	VFMSUB213PD Z31, T4, T1; \
	VFMADD231PD.BCST C(zmm_ln2), T2, L; \
	VMULPD T1, T1, T2; \
	VBROADCASTSD AT(zmm_log, 9), T3; \
	VBROADCASTSD AT(zmm_log, 7), T4; \
	VBROADCASTSD AT(zmm_log, 5), T5; \
	VBROADCASTSD AT(zmm_log, 3), T6; \
	VBROADCASTSD AT(zmm_log, 1), T7; \
	VFMADD213PD.BCST AT(zmm_log, 8), T1, T3; \
	VFMADD213PD.BCST AT(zmm_log, 6), T1, T4; \
	VFMADD213PD.BCST AT(zmm_log, 4), T1, T5; \
	VFMADD213PD.BCST AT(zmm_log, 2), T1, T6; \
	VFMADD213PD.BCST AT(zmm_log, 0), T1, T7; \
	VMULPD T2, T2, T8; \
	VFMADD231PD T4, T2, T5; \
	VFMADD231PD T6, T2, T7; \
	VFMADD231PD T3, T8, T5; \
	VFMADD231PD T5, T8, T7; \
	VFMADD231PD T7, T1, L

// SHAPE clamps the shapes in A, of which a NaN becomes the least, sets K where they are below one, and D to d.
#define SHAPE(A, K, D) \
	VMAXPD.BCST C(zmm_minShape), A, A; \
	VMINPD.BCST C(zmm_maxShape), A, A; \
	VCMPPD $1, Z31, A, K; \
	VADDPD.BCST C(zmm_minusThird), A, D; \
	VADDPD Z31, D, K, D

// KEEP appends the lanes K4 of V to a list of the work.
#define KEEP(V, list) \
	VCOMPRESSPD.Z V, K4, Z7; \
	VMOVUPD Z7, list(R9)(R10*8)

// func drawAVX512(dst, alpha, beta *float64, vectors int, w *work)
TEXT ·drawAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ alpha+8(FP), SI
	MOVQ beta+16(FP), DX
	MOVQ vectors+24(FP), CX
	MOVQ w+32(FP), R9
	LEAQ ·zmmConstants(SB), R8
	MOVQ work_doubtful(R9), R10
	VMOVDQU64 (work_lanes+0)(R9), Z0
	VMOVDQU64 (work_lanes+64)(R9), Z1
	VMOVDQU64 (work_lanes+128)(R9), Z2
	VBROADCASTSD C(zmm_one), Z31
	VPBROADCASTQ C(zmm_twelveBits), Z30
	VMOVUPD AT(zmm_cosines, 0), Z29
	VMOVUPD AT(zmm_sines, 0), Z28
	XORQ BX, BX // the index of the first lane
	SHLQ $3, CX
	JEQ done

loop:
	VMOVUPD (SI)(BX*8), Z4
	VMOVUPD (DX)(BX*8), Z5
	RANDOM(Z7)
	VCVTQQ2PD Z7, Z25

	// Beta(1, 1), the prior of arms that nothing is known of, is uniform.
	VCMPPD $0, Z31, Z4, K1
	VCMPPD $0, Z31, Z5, K1, K1
	KORTESTB K1, K1
	JCS uniform

	// A Box-Muller pair, times scale: x in Z21, y in Z22, their squares' sum in Z12.
	RANDOM(Z6)
	NEGLOG(Z6, Z12, Z8, Z9, Z10, Z11, Z13, Z14, Z15, Z16)
	VSQRTPD Z12, Z13
	VMULPD Z25, Z25, Z9
	VPERMPD Z29, Z7, Z10
	VPERMPD Z28, Z7, Z11
	VMULPD Z9, Z9, Z14
	VBROADCASTSD AT(zmm_cos, 5), Z15
	VBROADCASTSD AT(zmm_cos, 3), Z16
	VBROADCASTSD AT(zmm_cos, 1), Z17
	VBROADCASTSD AT(zmm_sin, 5), Z18
	VBROADCASTSD AT(zmm_sin, 3), Z19
	VBROADCASTSD AT(zmm_sin, 1), Z20
	VFMADD213PD.BCST AT(zmm_cos, 4), Z9, Z15
	VFMADD213PD.BCST AT(zmm_cos, 2), Z9, Z16
	VFMADD213PD Z31, Z9, Z17
	VFMADD213PD.BCST AT(zmm_sin, 4), Z9, Z18
	VFMADD213PD.BCST AT(zmm_sin, 2), Z9, Z19
	VFMADD213PD.BCST AT(zmm_sin, 0), Z9, Z20
	VFMADD231PD Z15, Z14, Z16
	VFMADD231PD Z18, Z14, Z19
	VFMADD231PD Z16, Z14, Z17
	VFMADD231PD Z19, Z14, Z20
	VMULPD Z25, Z20, Z20
	VMULPD Z10, Z13, Z10
	VMULPD Z11, Z13, Z11
	VMULPD Z11, Z20, Z21
	VMULPD Z10, Z20, Z22
	VFMSUB231PD Z17, Z10, Z21
	VFMADD231PD Z17, Z11, Z22

	// d in Z23 and Z24, c x in Z8 and Z9.
	SHAPE(Z4, K2, Z23)
	SHAPE(Z5, K3, Z24)
	VRSQRT14PD Z23, Z8
	VRSQRT14PD Z24, Z9
	VMULPD Z21, Z8, Z8
	VMULPD Z22, Z9, Z9

	// The squeeze. K4 is where it does not tell. The count of low bits of the radius' word, which it hardly depends on, is uniform.
	VMULPD Z21, Z8, Z10
	VMULPD Z22, Z9, Z11
	VMULPD Z11, Z11, Z11
	VBROADCASTSD C(zmm_squeezed), Z14
	VFMADD231PD Z10, Z10, Z11
	VFNMADD231PD.BCST C(zmm_loss), Z12, Z14
	VFNMADD231PD.BCST C(zmm_squeeze), Z11, Z14
	VPTERNLOGQ.BCST $0xEA, C(zmm_exponent), Z30, Z6
	VCMPPD $0x16, Z14, Z6, K4
	KANDNB K4, K1, K4

	// The gammas, d (1+cx)^3, in Z17 and Z18.
	VADDPD Z31, Z8, Z15
	VADDPD Z31, Z9, Z16
	VMULPD Z15, Z23, Z17
	VMULPD Z16, Z24, Z18
	VMULPD Z15, Z15, Z15
	VMULPD Z16, Z16, Z16
	VMULPD Z15, Z17, Z17
	VMULPD Z16, Z18, Z18
	KORTESTB K2, K3
	JNE small

ratio:
	VADDPD Z17, Z18, Z19
	VDIVPD Z19, Z17, Z19
	VMULPD.BCST C(zmm_toUnit), Z25, K1, Z19
	VADDPD.BCST C(zmm_half), Z19, K1, Z19
	VMOVUPD Z19, (DI)(BX*8)
	KORTESTB K4, K4
	JNE keep

next:
	ADDQ $8, BX
	CMPQ BX, CX
	JLT loop

done:
	MOVQ R10, work_doubtful(R9)
	VMOVDQU64 Z0, (work_lanes+0)(R9)
	VMOVDQU64 Z1, (work_lanes+64)(R9)
	VMOVDQU64 Z2, (work_lanes+128)(R9)
	VPBROADCASTQ COUNTER, Z3
	VMOVDQU64 Z3, COUNTER
	VZEROUPPER
	RET

uniform:
	VMULPD.BCST C(zmm_toUnit), Z25, Z19
	VADDPD.BCST C(zmm_half), Z19, Z19
	VMOVUPD Z19, (DI)(BX*8)
	JMP next

	// All that the full test needs.
keep:
	KEEP(Z23, work_da)
	KEEP(Z24, work_db)
	KEEP(Z8, work_ya)
	KEEP(Z9, work_yb)
	KEEP(Z12, work_squares)
	KEEP(Z6, work_low)
	VPBROADCASTQ BX, Z7
	VPADDQ AT(zmm_count, 0), Z7, Z7
	VPCOMPRESSQ.Z Z7, K4, Z7
	VMOVDQU64 Z7, work_index(R9)(R10*8)
	KMOVB K4, AX
	POPCNTL AX, AX
	ADDQ AX, R10
	JMP next

	// Shapes below one: one of the two gammas is multiplied by U^(1/shape). Where both shapes are, a of a+b times Beta(a, b) is Beta(a+1, b),
	// and else it is Beta(a, b+1); so there only one remains as well.
small:
	RANDOM(Z7)
	KANDNB K3, K2, K6 // only b
	KANDB K2, K3, K5
	KORTESTB K5, K5
	JEQ single
	RANDOM(Z10)
	VCVTUQQ2PD Z10, Z10
	VADDPD Z4, Z5, Z11
	VMULPD Z10, Z11, Z11
	VMULPD.BCST C(zmm_fromUnit), Z4, Z13
	VCMPPD $1, Z13, Z11, K5, K5
	KORB K5, K6, K6 // b, because a is a+1

single:
	KORB K2, K3, K5
	KANDNB K5, K6, K5 // a
	VBLENDMPD Z5, Z4, K6, Z26
	NEGLOG(Z7, Z27, Z10, Z11, Z13, Z14, Z15, Z16, Z19, Z20)
	VMULPD.BCST C(zmm_toLog), Z27, Z27
	VDIVPD Z26, Z27, Z27
	VMAXPD.BCST C(zmm_lowest), Z27, Z27
	VMULPD.BCST C(zmm_log2e), Z27, Z7
	VRNDSCALEPD $8, Z7, Z7
	VFNMADD231PD.BCST C(zmm_ln2High), Z7, Z27
	VFNMADD231PD.BCST C(zmm_ln2Low), Z7, Z27
	VMULPD Z27, Z27, Z10
	VBROADCASTSD AT(zmm_exp, 11), Z11
	VBROADCASTSD AT(zmm_exp, 9), Z13
	VBROADCASTSD AT(zmm_exp, 7), Z14
	VBROADCASTSD AT(zmm_exp, 5), Z15
	VBROADCASTSD AT(zmm_exp, 3), Z16
	VFMADD213PD.BCST AT(zmm_exp, 10), Z27, Z11
	VFMADD213PD.BCST AT(zmm_exp, 8), Z27, Z13
	VFMADD213PD.BCST AT(zmm_exp, 6), Z27, Z14
	VFMADD213PD.BCST AT(zmm_exp, 4), Z27, Z15
	VFMADD213PD.BCST AT(zmm_exp, 2), Z27, Z16
	VADDPD Z31, Z27, Z19
	VMULPD Z10, Z10, Z20
	VFMADD231PD Z11, Z10, Z13
	VFMADD231PD Z14, Z10, Z15
	VFMADD231PD Z16, Z10, Z19
	VFMADD231PD Z13, Z20, Z15
	VFMADD231PD Z15, Z20, Z19
	VSCALEFPD Z7, Z19, Z19
	VMULPD Z19, Z18, K6, Z18
	VMULPD Z19, Z17, K5, Z17
	JMP ratio

// LOG sets L to the logarithm of T+E, where E is what T is short of by rounding: near one it is as precise as log1p.
#define LOG(T, E, L, T1, T2, T3, T4) \
	VMULPD.BCST C(zmm_sqrt2), T, T1; \
	VGETEXPPD T1, L; \
	VXORPD T1, T1, T1; \
	VSUBPD L, T1, T1; \
	VSCALEFPD T1, T, T2; \
	VSCALEFPD T1, E, T3; \
	VSUBPD Z31, T2, T2; \
	VADDPD T3, T2, T2; \
	VADDPD.BCST C(zmm_two), T2, T1; \
	VDIVPD T1, T2, T2; \
	VMULPD T2, T2, T1; \
	VBROADCASTSD AT(zmm_atanh, 7), T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 6), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 5), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 4), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 3), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 2), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 1), T1, T3; \
	VFMADD213PD.BCST AT(zmm_atanh, 0), T1, T3; \
	VMULPD.BCST C(zmm_ln2High), L, T4; \
	VMULPD.BCST C(zmm_ln2Low), L, L; \
	VFMADD231PD T3, T2, L; \
	VADDPD T4, L, L

// DEFICIT adds d times the deficit of y, as reference.go has it, to S, and leaves in K the lanes of it where 1+y > 0.
#define DEFICIT(D, Y, S, K) \
	VADDPD Z31, Y, Z13; \
	VSUBPD Z31, Z13, Z14; \
	VSUBPD Z14, Y, Z14; \
	VXORPD Z15, Z15, Z15; \
	VCMPPD $0x1E, Z15, Z13, K, K; \
	LOG(Z13, Z14, Z16, Z17, Z18, Z19, Z20); \
	VMULPD.BCST C(zmm_three), Z16, Z16; \
	VSUBPD.BCST C(zmm_oneAndHalf), Y, Z17; \
	VFMADD213PD.BCST C(zmm_three), Y, Z17; \
	VFNMADD231PD Z17, Y, Z16; \
	VFMADD231PD Z16, D, S

// func judgeAVX512(w *work)
TEXT ·judgeAVX512(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), R9
	LEAQ ·zmmConstants(SB), R8
	VMOVDQU64 (work_lanes+0)(R9), Z0
	VMOVDQU64 (work_lanes+64)(R9), Z1
	VMOVDQU64 (work_lanes+128)(R9), Z2
	VBROADCASTSD C(zmm_one), Z31
	MOVQ work_doubtful(R9), CX
	XORQ BX, BX
	XORQ R10, R10 // how many are rejected
	TESTQ CX, CX
	JEQ judged

judge:
	MOVQ CX, AX
	SUBQ BX, AX
	VPBROADCASTQ AX, Z4
	VMOVDQU64 AT(zmm_count, 0), Z5
	VPCMPUQ $1, Z4, Z5, K1 // the lanes there are
	VMOVUPD work_da(R9)(BX*8), Z4
	VMOVUPD work_db(R9)(BX*8), Z5
	VMOVUPD work_ya(R9)(BX*8), Z8
	VMOVUPD work_yb(R9)(BX*8), Z9
	VMOVUPD work_squares(R9)(BX*8), Z12
	VMOVUPD work_low(R9)(BX*8), Z6

	// The twelve bits go on.
	RANDOM(Z7)
	VCVTUQQ2PD Z7, Z7
	VSUBPD.BCST C(zmm_exponent), Z6, Z6
	VFMADD231PD.BCST C(zmm_toUnit), Z7, Z6
	VMULPD.BCST C(zmm_shrink), Z6, Z6
	VXORPD Z7, Z7, Z7
	LOG(Z6, Z7, Z10, Z13, Z14, Z15, Z16)

	// The squares' half less what the normals' squares would be if c were exact; then the deficits.
	VMULPD Z8, Z8, Z13
	VMULPD Z9, Z9, Z14
	VMULPD Z4, Z13, Z13
	VFMADD231PD Z5, Z14, Z13
	VMULPD.BCST C(zmm_toSquares), Z12, Z11
	VFNMADD231PD.BCST C(zmm_four), Z13, Z11
	KMOVB K1, K2
	DEFICIT(Z4, Z8, Z11, K2)
	DEFICIT(Z5, Z9, Z11, K2)
	VCMPPD $0x11, Z11, Z10, K2, K2
	KANDNB K1, K2, K1

	VMOVDQU64 work_index(R9)(BX*8), Z7
	VPCOMPRESSQ.Z Z7, K1, Z7
	VMOVDQU64 Z7, work_index(R9)(R10*8)
	KMOVB K1, AX
	POPCNTL AX, AX
	ADDQ AX, R10
	ADDQ $8, BX
	CMPQ BX, CX
	JLT judge

judged:
	MOVQ R10, work_doubtful(R9)
	VMOVDQU64 Z0, (work_lanes+0)(R9)
	VMOVDQU64 Z1, (work_lanes+64)(R9)
	VMOVDQU64 Z2, (work_lanes+128)(R9)
	VPBROADCASTQ COUNTER, Z3
	VMOVDQU64 Z3, COUNTER
	VZEROUPPER
	RET
