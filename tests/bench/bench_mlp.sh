#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A training step of the MLP 784-512-512-10, batch 128, AdamW without clipping: cltrain and PyTorch at its best settings, which run
# in turns. Options and environment: benchlib.sh; peers: torchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
. "$here/torchlib.sh"

name="784-512-512-10, batch 128" steps=1000
tiny=()
if $self_test; then
    name="12-8-8-3, batch 4" steps=5
    tiny=(model.hidden=[8,8] model.outputs=3 data.shape=[12] data.classes=3 data.micro_batch=4)
fi
arguments=(--model mlp --sizes 784-512-512-10 --batch 128 --clip 0)
trial=(--warmup 50 --steps 300)
torch_new_has= torch_old_has=
torch_find
sides=()
for which in new old; do
    if torch_best $which "$name" mlp "${arguments[@]}"; then
        sides+=("$which")
        printf -v "${which}_name" %s "$best_name"
        printf -v "${which}_environment" %s "$best_environment"
        printf -v "${which}_arguments" %s "$best_arguments"
    fi
done
for ((round = 0; round < rounds; round++)); do
    our_step "$name" "$here/mlp.json" ${tiny[@]+"${tiny[@]}"} --warmup 20 --steps $steps
    for which in ${sides[@]+"${sides[@]}"}; do
        python=torch_$which environment=${which}_environment more=${which}_arguments
        # shellcheck disable=SC2086
        torch_sample "${!python}" "$name" "PyTorch, $which" "${!environment}" "${arguments[@]}" ${!more} --warmup 50 --steps $steps
    done
done
mine=$(middle "$name" cltrain step_ms)
printf '%s: cltrain %.3f ms\n' "$name" "$mine"
record "$name" cltrain step_ms "$mine" ms
for which in ${sides[@]+"${sides[@]}"}; do
    ms=$(middle "$name" "PyTorch, $which" step_ms) setting=${which}_name has=torch_${which}_has release=${!has%% *}
    ratio=$(calc "$mine / $ms")
    printf '%s: PyTorch %s %.3f ms (%s); ours over it %.3f\n' "$name" "$release" "$ms" "${!setting}" "$ratio"
    record "$name" "PyTorch, $which" step_ms "$ms" ms "$release: ${!setting}"
    record "$name" "PyTorch, $which" ratio_to_cltrain "$(calc "$ms / $mine")" x "$release: ${!setting}"
    bar "$name" "MLP step time over PyTorch $release at its best" "$ratio" "<=" 1
done
finish
