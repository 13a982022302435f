#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ctest-cost: 20
#
# clang accepts every kernel file as OpenCL C 1.2 without extensions of the language (NVIDIA's compiler, an older clang, refuses what
# newer ones take with -Wpedantic only, such as variadic macros), alone and with its own defaults, and NVIDIA's branches of the probe kernels
# compile to PTX that contains the instruction they test. Needs no device. ctest-labels: quick
set -u
kernels=${CLTRAIN_BUILD_DIR:?set it to the build folder}/kernels
clang=
for name in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if command -v "$name" >/dev/null; then
        clang=$name
        break
    fi
done
if [ -z "$clang" ]; then
    echo "skipped: clang is not installed"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
count=0
check_syntax() { # file, options
    "$clang" -x cl -cl-std=CL1.2 -Wpedantic -Werror -fsyntax-only -Xclang -finclude-default-header -I"$kernels" "$@" && return
    echo "FAIL: $*"
    failed=1
}
for file in "$kernels"/*.cl; do
    check_syntax "$file"
    # The forms for CPUs and for GPUs differ by the size of a group.
    case $(sed -n '/^#ifndef LS$/{n;p;}' "$file") in
    '') ;;
    '#define LS 1') check_syntax "$file" -DLS=64 ;;
    *) check_syntax "$file" -DLS=1 ;;
    esac
    count=$((count + 1))
done
# PoCL gives a function that is not inlined into its caller other local memory than the kernel's
# (common.clh).
for file in "$kernels"/*.cl "$kernels"/*.clh; do
    head=$(tr '\n' ' ' <"$file" | grep -oE 'static [^;{}]*\(([^;{}]*[^a-z_])?__local[^;{}]*\{' | head -n 1)
    [ -n "$head" ] || continue
    echo "FAIL: $file: a function with a parameter in local memory is not CLT_INLINE: $head"
    failed=1
done
# For a processor without AVX-512 the compiler warns of the calling convention of wide vectors, unless a file includes
# warnings.clh; PoCL counts warnings on the user's terminal.
if "$clang" --print-targets 2>/dev/null | grep -q x86-64; then
    for file in "$kernels"/*.cl; do
        "$clang" -x cl -cl-std=CL1.2 -Werror -target x86_64-linux-gnu -march=haswell -Xclang -finclude-default-header \
            -I"$kernels" -DLS=1 -S -emit-llvm -o "$work/out.ll" "$file" && continue
        echo "FAIL: $file for a processor without AVX-512"
        failed=1
    done
else
    echo "note: this clang has no x86 target, warnings for processors without AVX-512 were not looked for"
fi
if [ "$count" -eq 0 ]; then
    echo "FAIL: no kernel file in $kernels"
    failed=1
fi

check_ptx() { # macro, instruction
    if ! "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -D__NV_CL_C_VERSION=120 "-D$1=1" \
        -target nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx75 -O2 -S \
        "$kernels/probe.cl" -o "$work/probe.ptx"; then
        echo "FAIL: probe.cl with -D$1 does not compile to PTX"
        failed=1
    elif ! grep -q "$2" "$work/probe.ptx"; then
        echo "FAIL: probe.cl with -D$1 holds no $2"
        failed=1
    fi
}
if "$clang" --print-targets 2>/dev/null | grep -q nvptx64; then
    check_ptx PROBE_PTX 'shfl\.sync\.bfly\.b32'
    check_ptx PROBE_MMA_F16 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.f16\.f16\.f32'
    check_ptx PROBE_MMA_BF16 'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.bf16\.bf16\.f32'
    check_ptx PROBE_MMA_TF32 'mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.tf32\.tf32\.f32'
    check_ptx PROBE_MMA_F16_K8 'mma\.sync\.aligned\.m16n8k8\.row\.col\.f32\.f16\.f16\.f32'
    check_ptx PROBE_WMMA_F16 'wmma\.mma\.sync\.aligned\.row\.row\.m16n16k16\.f32\.f32'
else
    echo "note: this clang has no NVPTX target, PTX branches were not compiled"
fi
echo "$count kernel files"
exit $failed
