#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Every form of the tile GEMM as NVIDIA's assembler sees it, without a device: clang compiles it to PTX, ptxas for three generations
# reports registers. No spills, no stack, few enough registers to launch the work-group, wide loads and stores. The driver has a compiler
# and an assembler of its own, so the counts are for comparison.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

command -v ptxas >/dev/null || skip_all "ptxas is not installed (CUDA toolkit)"
clang=
for name in clang clang-19 clang-18 clang-17 clang-16 clang-15 clang-14; do
    if command -v "$name" >/dev/null && "$name" --print-targets 2>/dev/null | grep -q nvptx64; then
        clang=$name
        break
    fi
done
[ -n "$clang" ] || skip_all "there is no clang with an NVPTX target"
kernels=$CLTRAIN_SOURCE_DIR/cl/kernels

# assemble DEFINE...: PTX in k.ptx, ptxas's report in k.log.
assemble() {
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_builtins.clh" \
        -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang sm_75 -Xclang -target-feature -Xclang +ptx64 -O3 -I"$kernels" "$@" \
        -S "$kernels/gemm_tile.cl" -o k.ptx >"$out" 2>&1 || return 1
    for arch in 75 80 90; do
        ptxas -arch="sm_$arch" -v k.ptx -o k.cubin >>k.log 2>&1 || return 1
    done
}

# The registers of the kernel on each generation: "139 139 147". Fails when something is on the stack.
registers() {
    awk '/Function properties for/ { kernel = $NF }
         /bytes stack frame/ { if ($1 + 0 > 0 || $5 + 0 > 0) { print "spills in", kernel; bad = 1 } }
         /Used [0-9]+ registers/ && kernel == "gemm_fwd_tile" { match($0, /Used [0-9]+/); n = n " " substr($0, RSTART + 5, RLENGTH - 5) }
         END { print substr(n, 2); exit bad }' k.log
}

# check NAME ITEMS DEFINE...
check() {
    local name=$1 items=$2 counts most=0 n
    shift 2
    rm -f k.log
    if ! assemble "$@"; then
        cat k.log 2>/dev/null >>"$out"
        fail "$name: does not assemble ($*)"
        return
    fi
    if ! counts=$(registers); then
        fail "$name: $counts"
        return
    fi
    for n in $counts; do most=$((n > most ? n : most)); done
    printf '%-44s registers on sm_75 80 90: %s\n' "$name" "$counts"
    if [ "$(wc -w <<<"$counts")" -eq 3 ] && [ $((most * items)) -le 65536 ]; then pass; else fail "$name: '$counts' registers, $items items"; fi
    if grep -q -E '\.extern \.func|ld\.local|st\.local' k.ptx; then fail "$name: calls or memory of its own in the PTX"; else pass; fi
    if grep -q 'ld\.shared\.v[24]\.f32' k.ptx && grep -q 'ld\.global\.v4' k.ptx; then pass; else fail "$name: no wide loads"; fi
}

forms=$(sed -n '/^const ocl_tile_form ocl_tile_forms/,/};/p' "$CLTRAIN_SOURCE_DIR/cl/gemm_tile.c" |
    grep -o '{[0-9]*, [0-9]*, [0-9]*, [0-9]*, [0-9]*' | tr -d '{,')
if [ "$(wc -l <<<"$forms")" -ge 8 ]; then pass; else fail "the table of forms was not read"; fi
while read -r bm bn bk tm tn; do
    form=(-DBM="$bm" -DBN="$bn" -DBK="$bk" -DTM="$tm" -DTN="$tn")
    items=$((bm / tm * (bn / tn)))
    check "${bm}x${bn}x$bk of ${tm}x$tn NN f32" $items "${form[@]}"
    check "${bm}x${bn}x$bk of ${tm}x$tn TT bf16" $items "${form[@]}" -DTA=1 -DTB=1 -DDTA=bf16 -DDTB=bf16 -DDTC=bf16
done <<<"$forms"
form=(-DBM=128 -DBN=128 -DBK=16 -DTM=8 -DTN=8)
check '128x128x16 of 8x8 NT f16 epilogue' 256 "${form[@]}" -DTB=1 -DDTA=f16 -DDTB=f16 -DVA=8 -DVB=8 -DDTC=f16 -DHAS_BIAS=1 -DHAS_PRE=1 \
    -DHAS_RESIDUAL=1 -DACTIVATION=2
check '128x128x16 of 8x8 TN f32 part of k' 256 "${form[@]}" -DTA=1 -DPARTIAL=1
check '128x128x16 of 8x8 NN f32 wide offsets' 256 "${form[@]}" -DWIDE_OFFSETS=1

# The check notices what it is about: 16 x 16 sums an item do not fit 255 registers.
rm -f k.log
if assemble -DBM=128 -DBN=128 -DBK=8 -DTM=16 -DTN=16 && registers >/dev/null; then fail "256 sums an item were said to fit"; else pass; fi
finish
