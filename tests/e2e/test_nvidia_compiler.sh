#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-parts: short
# ctest-full: sm_75 sm_80 sm_86 sm_89 sm_90
# ctest-cost: 60
#
# NVIDIA's own OpenCL compiler and assembler take every program that a training of a shipped config would
# build on its devices: planned, probed and built from the command line on a simulated device (tests/ptx).
# Registers and spills of each program are compared with tests/golden/nvidia_programs.txt, so that a change
# for the worse fails by name; a program that is not in the table must not spill. With
# CLTRAIN_NVIDIA_TABLE=FILE the results are added to FILE, from which a new table can be made. Programs of
# the checker: test_nvidia_simulated.sh.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/nvidia_lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/shipped_lib.sh"

driver=$CLTRAIN_BUILD_DIR/tests/ptx_driver.so
[ -f "$driver" ] || skip_all "the simulated driver was not built (CL/cl_icd.h is missing)"
mkdir icd programs
echo "$driver" >icd/ptx.icd
export OCL_ICD_VENDORS=$work/icd OCL_ICD_FILENAMES=$driver CLTRAIN_PTX_CACHE=$work/programs
table=$CLTRAIN_SOURCE_DIR/tests/golden/nvidia_programs.txt

# found SM: the programs of record.json: generation, kernel, checksum of the options, registers, spilled bytes, static local bytes.
found() {
    awk -v name="$1" '
        { key = $1; value = $0; sub(/^ *"[a-z_]*": */, "", value); gsub(/^"|",?$|,$/, "", value) }
        key == "\"kernel\":" { kernel = value } key == "\"options\":" { options = value }
        key == "\"registers\":" { registers = value } key == "\"spilled_bytes\":" { spilled = value }
        key == "\"static_local_bytes\":" { print "sm_" name "\t" kernel "\t" options "\t" registers "\t" spilled "\t" value }' record.json |
        while IFS=$'\t' read -r name kernel options registers spilled bytes; do
            echo "$name $kernel $(cksum <<<"$options" | cut -d' ' -f1) $registers $spilled $bytes"
        done
}

# builds SM LOCAL CONFIG MODE LEAST OVERRIDE...: builds all programs of the config on that device, at least
# LEAST.
builds() {
    local sm=$1 local=$2 config=$3 mode=$4 least=$5 name="sm_$1, $3 in $4"
    shift 5
    expect_code 0 env CLTRAIN_PTX_SM="$sm" CLTRAIN_PTX_LOCAL="$local" CLTRAIN_CACHE_DIR="$work/cache-$sm-$local" \
        "$CLTRAIN" bench build "$CLTRAIN_SOURCE_DIR/configs/$config.json" precision.mode="$mode" device.tune=off "$@" --json record.json
    expect_text ' 0 refused, '
    reject_text 'goes without'
    found "$sm" >found.txt
    [ "$(wc -l <found.txt)" -ge "$least" ] && pass || fail "$name: only $(wc -l <found.txt) programs"
    awk '$4 + 0 < 1 { exit 1 }' found.txt && pass || fail "$name: the assembler said nothing of a program"
    [ -z "${CLTRAIN_NVIDIA_TABLE:-}" ] || cat found.txt >>"$CLTRAIN_NVIDIA_TABLE"
    awk '{ key = $1 " " $2 " " $3 }
        NR == FNR { if ($1 !~ /^#/) { registers[key] = $4; spilled[key] = $5 } next }
        key in registers { same++ }
        $5 > spilled[key] + 0 { print $2 ": " $5 " bytes of registers are spilled, " spilled[key] + 0 " in the table"; bad++ }
        key in registers && $4 > registers[key] + 4 { print $2 ": " $4 " registers, " registers[key] " in the table"; bad++ }
        END { print same + 0 " of " FNR " programs are in the table"; exit bad > 0 || !same }' "$table" found.txt >"$out" &&
        pass || fail "$name: more registers or spills than before, or a table of other programs"
    echo "$name: $(tail -n 1 "$out")"
}

# shipped SM LOCAL BATCH: all configs in all precisions, GPT-2 with a micro-batch that fits such a device.
shipped() {
    local config mode least more
    shipped_data
    for config in "$CLTRAIN_SOURCE_DIR"/configs/*.json; do
        config=$(basename "$config" .json)
        more=() least=4
        case $config in
        gpt2-* | llama-135m | llama-3*) more=(data.micro_batch="$3" data.global_batch="$3" model.context=1024 model.layers=1) least=28 ;;
        # 151,936 logits for each token: more samples do not fit into one buffer of the simulated device
        qwen*) more=(data.micro_batch="$(($3 < 8 ? $3 : 8))" data.global_batch=0 model.context=1024 model.layers=1) least=28 ;;
        bert-base-*) more=(data.micro_batch="$3" data.global_batch="$3" model.layers=1) least=28 ;;
        mlp-text) [ -e /usr/share/common-licenses/GPL-3 ] || { note_skip "there is no /usr/share/common-licenses: $config" && continue; } ;;
        resnet* | unet3d*) least=25 ;;
        esac
        options_of "$CLTRAIN_SOURCE_DIR/configs/$config.json"
        for mode in f32 f16 bf16; do builds "$1" "$2" "$config" "$mode" $least "${more[@]}" "${needed[@]}"; done
    done
}

case ${1:?which part} in
short)
    builds 90 232448 gpt2-124m bf16 30 data.micro_batch=16 data.global_batch=16 model.context=1024 model.layers=1
    builds 90 232448 gpt2-124m bf16 30 data.micro_batch=16 data.global_batch=16 model.context=1024 model.layers=1 precision.residual=f32
    builds 75 65536 resnet18-cifar10-tiny f16 25
    ;;
sm_75) shipped 75 65536 4 ;;
sm_80) shipped 80 166912 8 ;;
sm_86) shipped 86 101376 8 ;;
sm_89) shipped 89 101376 8 ;;
sm_90) shipped 90 232448 16 ;;
esac
finish
