#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# model.freeze: parameters that training does not change have neither gradients nor optimizer state, with any storage type, after a
# resume, and when another run starts from their weights.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

net mlp 'model.hidden=[48, 24]' model.activation=gelu data.samples=300 'data.shape=[16]' data.classes=4 data.global_batch=16 optimizer.type=adamw \
    optimizer.learning_rate=0.01 optimizer.clip=1 train.steps=6 train.seed=5 >net.json
bytes() { sed -n -E "s/^ *\"$1\": ([0-9]+),?$/\1/p" "$out" | tail -n 1; }

# Frozen parameters need no memory beyond their values. 48*16+48 in the first layer, 24*48+24 in the second.
expect_code 0 "$CLTRAIN" estimate net.json --device generic --json
whole=$(bytes optimizer)
expect_code 0 "$CLTRAIN" estimate net.json --device generic --json 'model.freeze=["fc1.*"]'
expect_text '"frozen_parameters": 816'
part=$(bytes optimizer)
if [ "$part" -lt "$whole" ]; then pass; else fail "optimizer state: $part bytes with a frozen layer, $whole without"; fi
expect_code 0 "$CLTRAIN" plan net.json --device generic 'model.freeze=fc1.*'
expect_text '2092 parameters in 6 tensors, 816 of them frozen'

# Muon updates the matrices of hidden layers (not the last layer's) that are neither frozen nor left to AdamW.
groups() {
    local want=$1
    expect_code 0 "$CLTRAIN" plan net.json --device generic --full optimizer.type=muon "${@:2}"
    if [ "$(grep -c muon_gather "$out")" = "$want" ]; then pass; else
        fail "muon ${*:2}: $(grep -c muon_gather "$out") groups of matrices, expected $want"
    fi
}
groups 2
groups 1 'model.freeze=fc1.weight'
groups 1 'optimizer.adamw=fc2.*'
groups 0 'optimizer.adamw=["fc1.*","fc2.weight"]'

# Mistakes.
expect_code 2 "$CLTRAIN" plan net.json --device generic optimizer.type=muon 'optimizer.adamw=fc2.wieght'
expect_text "optimizer.adamw: no parameter is called 'fc2.wieght'; did you mean 'fc2.weight'"
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.freeze=fc1.wieght'
expect_text "model.freeze: no parameter is called 'fc1.wieght'; did you mean 'fc1.weight'"
expect_code 2 "$CLTRAIN" plan net.json --device generic 'model.freeze=["fc*","out.*"]'
expect_text 'all parameters are frozen'

"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }
for mode in f32 bf16; do
    expect_code 0 "$CLTRAIN" train net.json precision.mode=$mode 'model.freeze=["fc1.*","out.bias"]' train.steps=1 --out $mode.1
    expect_code 0 "$CLTRAIN" train net.json precision.mode=$mode 'model.freeze=["fc1.*","out.bias"]' checkpoint.every=3 --out $mode
    expect_text '820 of them frozen'
    for name in fc1.weight fc1.bias out.bias; do
        expect_same <(tensor $mode.1/checkpoints/step_1/model.safetensors $name) <(tensor $mode/checkpoints/step_6/model.safetensors $name)
        if tensor $mode/checkpoints/step_6/optimizer.safetensors "$name\\.[a-z0-9_.]*" >state.txt; then fail "$mode: $name has optimizer state"; else pass; fi
    done
    for name in fc2.weight fc2.bias out.weight; do
        if diff -q <(tensor $mode.1/checkpoints/step_1/model.safetensors $name) <(tensor $mode/checkpoints/step_6/model.safetensors $name) >/dev/null; then
            fail "$mode: $name was not trained"
        else
            pass
        fi
    done
    # A run that was resumed from the middle ends with the same bits.
    expect_code 0 "$CLTRAIN" train net.json precision.mode=$mode 'model.freeze=["fc1.*","out.bias"]' train.steps=3 schedule.horizon=6 --out $mode.half
    expect_code 0 "$CLTRAIN" train --resume $mode.half train.steps=6
    expect_same $mode/checkpoints/step_6/model.safetensors $mode.half/checkpoints/step_6/model.safetensors
done

# Starting from another run's weights and training only a part of them: this part's gradient is the same as
# in the whole net.
expect_code 0 "$CLTRAIN" train net.json --init f32 'model.freeze=["fc*"]' --out head
expect_same <(tensor f32/checkpoints/step_6/model.safetensors fc2.weight) <(tensor head/checkpoints/step_6/model.safetensors fc2.weight)
expect_code 0 "$CLTRAIN" eval head --on train
finish
