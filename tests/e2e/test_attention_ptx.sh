#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Every variant of attention on matrix units, and the variant `group` for GPUs without them, compiled by NVIDIA's assembler: no
# spills, no stack, few enough registers for the work-groups that the kernel's header assumes. The driver has its own compiler and
# assembler, so the counts are only for comparison.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/ptx_lib.sh"

names=(- fwd bwd_q bwd_kv - one)
files=(- attention_mma.cl attention_mma.cl attention_mma.cl - attention_mma_one.cl)
extra=(-include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_attention.clh")

# check NAME PATTERN LIMIT FILE OPTION...: no more than LIMIT registers on any generation.
check() {
    local name=$1 pattern=$2 limit=$3 file=$4 counts n
    shift 4
    if ! ptx_assemble "$file" 80 "$ampere" "${extra[@]}" "$@"; then
        fail "$name: does not assemble ($*)"
        return
    fi
    if ! counts=$(ptx_registers "$pattern"); then
        fail "$name: $counts"
        return
    fi
    printf '%-50s registers on sm_%s: %s\n' "$name" "${ampere// / }" "$counts"
    if [ "$(wc -w <<<"$counts")" -eq "$(wc -w <<<"$ampere")" ]; then pass; else fail "$name: '$counts' registers"; fi
    for n in $counts; do
        if [ "$n" -le "$limit" ]; then pass; else fail "$name: $n registers, limit $limit"; fi
    done
}

# check_mma KERNEL HEAD WARPS M_TILES COLS LIMIT
check_mma() {
    local kernel=$1 head=$2 limit=$6 name file=${files[$1]}
    local form=(-DKERNEL="$kernel" -DHEAD_SIZE="$head" -DWARPS="$3" -DM_TILES="$4" -DCOLS="$5" -DHEADS=12 -DKV_HEADS=12)
    name="mma ${names[kernel]} head $head, $3 warps of $4 x 16, tiles of $5"
    check "$name, bf16" "_mma" "$limit" "$file" "${form[@]}" -DDT=bf16 -DDYT=bf16 -DGT=bf16 -DMMA_BF16=1
    if grep -q 'mma\.sync' k.ptx && grep -q 'ldmatrix' k.ptx; then pass; else fail "$name: no matrix instructions"; fi
    if [ $((head % 8)) -ne 0 ] || grep -q 'cp\.async\.cg' k.ptx; then pass; else fail "$name: no asynchronous copies"; fi
    check "$name, f16 open, f32 gradients" "_mma" 255 "$file" "${form[@]}" -DCAUSAL=0 -DDT=f16 -DDYT=f32 -DGT=f32
    # The host uses only this form. (Of kernel 5 with the largest heads clang's program has 16 bytes of
    # spills, NVIDIA's none.)
    if [ "$kernel" -eq 1 ] || { [ "$4" -eq 1 ] && [ "$kernel$((head > 96))" != 51 ]; }; then
        check "$name, f16 dropout lengths" "_mma" 255 "$file" "${form[@]}" -DDT=f16 -DDYT=f16 -DGT=f16 -DDROPOUT=1 -DHAS_LENGTHS=1
    fi
}

# The configurations that the host chooses from: KERNEL WARPS M_TILES COLS.
forms=$(sed -n '/^static const mma_form forms/,/};/p' "$CLTRAIN_SOURCE_DIR/engine/ops/attention/attention_mma.c" |
    awk '/_FORWARD\]/ { k = 1 } /_DQ\]/ { k = 2 } /_DKV\]/ { k = 3 } /_BACKWARD\]/ { k = 5 }
         { while (match($0, /\{[0-9]+, [0-9]+, [0-9]+\}/)) { f = substr($0, RSTART + 1, RLENGTH - 2); gsub(/,/, "", f); print k, f; $0 = substr($0, RSTART + RLENGTH) } }')
if [ "$(wc -l <<<"$forms")" -eq 14 ]; then pass; else fail "the table of forms was not read: $forms"; fi
while read -r kernel warps pieces cols; do
    if [ "$pieces" -eq 2 ]; then
        heads="64 61 16"
    else
        heads="128 125 64 48"
        if [ "$cols" -eq 64 ] && [ "$kernel" -eq 1 ]; then heads="80 64 48 24"; fi # what local memory holds
        if [ "$cols" -eq 32 ] && [ "$kernel" -eq 5 ]; then heads="96 80 64 48"; fi
    fi
    for head in $heads; do
        limit=255 # two groups of 128 items on a unit
        if [ "$pieces" -eq 1 ] && [ "$head" -le 64 ] && [ "$kernel" -le 3 ]; then limit=168; fi # three
        check_mma "$kernel" "$head" "$warps" "$pieces" "$cols" "$limit"
    done
done <<<"$forms"

# sm_75 has no asynchronous copies and smaller matrix instructions; the host uses the same configurations.
while read -r kernel warps pieces cols; do
    [ "$kernel" -eq 5 ] && continue # the host refuses it there
    head=$((pieces == 2 ? 64 : 128))
    if [ "$cols" -eq 64 ] && [ "$pieces" -eq 1 ]; then head=80; fi # what local memory holds
    name="mma ${names[kernel]} m16n8k8 head $head, $warps warps of $pieces x 16, tiles of $cols"
    if ptx_assemble attention_mma.cl 75 75 "${extra[@]}" -DMMA_SM=75 -DKERNEL="$kernel" -DHEAD_SIZE="$head" -DWARPS="$warps" \
        -DM_TILES="$pieces" -DCOLS="$cols" -DDYT=f16 -DGT=f16 && counts=$(ptx_registers _mma); then
        printf '%-50s registers on sm_75: %s\n' "$name" "$counts"
        if grep -q 'mma\.sync.*m16n8k8' k.ptx && ! grep -q 'cp\.async' k.ptx; then pass; else fail "$name: other instructions"; fi
    else
        fail "$name: ${counts:-does not assemble}"
    fi
done <<<"$forms"

for block in 32 16 8; do
    for head in 64 128; do
        [ "$block" -eq 32 ] && [ "$head" -gt 64 ] && continue
        for kernel in 1 2 3; do
            check "group ${names[kernel]} head $head, blocks of $block, f16" "attention_${names[kernel]}_group" 255 attention_group.cl \
                -DKERNEL="$kernel" -DBLOCK="$block" -DHEAD_SIZE="$head" -DHEADS=12 -DKV_HEADS=12 -DDT=f16 -DDYT=f16 -DGT=f16
        done
    done
done
for head in 64 61; do
    check "delta head $head, bf16" attention_bwd_delta_group 64 attention_group.cl -DKERNEL=4 -DHEAD_SIZE="$head" -DHEADS=12 -DDT=bf16 -DDYT=bf16
done
if [ "$(grep -c '\.entry' k.ptx)" -eq 1 ]; then pass; else fail "a program of one kernel holds others"; fi

# The check works: with four m16 tiles per warp the sums do not fit into registers.
if ptx_assemble attention_mma.cl 80 80 "${extra[@]}" -DKERNEL=3 -DHEAD_SIZE=128 -DM_TILES=4 -DCOLS=64 && ptx_registers _mma >/dev/null; then
    fail "sums of 64 x 128 an item were said to fit"
else
    pass
fi
finish
