//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// Four samples at once: what avx512_amd64.s does, without masks, tables in registers, and instructions for exponents.
//
// Y0 to Y3 are a, b, c and the counter of four generators, R8 the constants. Masks go through general registers, one bit a lane: R11 where the sample
// is of Beta(1, 1), R12 and R13 where the shapes are below one, AX where the squeeze does not tell.

#define C(field) field(R8)
#define AT(field, i) (field+32*i)(R8)

// RANDOM leaves a random word in every lane of W: SFC64.
#define RANDOM(W) \
	VPADDQ Y0, Y1, W; \
	VPADDQ Y3, W, W; \
	VPADDQ C(ymm_increment), Y3, Y3; \
	VPSRLQ $11, Y1, Y0; \
	VPXOR Y0, Y1, Y0; \
	VPSLLQ $3, Y2, Y1; \
	VPADDQ Y1, Y2, Y1; \
	VPSHUFB C(ymm_rotate), Y2, Y2; \
	VPADDQ W, Y2, Y2

// LOG sets L to the logarithm of T+E, where E is what T is short of by rounding or zero: T is 2^k m with m in [sqrt(1/2), sqrt(2)), and the logarithm of
// m a series in s = (m-1)/(m+1).
#define LOG(T, E, L, T1, T2, T3, T4) \
	VPADDQ C(ymm_toRoot), T, T1; \
	VPSRLQ $52, T1, L; \
	VPOR C(ymm_exponent), L, L; \
	VSUBPD C(ymm_bias), L, L; \
	VPAND C(ymm_mantissa), T1, T1; \
	VPADDQ C(ymm_root), T1, T1; \
	VSUBPD C(ymm_one), T1, T1; \
	VADDPD E, T1, T1; \
	VADDPD C(ymm_two), T1, T2; \
	VDIVPD T2, T1, T1; \
	VMULPD T1, T1, T2; \
	VMOVUPD AT(ymm_atanh, 7), T3; \
	VMOVUPD AT(ymm_atanh, 3), T4; \
	VFMADD213PD AT(ymm_atanh, 6), T2, T3; \
	VFMADD213PD AT(ymm_atanh, 2), T2, T4; \
	VFMADD213PD AT(ymm_atanh, 5), T2, T3; \
	VFMADD213PD AT(ymm_atanh, 1), T2, T4; \
	VFMADD213PD AT(ymm_atanh, 4), T2, T3; \
	VFMADD213PD AT(ymm_atanh, 0), T2, T4; \
	VMULPD T2, T2, T2; \
	VMULPD T2, T2, T2; \
	VFMADD231PD T3, T2, T4; \
	VMULPD C(ymm_ln2Low), L, T2; \
	VFMADD231PD T4, T1, T2; \
	VFMADD132PD C(ymm_ln2High), T2, L

// SHAPE loads shapes, clamped, of which a NaN becomes the least, sets K where they are below one, and D to d.
#define SHAPE(address, A, T, K, D) \
	VMOVUPD address, A; \
	VMAXPD C(ymm_minShape), A, A; \
	VMINPD C(ymm_maxShape), A, A; \
	VCMPPD $1, C(ymm_one), A, T; \
	VMOVMSKPD T, K; \
	VANDPD C(ymm_one), T, T; \
	VADDPD C(ymm_minusThird), A, D; \
	VADDPD T, D, D

// ROOT sets Y to about 1/sqrt(D).
#define ROOT(D, X, Y) \
	VCVTPD2PSY D, X; \
	VRSQRTPS X, X; \
	VCVTPS2PD X, Y

// KEEP appends the lanes that the order in Y4 has in front to a list of the work.
#define KEEP(V, list) \
	VPERMPS V, Y4, Y5; \
	VMOVUPD Y5, list(R9)(R10*8)

// func drawAVX2(dst, alpha, beta *float64, vectors int, w *work)
TEXT ·drawAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ alpha+8(FP), SI
	MOVQ beta+16(FP), DX
	MOVQ vectors+24(FP), CX
	MOVQ w+32(FP), R9
	MOVQ ·ymmConstants(SB), R8
	MOVQ work_doubtful(R9), R10
	VMOVDQU (work_lanes+0)(R9), Y0
	VMOVDQU (work_lanes+64)(R9), Y1
	VMOVDQU (work_lanes+128)(R9), Y2
	VMOVDQU (work_lanes+192)(R9), Y3
	XORQ BX, BX // the index of the first lane
	SHLQ $2, CX
	JEQ done

loop:
	VMOVUPD (SI)(BX*8), Y4
	VMOVUPD (DX)(BX*8), Y5
	RANDOM(Y15)

	// Beta(1, 1), the prior of arms that nothing is known of, is uniform.
	VCMPPD $0, C(ymm_one), Y4, Y4
	VCMPPD $0, C(ymm_one), Y5, Y5
	VANDPD Y4, Y5, Y4
	VMOVMSKPD Y4, R11
	CMPL R11, $15
	JEQ uniform

	// A Box-Muller pair, times scale: x in Y13, y in Y12, their squares' sum in Y11. The words go on in Y14 and Y15.
	RANDOM(Y14)
	VPSRLQ $12, Y14, Y4
	VPOR C(ymm_one), Y4, Y4
	VMOVUPD C(ymm_two), Y5
	VSUBPD Y4, Y5, Y4
	LOG(Y4, C(ymm_zero), Y11, Y6, Y7, Y8, Y9)
	VMULPD C(ymm_minusTwo), Y11, Y11
	VSQRTPD Y11, Y10
	VPSRLQ $12, Y15, Y4
	VPOR C(ymm_one), Y4, Y4
	VSUBPD C(ymm_oneAndHalf), Y4, Y4
	VPSLLQ $63, Y15, Y5
	VXORPD Y5, Y10, Y10
	VMULPD Y4, Y4, Y5
	VMULPD Y5, Y5, Y6
	VMOVUPD AT(ymm_cos, 5), Y7
	VMOVUPD AT(ymm_cos, 3), Y8
	VMOVUPD AT(ymm_cos, 1), Y9
	VFMADD213PD AT(ymm_cos, 4), Y5, Y7
	VFMADD213PD AT(ymm_cos, 2), Y5, Y8
	VFMADD213PD AT(ymm_cos, 0), Y5, Y9
	VFMADD231PD AT(ymm_cos, 6), Y6, Y7
	VFMADD231PD Y8, Y6, Y9
	VMULPD Y6, Y6, Y8
	VFMADD231PD Y7, Y8, Y9
	VMOVUPD AT(ymm_sin, 5), Y7
	VMOVUPD AT(ymm_sin, 3), Y12
	VMOVUPD AT(ymm_sin, 1), Y13
	VFMADD213PD AT(ymm_sin, 4), Y5, Y7
	VFMADD213PD AT(ymm_sin, 2), Y5, Y12
	VFMADD213PD AT(ymm_sin, 0), Y5, Y13
	VFMADD231PD AT(ymm_sin, 6), Y6, Y7
	VFMADD231PD Y12, Y6, Y13
	VFMADD231PD Y7, Y8, Y13
	VMULPD Y4, Y13, Y4
	VPSLLQ $62, Y15, Y5
	VBLENDVPD Y5, Y4, Y9, Y13
	VBLENDVPD Y5, Y9, Y4, Y12
	VMULPD Y10, Y13, Y13
	VMULPD Y10, Y12, Y12

	// d in Y9 and Y10, c x in Y7 and Y8.
	SHAPE((SI)(BX*8), Y4, Y5, R12, Y9)
	SHAPE((DX)(BX*8), Y4, Y5, R13, Y10)
	ROOT(Y9, X7, Y7)
	ROOT(Y10, X8, Y8)
	VMULPD Y13, Y7, Y7
	VMULPD Y12, Y8, Y8

	// The squeeze.
	VMULPD Y13, Y7, Y4
	VMULPD Y12, Y8, Y5
	VMULPD Y5, Y5, Y5
	VMOVUPD C(ymm_squeezed), Y6
	VFMADD231PD Y4, Y4, Y5
	VFNMADD231PD C(ymm_loss), Y11, Y6
	VFNMADD231PD C(ymm_squeeze), Y5, Y6
	VPAND C(ymm_twelveBits), Y14, Y14
	VPOR C(ymm_exponent), Y14, Y14
	VCMPPD $0x16, Y6, Y14, Y4
	VMOVMSKPD Y4, AX
	ANDNL AX, R11, AX
	JNE keep

gammas:
	VADDPD C(ymm_one), Y7, Y7
	VADDPD C(ymm_one), Y8, Y8
	VMULPD Y7, Y9, Y9
	VMULPD Y8, Y10, Y10
	VMULPD Y7, Y7, Y7
	VMULPD Y8, Y8, Y8
	VMULPD Y7, Y9, Y9
	VMULPD Y8, Y10, Y10
	MOVL R12, AX
	ORL R13, AX
	JNE small

ratio:
	VADDPD Y9, Y10, Y10
	VDIVPD Y10, Y9, Y9
	TESTL R11, R11
	JNE mixed

store:
	VMOVUPD Y9, (DI)(BX*8)

next:
	ADDQ $4, BX
	CMPQ BX, CX
	JLT loop

done:
	MOVQ R10, work_doubtful(R9)
	VMOVDQU Y0, (work_lanes+0)(R9)
	VMOVDQU Y1, (work_lanes+64)(R9)
	VMOVDQU Y2, (work_lanes+128)(R9)
	VMOVDQU Y3, (work_lanes+192)(R9)
	VZEROUPPER
	RET

uniform:
	VPSRLQ $12, Y15, Y9
	VPOR C(ymm_one), Y9, Y9
	VSUBPD C(ymm_one), Y9, Y9
	JMP store

	// Some lanes are of Beta(1, 1).
mixed:
	VPSRLQ $12, Y15, Y4
	VPOR C(ymm_one), Y4, Y4
	VSUBPD C(ymm_one), Y4, Y4
	VMOVUPD (SI)(BX*8), Y5
	VMOVUPD (DX)(BX*8), Y6
	VCMPPD $0, C(ymm_one), Y5, Y5
	VCMPPD $0, C(ymm_one), Y6, Y6
	VANDPD Y5, Y6, Y5
	VBLENDVPD Y5, Y4, Y9, Y9
	JMP store

	// All that the full test needs.
keep:
	MOVL AX, R11
	SHLL $5, AX
	VMOVDQU ymm_compress(R8)(AX*1), Y4
	KEEP(Y9, work_da)
	KEEP(Y10, work_db)
	KEEP(Y7, work_ya)
	KEEP(Y8, work_yb)
	KEEP(Y11, work_squares)
	KEEP(Y14, work_low)
	VMOVQ BX, X6
	VPBROADCASTQ X6, Y6
	VPADDQ C(ymm_count), Y6, Y6
	KEEP(Y6, work_index)
	POPCNTL R11, AX
	ADDQ AX, R10
	VMOVUPD (SI)(BX*8), Y5
	VMOVUPD (DX)(BX*8), Y6
	VCMPPD $0, C(ymm_one), Y5, Y5
	VCMPPD $0, C(ymm_one), Y6, Y6
	VANDPD Y5, Y6, Y5
	VMOVMSKPD Y5, R11
	JMP gammas

	// Shapes below one, as in avx512_amd64.s. Y9, Y10 and Y15 have to stay. Y11 is where U^(1/shape) goes to the second gamma, Y12 where to the first.
small:
	VMOVUPD (SI)(BX*8), Y4
	VMAXPD C(ymm_minShape), Y4, Y4
	VMOVUPD (DX)(BX*8), Y5
	VMAXPD C(ymm_minShape), Y5, Y5
	VCMPPD $1, C(ymm_one), Y4, Y12
	VCMPPD $1, C(ymm_one), Y5, Y11
	TESTL R12, R13
	JEQ single
	RANDOM(Y6)
	VPSRLQ $12, Y6, Y6
	VPOR C(ymm_one), Y6, Y6
	VSUBPD C(ymm_one), Y6, Y6
	VADDPD Y4, Y5, Y7
	VMULPD Y6, Y7, Y7
	VCMPPD $1, Y4, Y7, Y7
	VANDPD Y11, Y7, Y7 // b, because a is a+1
	VANDNPD Y11, Y12, Y11 // or because a is not below one
	VANDPD Y12, Y7, Y7
	VORPD Y7, Y11, Y11
	VANDNPD Y12, Y11, Y12

single:
	VBLENDVPD Y11, Y5, Y4, Y13
	RANDOM(Y6)
	VPSRLQ $12, Y6, Y6
	VPOR C(ymm_one), Y6, Y6
	VMOVUPD C(ymm_two), Y7
	VSUBPD Y6, Y7, Y6
	LOG(Y6, C(ymm_zero), Y14, Y4, Y5, Y7, Y8)
	VDIVPD Y13, Y14, Y14
	VMAXPD C(ymm_lowest), Y14, Y14
	VMULPD C(ymm_log2e), Y14, Y4
	VROUNDPD $8, Y4, Y4
	VFNMADD231PD C(ymm_ln2High), Y4, Y14
	VFNMADD231PD C(ymm_ln2Low), Y4, Y14
	VMULPD Y14, Y14, Y5
	VMOVUPD AT(ymm_exp, 11), Y6
	VMOVUPD AT(ymm_exp, 9), Y7
	VMOVUPD AT(ymm_exp, 7), Y8
	VMOVUPD AT(ymm_exp, 5), Y13
	VFMADD213PD AT(ymm_exp, 10), Y14, Y6
	VFMADD213PD AT(ymm_exp, 8), Y14, Y7
	VFMADD213PD AT(ymm_exp, 6), Y14, Y8
	VFMADD213PD AT(ymm_exp, 4), Y14, Y13
	VFMADD231PD Y6, Y5, Y7
	VMOVUPD AT(ymm_exp, 3), Y6
	VFMADD213PD AT(ymm_exp, 2), Y14, Y6
	VADDPD C(ymm_one), Y14, Y14
	VFMADD231PD Y8, Y5, Y13
	VFMADD231PD Y6, Y5, Y14
	VMULPD Y5, Y5, Y5
	VFMADD231PD Y7, Y5, Y13
	VFMADD231PD Y13, Y5, Y14

	// Times 2^k in two steps, as that may be below the least normal number.
	VCVTPD2DQY Y4, X4
	VPSRAD $1, X4, X5
	VPSUBD X5, X4, X4
	VPADDD C(ymm_thousand), X4, X4
	VPADDD C(ymm_thousand), X5, X5
	VPMOVZXDQ X4, Y4
	VPMOVZXDQ X5, Y5
	VPSLLQ $52, Y4, Y4
	VPSLLQ $52, Y5, Y5
	VMULPD Y4, Y14, Y14
	VMULPD Y5, Y14, Y14
	VMOVUPD C(ymm_one), Y4
	VBLENDVPD Y11, Y14, Y4, Y5
	VBLENDVPD Y12, Y14, Y4, Y6
	VMULPD Y5, Y10, Y10
	VMULPD Y6, Y9, Y9
	JMP ratio

// DEFICIT adds d times the deficit of y, as reference.go has it, to Y15, and takes the lanes where 1+y is not positive out of the mask R12.
#define DEFICIT(d, y) \
	VMOVUPD y(R9)(BX*8), Y4; \
	VADDPD C(ymm_one), Y4, Y5; \
	VSUBPD C(ymm_one), Y5, Y6; \
	VSUBPD Y6, Y4, Y6; \
	VXORPD Y7, Y7, Y7; \
	VCMPPD $0x1E, Y7, Y5, Y7; \
	VMOVMSKPD Y7, AX; \
	ANDL AX, R12; \
	LOG(Y5, Y6, Y7, Y8, Y9, Y10, Y11); \
	VSUBPD C(ymm_oneAndHalf), Y4, Y5; \
	VFMADD213PD C(ymm_three), Y4, Y5; \
	VMULPD C(ymm_three), Y7, Y7; \
	VFNMADD231PD Y5, Y4, Y7; \
	VFMADD231PD d(R9)(BX*8), Y7, Y15

// func judgeAVX2(w *work)
TEXT ·judgeAVX2(SB), NOSPLIT, $0-8
	MOVQ w+0(FP), R9
	MOVQ ·ymmConstants(SB), R8
	VMOVDQU (work_lanes+0)(R9), Y0
	VMOVDQU (work_lanes+64)(R9), Y1
	VMOVDQU (work_lanes+128)(R9), Y2
	VMOVDQU (work_lanes+192)(R9), Y3
	MOVQ work_doubtful(R9), DX
	XORQ BX, BX
	XORQ R10, R10 // how many are rejected
	TESTQ DX, DX
	JEQ judged

judge:
	// R11: the lanes there are.
	MOVQ DX, CX
	SUBQ BX, CX
	CMPQ CX, $4
	JLE last
	MOVL $4, CX

last:
	MOVL $1, R11
	SHLL CX, R11
	DECL R11

	// The twelve bits go on.
	RANDOM(Y4)
	VPSRLQ $12, Y4, Y4
	VPOR C(ymm_one), Y4, Y4
	VMOVUPD C(ymm_two), Y5
	VSUBPD Y4, Y5, Y4
	VMOVUPD work_low(R9)(BX*8), Y5
	VSUBPD C(ymm_exponent), Y5, Y5
	VADDPD Y4, Y5, Y5
	VMULPD C(ymm_shrink), Y5, Y5
	LOG(Y5, C(ymm_zero), Y14, Y7, Y8, Y9, Y10)

	VMOVUPD work_ya(R9)(BX*8), Y4
	VMOVUPD work_yb(R9)(BX*8), Y5
	VMULPD Y4, Y4, Y4
	VMULPD Y5, Y5, Y5
	VMULPD work_da(R9)(BX*8), Y4, Y4
	VFMADD231PD work_db(R9)(BX*8), Y5, Y4
	VMOVUPD work_squares(R9)(BX*8), Y15
	VMULPD C(ymm_toSquares), Y15, Y15
	VFNMADD231PD C(ymm_squares), Y4, Y15
	MOVL R11, R12
	DEFICIT(work_da, work_ya)
	DEFICIT(work_db, work_yb)
	VCMPPD $0x11, Y15, Y14, Y4
	VMOVMSKPD Y4, AX
	ANDL AX, R12
	ANDNL R11, R12, AX

	MOVL AX, CX
	SHLL $5, CX
	VMOVDQU ymm_compress(R8)(CX*1), Y4
	VMOVDQU work_index(R9)(BX*8), Y6
	KEEP(Y6, work_index)
	POPCNTL AX, AX
	ADDQ AX, R10
	ADDQ $4, BX
	CMPQ BX, DX
	JLT judge

judged:
	MOVQ R10, work_doubtful(R9)
	VMOVDQU Y0, (work_lanes+0)(R9)
	VMOVDQU Y1, (work_lanes+64)(R9)
	VMOVDQU Y2, (work_lanes+128)(R9)
	VMOVDQU Y3, (work_lanes+192)(R9)
	VZEROUPPER
	RET
