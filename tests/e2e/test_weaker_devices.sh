#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: pairs lanes groups
# ctest-cost: 20 ctest-optimise: no
#
# A device that --caps makes weaker, in capabilities and in sizes: trainings start under pairs of masks, what exceeds a limit is
# refused, and a driver that refuses larger groups sees none. With the argument `pairs`: a training under every pair of masks, in lanes
# and in groups. With `lanes` and `groups`: verify --quick under each mask.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
no_binaries
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

seq -f 'line %g of a text that says little' 200 >text.txt
net mlp train.steps=2 >mlp.json
net gpt data.path=text.txt train.steps=2 >gpt.json
net mlp model.type=resnet model.depth=18 model.width=4 model.stem=cifar model.classes=4 data.samples=64 'data.shape=[3,8,8]' data.classes=4 train.steps=2 |
    sed 's/"hidden": \[16\], //' >resnet.json

# started NET MASK: two steps are computed, and the loss of the second is a number.
started() {
    rm -rf run
    expect_code 0 "$CLTRAIN" train "$1.json" --out run --caps="$2"
    expect_awk "$1 under $2: no two steps" '/"update":/ && /"loss":-?[0-9]/ && !/NaN|[Ii]nf/ { n++ } END { exit n < 2 }' run/metrics.jsonl
}

n_trained=0

# --- words ---
for wrong in workgroup=48 workgroup= workgroup=0 local=16X local=-1 buffer=18446744073709551616 buffer=99999999999G align=32 align=100 \
    local=512 wrkgroup=64 =64 none, workgroup=64,; do
    expect_code 2 "$CLTRAIN" train mlp.json --dry-run --caps="$wrong"
done
expect_code 2 "$CLTRAIN" plan mlp.json --caps=workgrup=64
expect_text "there is no limit of this name \(did you mean 'workgroup'\?\)"
expect_code 2 env CLTRAIN_LIMITS=local=x "$CLTRAIN" devices
expect_text 'environment variable CLTRAIN_LIMITS: reading the limit .local=x.'

# --- sizes are obeyed, and reported ---
expect_code 0 env CLTRAIN_LIMITS=workgroup=32,local=16K,buffer=1M,memory=1G,align=4096 "$CLTRAIN" devices --json
expect_text '"max_work_group": 32,' '"local_bytes": 16384,' '"max_alloc_bytes": 1048576,' '"usable_bytes": 1073741824,' '"align_bytes": 4096'
reject_text '"local_proven_bytes": [0-9]{6}'
expect_code 0 "$CLTRAIN" train mlp.json --dry-run --caps=buffer=2M,-fp64
expect_text 'masked: .*buffer=2M'
expect_code 5 "$CLTRAIN" train resnet.json --out run --caps=buffer=64K
expect_text "allows 65536; use a smaller data.micro_batch"
expect_code 5 "$CLTRAIN" train resnet.json --out run --caps=memory=1M
expect_text 'use a smaller data.micro_batch|more memory|larger device'

# --- the checker repeats a failure with the same limits, and its report holds them ---
expect_code 0 "$CLTRAIN" verify -t 'relu.tail' --caps=workgroup=64,-fp64 --json report.json
expect_awk 'the report does not name the limits' '/"caps": "workgroup=64,-fp64"/ { found = 1 } END { exit !found }' report.json
mkdir broken && printf '__kernel void nothing(__global int *p) { p[0] = 1; }\n' >broken/unary.cl
CLTRAIN_KERNEL_DIR=$work/broken expect_code 1 "$CLTRAIN" verify -t 'relu.tail' --caps=workgroup=64,local=16K
expect_text 'cltrain verify -t .* --caps workgroup=64,local=16K'

# --- trainings start ---
masks=(workgroup=32 workgroup=64 workgroup=128 workgroup=256 local=16K local=32K -fp64 -subgroups -int64_atomics buffer=256K align=4096)
case $part in
pairs)
    for ((i = 0; i < ${#masks[@]}; i++)); do
        for ((j = i; j < ${#masks[@]}; j++)); do
            [ "$i" -ne "$j" ] && [ "${masks[i]%%=*}" = "${masks[j]%%=*}" ] && continue
            for style in all -wide_vectors; do
                for name in mlp gpt resnet; do started $name "$style,${masks[i]},${masks[j]}"; done
                n_trained=$((n_trained + 3))
            done
        done
    done
    echo "$n_trained trainings"
    finish
    ;;
lanes | groups)
    for mask in "${masks[@]}"; do
        [ "$part" = lanes ] || mask=-wide_vectors,$mask
        expect_code 0 "$CLTRAIN" verify --quick --caps="$mask"
        echo "--caps=$mask: $(tail -n 1 "$out")"
    done
    finish
    ;;
esac
# Each pair of these sizes together, with lanes and in groups.
started gpt -fp64,workgroup=64,local=16K,buffer=256K
started resnet -wide_vectors,-subgroups,workgroup=32,buffer=256K,align=4096
started mlp -wide_vectors,-int64_atomics,workgroup=128,local=16K,align=4096

# A driver that refuses groups of more than 64 work-items, which no query reports: without the limit in
# --caps the device loses capabilities, with it no such group is launched.
need_shim
export CLTRAIN_CACHE_DIR=$work/cache LD_PRELOAD="$shim" CLT_SHIM='launch:*:groups=64'
expect_code 0 "$CLTRAIN" train gpt.json --out large --caps=-wide_vectors
expect_text "goes without 'wg256'"
expect_code 0 "$CLTRAIN" train gpt.json --out small --caps=-wide_vectors,workgroup=64
reject_text 'goes without|refuse'
finish
