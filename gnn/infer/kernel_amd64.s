//go:build !purego

#include "textflag.h"

// Both functions walk over their vectors in chunks of 32 floats, held in Y0 to Y3, and then
// of 8, held in Y0. For each chunk they run down a column block of W, a row at a time: one
// entry of x, broadcast, times the row's chunk.

// func addRow(y, x, w *float32, in, out int)
TEXT ·addRow(SB), NOSPLIT, $0-40
	MOVQ y+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), DX
	MOVQ in+24(FP), CX
	MOVQ out+32(FP), R8
	MOVQ R8, R9
	SHLQ $2, R9 // bytes from one row of W to the next

row32:
	CMPQ R8, $32
	JLT  row8
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	MOVQ SI, R10
	MOVQ DX, R11
	MOVQ CX, R12

row32in:
	VBROADCASTSS (R10), Y4
	VFMADD231PS (R11), Y4, Y0
	VFMADD231PS 32(R11), Y4, Y1
	VFMADD231PS 64(R11), Y4, Y2
	VFMADD231PS 96(R11), Y4, Y3
	ADDQ $4, R10
	ADDQ R9, R11
	DECQ R12
	JNZ  row32in

	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, DI
	ADDQ $128, DX
	SUBQ $32, R8
	JMP  row32

row8:
	CMPQ R8, $8
	JLT  rowDone
	VMOVUPS (DI), Y0
	MOVQ SI, R10
	MOVQ DX, R11
	MOVQ CX, R12

row8in:
	VBROADCASTSS (R10), Y4
	VFMADD231PS (R11), Y4, Y0
	ADDQ $4, R10
	ADDQ R9, R11
	DECQ R12
	JNZ  row8in

	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, R8
	JMP  row8

rowDone:
	VZEROUPPER
	RET

// FINISH applies the ReLU to k, a chunk of 8 at byte offset o, adds it to sum and its product
// with score to Y7. VMAXPS gives its second source where one is NaN; Go writes the sources
// the other way round, so k comes first here and NaN stays.
#define FINISH(k, o) \
	VMAXPS k, Y6, k \
	VADDPS o(R13), k, Y5 \
	VMOVUPS Y5, o(R13) \
	VFMADD231PS o(BX), k, Y7

// func candidate(part, base, x, w, score, sum *float32, in, out int) float32
TEXT ·candidate(SB), NOSPLIT, $0-68
	MOVQ part+0(FP), DI
	MOVQ base+8(FP), AX
	MOVQ x+16(FP), SI
	MOVQ w+24(FP), DX
	MOVQ score+32(FP), BX
	MOVQ sum+40(FP), R13
	MOVQ in+48(FP), CX
	MOVQ out+56(FP), R8
	MOVQ R8, R9
	SHLQ $2, R9
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

cand32:
	CMPQ R8, $32
	JLT  cand8
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VADDPS (AX), Y0, Y0
	VADDPS 32(AX), Y1, Y1
	VADDPS 64(AX), Y2, Y2
	VADDPS 96(AX), Y3, Y3
	MOVQ SI, R10
	MOVQ DX, R11
	MOVQ CX, R12

cand32in:
	VBROADCASTSS (R10), Y4
	VFMADD231PS (R11), Y4, Y0
	VFMADD231PS 32(R11), Y4, Y1
	VFMADD231PS 64(R11), Y4, Y2
	VFMADD231PS 96(R11), Y4, Y3
	ADDQ $4, R10
	ADDQ R9, R11
	DECQ R12
	JNZ  cand32in

	FINISH(Y0, 0)
	FINISH(Y1, 32)
	FINISH(Y2, 64)
	FINISH(Y3, 96)
	ADDQ $128, DI
	ADDQ $128, AX
	ADDQ $128, DX
	ADDQ $128, BX
	ADDQ $128, R13
	SUBQ $32, R8
	JMP  cand32

cand8:
	CMPQ R8, $8
	JLT  candDone
	VMOVUPS (DI), Y0
	VADDPS (AX), Y0, Y0
	MOVQ SI, R10
	MOVQ DX, R11
	MOVQ CX, R12

cand8in:
	VBROADCASTSS (R10), Y4
	VFMADD231PS (R11), Y4, Y0
	ADDQ $4, R10
	ADDQ R9, R11
	DECQ R12
	JNZ  cand8in

	FINISH(Y0, 0)
	ADDQ $32, DI
	ADDQ $32, AX
	ADDQ $32, DX
	ADDQ $32, BX
	ADDQ $32, R13
	SUBQ $8, R8
	JMP  cand8

candDone:
	VEXTRACTF128 $1, Y7, X0
	VADDPS X7, X0, X0
	VMOVHLPS X0, X0, X1
	VADDPS X1, X0, X0
	VMOVSHDUP X0, X1
	VADDSS X1, X0, X0
	VMOVSS X0, ret+64(FP)
	VZEROUPPER
	RET
