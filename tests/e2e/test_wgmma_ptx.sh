#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Every tile of the wgmma GEMM compiled by NVIDIA's assembler, without a device: clang compiles it to PTX, retarget_ptx makes from
# it what cltrain loads back into the driver, ptxas assembles that for sm_90a. No spills, no stack, few enough registers for the
# work-group, and no use of registers to which products in flight add, for which ptxas would insert waits.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_lib.sh"
ptxas --help | grep -q sm_90a || skip_all "this ptxas does not know sm_90a"
retarget=$CLTRAIN_BUILD_DIR/tests/retarget_ptx

# assemble FOLDER FILE DEFINE...: the kernel file for sm_90a in k.cubin, ptxas's report in k.log.
assemble() {
    local folder=$1 file=$2
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_builtins.clh" \
        -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx75 -O3 -I"$folder" -I"$kernels" \
        -D__NV_CL_C_VERSION=1 "$@" -S "$folder/$file" -o k.ptx >"$out" 2>&1 || return 1
    sed -i -e 's/^\.target sm_80/.target sm_90/' k.ptx
    "$retarget" <k.ptx >k90a.ptx 2>>"$out" || return 1
    ptxas -arch=sm_90a -v ${most:+-maxrregcount $most} k90a.ptx -o k.cubin >k.log 2>&1 && return
    grep -q 'too much shared data' k.log || return 1
    # An old ptxas takes no more than 48 KiB of local memory.
    sed -i -E '/\.shared \.align/ { s/\[[0-9]+\]/[49152]/ }' k90a.ptx
    ptxas -arch=sm_90a -v ${most:+-maxrregcount $most} k90a.ptx -o k.cubin >k.log 2>&1
}

# loop_of: "INSTRUCTIONS PRODUCTS" of the main loop of k.cubin: from the first product to the jump back to its label.
loop_of() {
    nvdisasm -c k.cubin 2>/dev/null | awk '
        /^[ \t]*\.L_[^ ]*:/ { name = $1; sub(/:.*/, "", name); at[name] = n; before[name] = products; next }
        /^[ \t]*\/\*[0-9a-f]+\*\// {
            n++
            if (/HGMMA/) products++
            if (/BRA/ && match($0, /\.L_[A-Za-z0-9_]+/)) {
                name = substr($0, RSTART, RLENGTH)
                if (name in at && products > before[name]) { print n - at[name], products - before[name]; exit }
            }
        }'
}

# notices: what ptxas reports about products, with numbers from C7500 on: waits that it inserted, and
# products that it serialised.
notices() {
    grep -m 1 -E '\(C75[0-9]+\)|warning' k.log
}

# check NAME ITEMS LIMIT DEFINE...
check() {
    local name=$1 items=$2 limit=$3 registers loop=
    shift 3
    if ! assemble "$kernels" gemm_wgmma.cl -DMMA_SM=80 "$@"; then
        cat k.log >>"$out" 2>/dev/null
        fail "$name: does not assemble ($*)"
        return
    fi
    if ! registers=$(ptx_registers '^gemm_fwd_wgmma$'); then
        fail "$name: $registers"
        return
    fi
    if command -v nvdisasm >/dev/null; then read -r -a loop <<<"$(loop_of)"; fi
    printf '%-48s %s registers%s\n' "$name" "$registers" "${loop:+, ${loop[0]} instructions for ${loop[1]} products}"
    if [ "${registers:-999}" -le "$limit" ] && [ $((registers * items)) -le 65536 ]; then pass; else fail "$name: $registers registers, limit $limit"; fi
    if notices; then fail "$name: $(notices)"; else pass; fi
    if grep -q -E '\.extern \.func|ld\.local|st\.local' k90a.ptx; then fail "$name: calls or memory of its own"; else pass; fi
    if grep -q '^[[:space:]]*wgmma\.mma_async' k90a.ptx && ! grep -q '//sm_90a' k90a.ptx; then pass; else fail "$name: marked lines are left"; fi
}

forms=$(sed -n '/^const ocl_gemm_form ocl_wgmma_forms/,/};/p' "$CLTRAIN_SOURCE_DIR/cl/backends/gemm_wgmma.c" | grep -o 'FORM([0-9, ]*' | tr -d 'FORM(,')
if [ "$(wc -l <<<"$forms")" -ge 14 ]; then pass; else fail "the table of forms was not read"; fi
while read -r bm bn stages; do
    wn=$bn wm=64 # complete() of cl/backends/gemm_wgmma.c
    if [ "$bm" -eq 256 ]; then wm=128; fi
    form=(-DBM="$bm" -DBN="$bn" -DWM="$wm" -DWN="$wn" -DSTAGES="$stages")
    items=$((bm / wm * (bn / wn) * 128))
    limit=255 most=
    # NVIDIA's compiler gives the assembler the number of items, which clang does not.
    if [ "$items" -gt 256 ]; then limit=168 most=168; fi
    if [ "$items" -eq 256 ] && [ $((wm * wn)) -le 8192 ]; then limit=128; fi # two work-groups on a unit
    name="wgmma ${bm}x$bn of ${wm}x$wn s$stages"
    check "$name NN bf16" $items $limit "${form[@]}" -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8
    check "$name NT f16" $items $limit "${form[@]}" -DTB=1 -DDTC=f16 -DVC=8
    if [ "$items" -le 256 ]; then # larger work-groups do not read windows
        check "$name NT f16 windows of A" $items $limit "${form[@]}" -DTB=1 -DDTC=f16 -DVC=8 -DWINDOWS=1
        check "$name NT f16 windows of A, moments" $items $limit "${form[@]}" -DTB=1 -DDTC=f16 -DVC=8 -DWINDOWS=1 -DMOMENTS=1
        check "$name NN bf16 windows of A" $items $limit "${form[@]}" -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 -DWINDOWS=1
        check "$name TN f16 windows of B" $items $limit "${form[@]}" -DTA=1 -DDTC=f16 -DVC=8 -DWINDOWS=2
        check "$name TN f16 windows of B of images" $items $limit "${form[@]}" -DTA=1 -DDTC=f16 -DVC=8 -DWINDOWS=2 -DWINDOWS_DIMS=2
        check "$name TN bf16 windows of B, part of k" $items $limit "${form[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DPARTIAL=1 -DVC=4 -DWINDOWS=2
    fi
    check "$name NT bf16 moments" $items $limit "${form[@]}" -DTB=1 -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 -DMOMENTS=1
    check "$name TN f16 into f32" $items $limit "${form[@]}" -DTA=1 -DVC=4
    check "$name TN bf16 line sums" $items $limit "${form[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DVC=4 -DLINE_SUMS=1
    check "$name TN bf16 line sums, part of k" $items $limit "${form[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DPARTIAL=1 -DVC=4 -DLINE_SUMS=1
    check "$name TN bf16 stream-k" $items $limit "${form[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DPARTIAL=1 -DSTREAM=1 -DVC=4
    if [ "$items" -le 256 ]; then # 384 items spill 12 bytes each with clang's PTX, none with NVIDIA's (test_nvidia_compiler.sh)
        check "$name TN bf16 stream-k, line sums" $items $limit "${form[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DPARTIAL=1 -DSTREAM=1 -DVC=4 -DLINE_SUMS=1
    fi
    check "$name TT bf16" $items $limit "${form[@]}" -DTA=1 -DTB=1 -DMMA_BF16=1 -DDTA=bf16 -DDTC=f32
done <<<"$forms"
most=
large=(-DBM=128 -DBN=256 -DWM=64 -DWN=256 -DSTAGES=4)
check 'wgmma 128x256 NT bf16 everything in vectors' 256 255 "${large[@]}" -DTB=1 -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 -DHAS_BIAS=1 \
    -DHAS_PRE=1 -DHAS_RESIDUAL=1 -DACTIVATION=2
check 'wgmma 128x256 NN bf16 dact in vectors' 256 255 "${large[@]}" -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 -DHAS_DACT=1 -DACTIVATION=3
check 'wgmma 128x256 TN bf16 line sums, local memory as an argument' 256 255 "${large[@]}" -DTA=1 -DMMA_BF16=1 -DDTA=bf16 -DVC=4 -DLINE_SUMS=1 \
    -DLOCAL_ARGUMENT=1
check 'wgmma 128x256 TN f16 part of k' 256 255 "${large[@]}" -DTA=1 -DPARTIAL=1 -DVC=4
if assemble "$kernels" probe_wgmma.cl && grep -q '^[[:space:]]*wgmma\.mma_async' k90a.ptx; then pass; else fail "the probe does not assemble"; fi

# The checks work: sums that are used while products are in flight, and more sums than registers.
mkdir edited
sed 's/BRING(t + STEPS_AHEAD, fill);/sums[0][0] += 1.0f; &/' "$kernels/gemm_wgmma.cl" >edited/gemm_wgmma.cl
if assemble edited gemm_wgmma.cl -DMMA_SM=80 "${large[@]}" && notices >>"$out"; then pass; else cp k.log "$out"; fail "sums in use were not noticed"; fi
if assemble "$kernels" gemm_wgmma.cl -DMMA_SM=80 -DBM=512 -DBN=128 -DWM=128 -DWN=128 && [ $(($(ptx_registers gemm_fwd) * 512)) -le 65536 ] &&
    ptx_registers gemm_fwd >/dev/null; then fail "512 items of 128 sums were said to fit"; else pass; fi
finish
