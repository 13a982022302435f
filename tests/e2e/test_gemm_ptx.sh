#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# Every tile of the backends tile and mma compiled by NVIDIA's assembler, without a device: clang compiles it to PTX, and ptxas
# reports registers and local memory for several generations. No spills, no stack, few enough registers to launch the work-group,
# wide loads and stores. The driver has its own compiler and assembler, so the counts are only for comparison.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

. "$CLTRAIN_SOURCE_DIR/tests/e2e/ptx_lib.sh"
# Newer assemblers no longer support sm_70, though their help lists it: an older one that is installed is used, or PTXAS_VOLTA.
printf '.version 6.0\n.target sm_70\n.address_size 64\n' >volta.ptx
volta=
for tool in "${PTXAS_VOLTA:-ptxas}" ptxas /usr/local/cuda*/bin/ptxas /opt/cuda*/bin/ptxas; do
    if command -v "$tool" >/dev/null && "$tool" -arch=sm_70 volta.ptx -o volta.cubin 2>/dev/null; then
        volta=$tool
        break
    fi
done

# assemble DEFINE...: PTX in k.ptx, ptxas's report in k.log.
assemble() {
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_builtins.clh" \
        -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang sm_75 -Xclang -target-feature -Xclang +ptx64 -O3 -I"$kernels" "$@" \
        -S "$kernels/gemm_tile.cl" -o k.ptx >"$out" 2>&1 || return 1
    for arch in 75 80 90; do
        ptxas -arch="sm_$arch" -v k.ptx -o k.cubin >>k.log 2>&1 || return 1
    done
}

# Bytes of local memory, which are the same on all architectures: "49152".
local_memory() {
    awk '/Used [0-9]+ registers/ && match($0, /[0-9]+ bytes smem/) { n = substr($0, RSTART, RLENGTH - 11); if (n + 0 > most + 0) most = n }
         END { print most + 0 }' k.log
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
    if ! counts=$(ptx_registers '^gemm_fwd_(tile|mma)$'); then
        fail "$name: $counts"
        return
    fi
    for n in $counts; do most=$((n > most ? n : most)); done
    printf '%-48s registers on sm_75 80 90: %s, local memory %s\n' "$name" "$counts" "$(local_memory)"
    if [ "$(wc -w <<<"$counts")" -eq 3 ] && [ $((most * items)) -le 65536 ]; then pass; else fail "$name: '$counts' registers, $items items"; fi
    if grep -q -E '\.extern \.func|ld\.local|st\.local' k.ptx; then fail "$name: calls or memory of its own in the PTX"; else pass; fi
    if grep -q 'ld\.shared\.v[24]\.f32' k.ptx && grep -q -E 'ld\.global\.v(4|2\.[bu]32)' k.ptx; then pass; else fail "$name: no wide loads"; fi
}

forms=$(sed -n '/^const ocl_gemm_form ocl_tile_forms/,/};/p' "$CLTRAIN_SOURCE_DIR/cl/backends/gemm_tile.c" |
    grep -o 'FORM([0-9, ]*' | tr -d 'FORM(,')
if [ "$(wc -l <<<"$forms")" -ge 8 ]; then pass; else fail "the table of forms was not read"; fi
while read -r bm bn bk tm tn; do
    form=(-DBM="$bm" -DBN="$bn" -DBK="$bk" -DTM="$tm" -DTN="$tn")
    items=$((bm / tm * (bn / tn)))
    check "${bm}x${bn}x$bk of ${tm}x$tn NN f32" $items "${form[@]}"
    check "${bm}x${bn}x$bk of ${tm}x$tn NT f32 windows of A" $items "${form[@]}" -DTB=1 -DWINDOWS=1
    check "${bm}x${bn}x$bk of ${tm}x$tn NT f16 windows of A, moments" $items "${form[@]}" -DTB=1 -DDTA=f16 -DDTB=f16 -DDTC=f16 -DWINDOWS=1 \
        -DVC=8 -DMOMENTS=1
    check "${bm}x${bn}x$bk of ${tm}x$tn TN bf16 windows of B" $items "${form[@]}" -DTA=1 -DDTA=bf16 -DDTB=bf16 -DDTC=bf16 -DWINDOWS=2
    check "${bm}x${bn}x$bk of ${tm}x$tn TT bf16" $items "${form[@]}" -DTA=1 -DTB=1 -DDTA=bf16 -DDTB=bf16 -DDTC=bf16
done <<<"$forms"
form=(-DBM=128 -DBN=128 -DBK=16 -DTM=8 -DTN=8)
check '128x128x16 of 8x8 NT f16 epilogue' 256 "${form[@]}" -DTB=1 -DDTA=f16 -DDTB=f16 -DVA=8 -DVB=8 -DDTC=f16 -DHAS_BIAS=1 -DHAS_PRE=1 \
    -DHAS_RESIDUAL=1 -DACTIVATION=2
check '128x128x16 of 8x8 TN f32 part of k' 256 "${form[@]}" -DTA=1 -DPARTIAL=1
check '128x128x16 of 8x8 NN f32 wide offsets' 256 "${form[@]}" -DWIDE_OFFSETS=1

# mma: the instructions exist from a certain generation on, so each one is compiled for its own. Tiles that
# need more than 48 KiB of local memory are for devices on which a probe has shown that this works; since
# ptxas refuses such a declaration, they are assembled with 48 KiB. Rounding to even is an instruction of
# sm_90, which older clangs cannot target.
# assemble_mma GENERATION "ARCH..." DEFINE...
assemble_mma() {
    local generation=$1 archs=$2 tool arch
    shift 2
    "$clang" -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -include "$CLTRAIN_SOURCE_DIR/tests/e2e/nvptx_builtins.clh" \
        -target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang "sm_$generation" -Xclang -target-feature -Xclang +ptx75 -O3 \
        -I"$kernels" -D__NV_CL_C_VERSION=1 -DMMA_SM="$generation" "$@" -S "$kernels/gemm_mma.cl" -o k.ptx >"$out" 2>&1 || return 1
    sed -i -E '/\.shared \.align/ { s/\[(4915[3-9]|491[6-9][0-9]|49[2-9][0-9]{2}|[5-9][0-9]{4}|[0-9]{6,})\]/[49152]/ }' k.ptx
    if grep -q 'cvt\.rn\.tf32' k.ptx; then sed -i -E 's/^\.version .*/.version 7.8/; s/^\.target sm_80/.target sm_90/' k.ptx; fi
    for arch in $archs; do
        tool=ptxas
        if [ "$arch" -eq 70 ]; then tool=$volta; fi
        "$tool" -arch="sm_$arch" -v k.ptx -o k.cubin >>k.log 2>&1 || return 1
    done
}

# check_mma NAME ITEMS LIMIT GENERATION "ARCH..." DEFINE...: no more than LIMIT registers.
check_mma() {
    local name=$1 items=$2 limit=$3 generation=$4 archs=$5 counts n
    shift 5
    rm -f k.log
    if ! assemble_mma "$generation" "$archs" "$@"; then
        cat k.log 2>/dev/null >>"$out"
        fail "$name: does not assemble ($*)"
        return
    fi
    if ! counts=$(ptx_registers '^gemm_fwd_(tile|mma)$'); then
        fail "$name: $counts"
        return
    fi
    printf '%-48s registers on sm_%s: %s, local memory %s\n' "$name" "$archs" "$counts" "$(local_memory)"
    if [ "$(wc -w <<<"$counts")" -eq "$(wc -w <<<"$archs")" ]; then pass; else fail "$name: '$counts' registers"; fi
    for n in $counts; do
        if [ "$n" -le "$limit" ] && [ $((n * items)) -le 65536 ]; then pass; else fail "$name: $n registers, limit $limit, $items items"; fi
    done
    if grep -q -E '\.extern \.func|ld\.local|st\.local' k.ptx; then fail "$name: calls or memory of its own in the PTX"; else pass; fi
    if [ "$generation" -lt 80 ] || grep -q 'cp\.async\.cg' k.ptx; then pass; else fail "$name: no asynchronous copies"; fi
    if grep -q -E '^\s+(mma\.sync|wmma\.mma)' k.ptx && grep -q -E '^\s+(ldmatrix|wmma\.load|ld\.shared)' k.ptx; then pass; else fail "$name: no matrix instructions"; fi
    if [[ " $* " != *" -DVC="* ]] || grep -q -E 'st\.global\.v4' k.ptx; then pass; else fail "$name: C is not stored in vectors"; fi
}

mma_forms=$(sed -n '/^const ocl_gemm_form ocl_mma_forms/,/};/p' "$CLTRAIN_SOURCE_DIR/cl/backends/gemm_mma.c" |
    grep -o 'FORM([0-9, ]*' | tr -d 'FORM(,')
if [ "$(wc -l <<<"$mma_forms")" -ge 8 ]; then pass; else fail "the table of mma forms was not read"; fi
# check_form_mma BM BN BK WM WN STAGES: every form with each type and layout in turn, C in vectors.
check_form_mma() {
    local bm=$1 bn=$2 bk=$3 wm=$4 wn=$5 stages=$6 items limit=255 name form
    form=(-DBM="$bm" -DBN="$bn" -DWM="$wm" -DWN="$wn" -DSTAGES="$stages")
    items=$((bm / wm * (bn / wn) * 32))
    name="${bm}x${bn} of ${wm}x$wn s$stages"
    # The 16-bit forms with eight warps of 64 x 32 fit two work-groups on a unit; the others have other
    # limits (cl/backends/gemm_mma.cl).
    if [ "$items" -eq 256 ] && [ $((wm * wn)) -le 2048 ]; then limit=128; fi
    check_mma "mma $name NN bf16" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8
    check_mma "mma $name NT f16" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTB=1 -DDTC=f16 -DVC=8
    check_mma "mma $name NT f16, local memory as an argument" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTB=1 -DDTC=f16 -DVC=8 \
        -DLOCAL_ARGUMENT=1
    check_mma "mma $name TN f16 into f32" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTA=1 -DVC=4
    check_mma "mma $name NT tf32" $items 255 80 "$ampere" "${form[@]}" -DBK=$((bk / 2)) -DTB=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4
    check_mma "mma $name TN tf32" $items 255 80 "$ampere" "${form[@]}" -DBK=$((bk / 2)) -DTA=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4
    check_mma "mma $name NT f16 windows of A" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTB=1 -DDTC=f16 -DVC=8 -DWINDOWS=1
    check_mma "mma $name NT f16 moments" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTB=1 -DDTC=f16 -DVC=8 -DMOMENTS=1
    check_mma "mma $name NT f16 windows of A, moments" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTB=1 -DDTC=f16 -DVC=8 -DWINDOWS=1 \
        -DMOMENTS=1
    check_mma "mma $name NT tf32 windows of A, moments" $items 255 80 "$ampere" "${form[@]}" -DBK=$((bk / 2)) -DTB=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4 \
        -DWINDOWS=1 -DMOMENTS=1
    check_mma "mma $name NN bf16 windows of A" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 \
        -DWINDOWS=1
    check_mma "mma $name TN f16 windows of B" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DTA=1 -DVC=4 -DPARTIAL=1 -DWINDOWS=2
    check_mma "mma $name TN bf16 windows of B, images" $items $limit 80 "$ampere" "${form[@]}" -DBK="$bk" -DMMA_BF16=1 -DDTA=bf16 -DTA=1 -DVC=4 \
        -DWINDOWS=2 -DWINDOWS_DIMS=2
    check_mma "mma $name NT tf32 windows of A" $items 255 80 "$ampere" "${form[@]}" -DBK=$((bk / 2)) -DTB=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4 \
        -DWINDOWS=1
    check_mma "mma $name TN tf32 windows of B" $items 255 80 "$ampere" "${form[@]}" -DBK=$((bk / 2)) -DTA=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4 \
        -DWINDOWS=2
    if [ "$stages" -eq 2 ]; then
        check_mma "mma $name NT f16 windows of A m16n8k8" $items 255 75 75 "${form[@]}" -DBK="$bk" -DTB=1 -DVC=4 -DWINDOWS=1
        check_mma "mma $name TN f16 windows of B m16n8k8" $items 255 75 75 "${form[@]}" -DBK="$bk" -DTA=1 -DVC=4 -DWINDOWS=2
        check_mma "mma $name NT f16 m16n8k8" $items 255 75 75 "${form[@]}" -DBK="$bk" -DTB=1 -DVC=4
        if [ -n "$volta" ] && [ $((bm + bn)) -le 256 ]; then
            check_mma "mma $name NT f16 wmma" $items 255 70 70 "${form[@]}" -DBK="$bk" -DTB=1 -DVC=4
            check_mma "mma $name TN f16 wmma" $items 255 70 70 "${form[@]}" -DBK="$bk" -DTA=1 -DDTC=f16 -DVC=8
        fi
    fi
}
# loop_of ARCH: "INSTRUCTIONS MULTIPLICATIONS" of the main loop of k.ptx, the first loop of the machine code that multiplies.
loop_of() {
    ptxas -arch="sm_$1" k.ptx -o k.cubin >>k.log 2>&1 && nvdisasm -c k.cubin 2>/dev/null | awk '
        /^\.section/ || /^\/\/-+ \.text/ { inside = /\.text\.gemm_fwd_mma/ }
        /^\.text\.gemm_fwd_mma:/ { inside = 1 }
        !inside { next }
        /^[ \t]*\.L_[^ ]*:/ { name = $1; sub(/:.*/, "", name); at[name] = n; before[name] = hmma; next }
        /^[ \t]*\/\*[0-9a-f]+\*\// {
            n++
            if (/HMMA/) hmma++
            if (/BRA/ && match($0, /\.L_[A-Za-z0-9_]+/)) {
                name = substr($0, RSTART, RLENGTH)
                if (name in at && hmma > before[name]) { print n - at[name], hmma - before[name]; exit }
            }
        }'
}

# A scheduler issues an instruction a clock; a multiplication takes it 8 clocks on sm_80 and about 6.5 on sm_90.
# check_slots NAME ARCH CLOCKS10 LIMIT DEFINE...: at most LIMIT % of the instructions that can be issued
# during a step's multiplications.
check_slots() {
    local name=$1 arch=$2 clocks10=$3 limit=$4 n multiplications share
    shift 4
    rm -f k.log
    if ! assemble_mma 80 "$arch" "$@" || ! read -r n multiplications <<<"$(loop_of "$arch")" || [ "${multiplications:-0}" -eq 0 ]; then
        fail "$name: no main loop found on sm_$arch"
        return
    fi
    share=$((n * 1000 / (multiplications * clocks10)))
    printf '%-48s sm_%s: %s instructions for %s multiplications, %s %% of the issue slots\n' "$name" "$arch" "$n" "$multiplications" "$share"
    if [ "$share" -le "$limit" ]; then pass; else fail "$name: $share % of the issue slots on sm_$arch, limit $limit"; fi
}
if command -v nvdisasm >/dev/null; then
    for shape in "128 128 64 32 3" "256 128 64 64 2" "128 64 64 32 2" "64 64 32 32 2"; do
        read -r bm bn wm wn stages <<<"$shape"
        form=(-DBM="$bm" -DBN="$bn" -DWM="$wm" -DWN="$wn" -DSTAGES="$stages")
        f32=(-DBK=16 -DDTA=f32 -DMMA_TF32=1 -DVC=4)
        limit=70
        if [ "$bm" -eq 64 ]; then limit=80; fi
        for layout in NT NN TN TT "NT windows" "TN windows" "TN windows of images"; do
            turn=() f16=$limit tf32=60
            # A step of windows takes 25 to 45 more instructions, whatever the tile: small tiles are for
            # small products.
            if [[ $layout == *windows* ]]; then
                tf32=90
                if [ "$bm" -eq 64 ]; then f16=110; fi
            fi
            case $layout in
            NT) turn=(-DTB=1) ;;
            TN) turn=(-DTA=1) ;;
            TT) turn=(-DTA=1 -DTB=1) ;;
            "NT windows") turn=(-DTB=1 -DWINDOWS=1) ;;
            "TN windows") turn=(-DTA=1 -DWINDOWS=2) ;;
            "TN windows of images") turn=(-DTA=1 -DWINDOWS=2 -DWINDOWS_DIMS=2) ;;
            esac
            check_slots "mma ${bm}x$bn $layout f16" 80 80 $f16 "${form[@]}" -DBK=32 -DDTC=f16 -DVC=8 "${turn[@]}"
            check_slots "mma ${bm}x$bn $layout f16" 90 65 $f16 "${form[@]}" -DBK=32 -DDTC=f16 -DVC=8 "${turn[@]}"
            if [ "$bm" -ge 128 ] && [ "$bn" -ge 128 ]; then
                check_slots "mma ${bm}x$bn $layout tf32" 80 80 $tf32 "${form[@]}" "${f32[@]}" "${turn[@]}"
                check_slots "mma ${bm}x$bn $layout tf32" 90 65 $tf32 "${form[@]}" "${f32[@]}" -DMMA_ROUND_EVEN=1 "${turn[@]}"
            fi
        done
    done
else
    note_skip "nvdisasm is not installed: instructions of the main loops were not counted"
fi

[ -n "$volta" ] || echo "note: no ptxas at hand knows sm_70; the wmma forms were not assembled"
while read -r bm bn bk wm wn stages; do
    check_form_mma "$bm" "$bn" "$bk" "$wm" "$wn" "$stages"
done <<<"$mma_forms"
form=(-DBM=128 -DBN=128 -DWM=64 -DWN=32 -DSTAGES=3)
everything=(-DHAS_BIAS=1 -DHAS_PRE=1 -DHAS_RESIDUAL=1 -DACTIVATION=2)
check_mma 'mma 128x128x32 NT f16 epilogue' 256 128 80 "$ampere" "${form[@]}" -DBK=32 -DTB=1 -DDTC=f16 "${everything[@]}"
check_mma 'mma 128x128x32 NT f16 epilogue in vectors' 256 128 80 "$ampere" "${form[@]}" -DBK=32 -DTB=1 -DDTC=f16 -DVC=8 "${everything[@]}"
check_mma 'mma 128x128x32 NN bf16 dact in vectors' 256 128 80 "$ampere" "${form[@]}" -DBK=32 -DMMA_BF16=1 -DDTA=bf16 -DDTC=bf16 -DVC=8 \
    -DHAS_DACT=1 -DACTIVATION=3
check_mma 'mma 128x128x16 NT tf32 epilogue in vectors' 256 255 80 "$ampere" "${form[@]}" -DBK=16 -DTB=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4 \
    "${everything[@]}"
check_mma 'mma 128x128x32 TN f32 part of k' 256 128 80 "$ampere" "${form[@]}" -DBK=32 -DTA=1 -DPARTIAL=1 -DVC=4
check_mma 'mma 128x128x32 TT bf16' 256 128 80 "$ampere" "${form[@]}" -DBK=32 -DTA=1 -DTB=1 -DMMA_BF16=1 -DDTA=bf16
check_mma 'mma 128x128x16 TT tf32' 256 255 80 "$ampere" "${form[@]}" -DBK=16 -DTA=1 -DTB=1 -DDTA=f32 -DMMA_TF32=1
check_mma 'mma 128x128x16 NT tf32 rounded to even' 256 128 80 90 "${form[@]}" -DBK=16 -DTB=1 -DDTA=f32 -DMMA_TF32=1 -DVC=4 -DMMA_ROUND_EVEN=1
check_mma 'mma 128x128x16 NN tf32' 256 255 80 "$ampere" "${form[@]}" -DBK=16 -DDTA=f32 -DMMA_TF32=1

# Windows that are read element by element, because channels do not fill 16 bytes.
check_mma 'mma 128x128x32 NT f16 windows of A, channels' 256 255 80 "$ampere" "${form[@]}" -DBK=32 -DTB=1 -DALIGNED_A=0 -DWINDOWS=1
check_mma 'mma 128x128x32 TN f16 windows of B, channels' 256 255 80 "$ampere" "${form[@]}" -DBK=32 -DTA=1 -DALIGNED_B=0 -DWINDOWS=2
check_mma 'mma 64x64x32 NT f16 windows of A, channels' 128 255 80 "$ampere" -DBM=64 -DBN=64 -DWM=32 -DWN=32 -DSTAGES=4 -DBK=32 -DTB=1 \
    -DALIGNED_A=0 -DWINDOWS=1
check_mma 'mma 64x64x32 TN f16 windows of B, channels' 128 255 80 "$ampere" -DBM=64 -DBN=64 -DWM=32 -DWN=32 -DSTAGES=4 -DBK=32 -DTA=1 \
    -DALIGNED_B=0 -DWINDOWS=2

# The check detects the fault that it is for: 16 x 16 sums per item do not fit into 255 registers.
rm -f k.log
if assemble -DBM=128 -DBN=128 -DBK=8 -DTM=16 -DTN=16 && ptx_registers '^gemm_fwd_tile$' >/dev/null; then fail "256 sums an item were said to fit"; else pass; fi
finish
