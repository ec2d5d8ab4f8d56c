#!/bin/sh
# Lower layer.mlir after the passes that are given as words, and link it: build.sh PROGRAM [PASS ...]
# For MLIR 14. Later versions have func.func, arith.select, convert-scf-to-cf and convert-func-to-llvm.
set -e
cd "$(dirname "$0")"
program=$1
shift
mlir-opt-14 "$@" layer.mlir -o "$program.mlir"
mlir-opt-14 --lower-affine --convert-scf-to-std --convert-memref-to-llvm --convert-std-to-llvm \
    --reconcile-unrealized-casts "$program.mlir" -o "$program.lowered.mlir"
mlir-translate-14 --mlir-to-llvmir "$program.lowered.mlir" -o "$program.ll"
opt-14 -O3 "$program.ll" -o "$program.bc"
llc-14 -O3 -relocation-model=pic -filetype=obj "$program.bc" -o "$program.o"
cc -O2 layer.c "$program.o" -lm -o "$program"
