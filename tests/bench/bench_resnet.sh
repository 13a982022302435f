#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Training steps of residual networks in f32 with SGD: ResNet-50 on images of 224 x 224, batch 8, and ResNet-18 with the first layer
# for small images on 32 x 32, batch 128: cltrain and PyTorch at its best settings, which run in turns. Options and environment:
# benchlib.sh; peers: torchlib.sh; PyTorch needs torchvision.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
. "$here/torchlib.sh"

torch_find
# compare NAME DEPTH STEM IMAGE CLASSES BATCH STEPS
compare() {
    local name=$1 depth=$2 stem=$3 image=$4 classes=$5 batch=$6 steps=$7 round mine ms ratio
    wanted "$name" || return 0
    if $self_test; then image=32 classes=5 batch=2 steps=1; fi
    cat >"$work/net.json" <<JSON
{"model": {"type": "resnet", "depth": $depth, "stem": "$stem", "classes": $classes},
 "data": {"type": "synthetic", "shape": [3, $image, $image], "classes": $classes, "samples": $((4 * batch)), "micro_batch": $batch},
 "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}, "train": {"steps": 100}}
JSON
    arguments=(--model "resnet$depth" --stem "$stem" --image "$image" --classes "$classes" --batch "$batch" --clip 0)
    local peer=false
    torch_best new "$name" resnet "${arguments[@]}" && peer=true
    for ((round = 0; round < rounds; round++)); do
        our_step "$name" "$work/net.json" --warmup 2 --steps "$steps"
        # shellcheck disable=SC2086
        ! $peer || torch_sample "$torch_new" "$name" PyTorch "$best_environment" "${arguments[@]}" $best_arguments --warmup 2 --steps "$steps"
    done
    mine=$(middle "$name" cltrain step_ms)
    printf '%s: cltrain %.1f ms\n' "$name" "$mine"
    record "$name" cltrain step_ms "$mine" ms
    $peer || return 0
    ms=$(middle "$name" PyTorch step_ms)
    ratio=$(calc "$mine / $ms")
    printf '%s: PyTorch %s %.1f ms (%s); ours over it %.3f\n' "$name" "${torch_new_has%% *}" "$ms" "$best_name" "$ratio"
    record "$name" PyTorch step_ms "$ms" ms "${torch_new_has%% *}: $best_name"
    bar "$name" "$name: step time over PyTorch ${torch_new_has%% *} at its best" "$ratio" "<=" 0.8696
}
compare "ResNet-50, 224x224, batch 8" 50 imagenet 224 1000 8 8
compare "ResNet-18 CIFAR, 32x32, batch 128" 18 cifar 32 10 128 5
finish
