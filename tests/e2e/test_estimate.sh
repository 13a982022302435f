#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8 ctest-optimise: no
#
# What half precision and recomputation save: `estimate` of GPT-2 124M compared with the bars and the formula of docs/precision.md, of
# ResNet-50 and ResNet-152 with their bars, and of a small GPT and a small ResNet compared with the bytes that a real step uses on a
# device. An estimate does not need the text or the images; if they are missing, that is reported.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
gpt2=$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json

# estimated NAME CONFIG ARGUMENTS...: its JSON in NAME.json
estimated() {
    local name=$1
    shift
    expect_code 0 "$CLTRAIN" estimate "$@" --json
    cp "$out" "$name.json"
}
# bytes_of NAME KEY: the last number after a key; "parameters" is followed by their number and then by their bytes
bytes_of() { sed -n -E "s/^.*\"$2\": ([0-9]+).*/\1/p" "$1.json" | tail -n 1; }
holds() { # what, awk expression
    if awk "BEGIN { exit !($2) }"; then pass; else fail "$1: $2 does not hold"; fi
}

# --- GPT-2 124M, 4 x 1024 tokens; its text does not exist here ---
size=(data.micro_batch=4 data.global_batch=4 model.context=1024 --device generic) # the same everywhere
for mode in f32 f16 bf16; do
    for tier in none block; do
        estimated $mode.$tier "$gpt2" "${size[@]}" precision.mode=$mode train.recompute=$tier
    done
done
expect_text '"data_missing": ".*No such file'
full=$(bytes_of f32.none activations)
count=$(sed -n -E 's/^.*"parameters": ([0-9]+).*/\1/p' f32.none.json | head -n 1)
for mode in f16 bf16; do
    holds "$mode activations" "$(bytes_of $mode.none activations) <= 0.55 * $full"
    holds "$mode total" "$(bytes_of $mode.none total) <= 0.82 * $(bytes_of f32.none total)"
    holds "$mode with block recompute" "$(bytes_of $mode.block activations) <= 0.40 * $full"
    # 12 layers with 12 heads: 4 bytes a row and head for attention, 8 a row for each of 25 norms
    stays=$((4096 * (12 * 12 * 4 + 25 * 8)))
    formula="(18 * $count + $full / 2 + $stays / 2)"
    holds "$mode against the formula of the docs" "$(bytes_of $mode.none total) <= 1.02 * $formula"
    holds "$mode against the formula of the docs" "$(bytes_of $mode.none total) >= 0.98 * $formula"
done
expect_code 0 "$CLTRAIN" estimate "$gpt2" "${size[@]}"
expect_text '^data +was not read, its shapes follow from the config: ' 'the largest data.micro_batch that fits is [0-9]+'
expect_code 0 "$CLTRAIN" plan "$gpt2" "${size[@]}"
expect_text '^data +was not read'
expect_code 3 "$CLTRAIN" train "$gpt2" --out never "${size[@]}"
expect_absent never

# An estimate does not take longer for long sequences, because it only needs the shape of samples and does
# not read them.
expect_code 0 "$CLTRAIN" estimate "$gpt2" model.layers=1 model.heads=3 model.channels=48 model.vocab=500 model.context=1000000 \
    data.micro_batch=1 --device generic
expect_text 'the 8.0 GiB that the device can give'

# --- sizes that exceed the kernels' 32-bit numbers or a buffer are refused by name, on every device ---
refused() { # CODE TEXT SETTING...
    local code=$1 text=$2
    shift 2
    expect_code "$code" "$CLTRAIN" plan "$gpt2" data.global_batch=0 "$@" --device generic
    expect_text "$text"
}
refused 2 "tensor 'lm_head': .*too large" data.micro_batch=2200000
refused 5 "tensor 'wte' needs 12582912000 bytes in one buffer" data.micro_batch=4000

# --- a generic device gets the requested memory, more or less than a typical one ---
for memory in 4 24; do
    expect_code 0 "$CLTRAIN" estimate "$gpt2" --device generic --caps memory=${memory}G
    expect_text "^device +a generic GPU with $memory.0 GiB, as requested" "the $memory.0 GiB that the device can give"
done

# --- how much a training reads: GPT-2's recipe, and a text whose windows overlap when they are shuffled ---
expect_code 0 "$CLTRAIN" estimate "$gpt2" --device generic
expect_text '^steps +18865 of 524288 tokens, 9.89e\+09 tokens in all$'
head -c 1601 /dev/zero | tr '\0' a >letters
echo '{"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 8, "context": 32}, "train": {"steps": 50},
    "data": {"type": "text", "path": "letters", "split": 0, "micro_batch": 1}}' >letters.json
for shuffle in true false; do
    expect_code 0 "$CLTRAIN" plan letters.json data.shuffle=$shuffle --device generic
    expect_text '^steps +50 of 32 tokens, 1.6e\+03 tokens in all, 0.999 times through the training data$'
done
expect_code 0 "$CLTRAIN" plan letters.json --json --device generic
expect_text '"tokens_per_step": 32' '"tokens": 1600' '"passes": 0.999'
# A training that is made shorter on the command line gets a shorter warm-up, and says so.
expect_code 0 "$CLTRAIN" plan letters.json train.steps=5000 schedule.warmup=400 --device generic
expect_text '400 steps of warm-up'
sed -i 's/"train": {/"schedule": {"warmup": 40}, "train": {/' letters.json
expect_code 0 "$CLTRAIN" plan letters.json train.steps=10 --device generic
expect_text 'schedule.warmup is 8 instead of 40, since the training is shorter: override .train.steps=10' '8 steps of warm-up'
sed -i 's/"steps": 50/"epochs": 1/' letters.json
for steps in 3 9; do
    expect_code 0 "$CLTRAIN" plan letters.json train.steps=$steps --device generic
    expect_text 'schedule.warmup is 1 instead of 40' '1 step of warm-up'
done

# --- ResNets on batches of 32 images of 224 x 224, which do not exist here ---
for depth in 50 152; do
    for mode in f32 f16 bf16; do
        estimated $depth.$mode "$CLTRAIN_SOURCE_DIR/configs/resnet$depth-imagenet.json" data.micro_batch=32 data.global_batch=32 \
            precision.mode=$mode train.recompute=none --device generic
    done
    expect_text '"data_missing": ".*imagenet'
done
tier() { sed -n -E "/activations_by_recompute/,\$ s/^ *\"$2\": ([0-9]+).*/\1/p" "$1.json"; } # activations with that train.recompute
for mode in f32 f16 bf16; do
    holds "ResNet-50, batch norm and relu recomputed, $mode" "$(tier 50.$mode gelu) <= 0.70 * $(tier 50.$mode none)"
    holds "ResNet-50, blocks recomputed, $mode" "$(tier 50.$mode block) <= 0.35 * $(tier 50.$mode none)"
    [ $mode = f32 ] && continue
    holds "ResNet-50, total in $mode" "$(bytes_of 50.$mode total) <= 0.60 * $(bytes_of 50.f32 total)"
    holds "ResNet-152, total in $mode" "$(bytes_of 152.$mode total) <= 0.70 * $(bytes_of 152.f32 total)"
done
# Without the number of classes the files are needed, as for data whose shapes are given nowhere else.
expect_code 3 "$CLTRAIN" estimate "$CLTRAIN_SOURCE_DIR/configs/resnet50-imagenet.json" model.classes=0 --device generic
expect_text "imagenet/train'"
expect_code 3 "$CLTRAIN" estimate "$CLTRAIN_SOURCE_DIR/configs/mlp-mnist.json" data.path='["missing"]'
expect_code 0 "$CLTRAIN" estimate "$CLTRAIN_SOURCE_DIR/configs/resnet18-cifar10.json" model.classes=10 --device generic

# Shared memory of the groups of ranks: six slots of 2 MiB for each rank, and for synchronised norms six of 64 KiB in a group of their own.
for setting in 1:false:0 1:true:0 2:false:12582912 2:true:12976128; do
    IFS=: read -r ranks norms bytes <<<"$setting"
    estimated shared "$CLTRAIN_SOURCE_DIR/configs/resnet18-cifar10.json" model.classes=10 --device generic --ranks "$ranks" parallel.sync_batch_norm="$norms"
    holds "$setting: $(bytes_of shared shared_host) bytes" "$(bytes_of shared shared_host) == $bytes"
done

# --- a real step ---
if ! "$CLTRAIN" devices 2>/dev/null | grep -q -w cpu; then
    note_skip 'there is no OpenCL device of type cpu: estimates are not compared with a real step'
    finish
fi
small=(model.layers=2 model.heads=3 model.channels=15 model.vocab=500 model.context=64 data.micro_batch=4 data.global_batch=4) # as in test_golden_half.c
image=("$CLTRAIN_SOURCE_DIR/configs/resnet50-imagenet.json" model.width=8 data.size=64 data.micro_batch=4 data.global_batch=4)
for setting in gpt:f32:none gpt:f16:block gpt:bf16:none image:f32:none image:f32:gelu image:f16:gelu; do
    mode=${setting#*:}
    tier=${mode#*:} mode=${mode%:*}
    case $setting in
    gpt:*) arguments=("$gpt2" "${small[@]}") ;;
    *) arguments=("${image[@]}") ;;
    esac
    arguments+=(precision.mode=$mode train.recompute=$tier --device cpu)
    expect_code 0 "$CLTRAIN" bench step "${arguments[@]}" --warmup 0 --steps 1 --json step.json
    used=$(sed -n -E 's/^.*"device_bytes": ([0-9]+).*/\1/p' step.json)
    estimated real "${arguments[@]}"
    holds "$setting" "$(bytes_of real total) <= 1.01 * $used && $(bytes_of real total) >= 0.99 * $used"
done
finish
