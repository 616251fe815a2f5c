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
