#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Training steps of residual networks in f32 with SGD: ResNet-50 on images of 224 x 224, batch 8, and ResNet-18 with the first layer
# for small images on 32 x 32, batch 128: cltrain, a new PyTorch and Debian's PyTorch, each at its best settings, which run in turns;
# and dlprimitives, which has a network file for ResNet-50. Options and environment: benchlib.sh; peers: torchlib.sh; PyTorch needs
# torchvision.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
. "$here/torchlib.sh"

torch_find
# compare_torch CASE SIDE HAS: our time divided by the time of the PyTorch whose version text contains HAS.
compare_torch() {
    local name=$1 side="PyTorch, $2" version=${3%% *} setting=${best_of[$2]:-} ms ratio
    ms=$(middle "$name" "$side" step_ms)
    [ -n "$ms" ] || return 0
    ratio=$(calc "$mine / $ms")
    printf '%s: PyTorch %s %.1f ms (%s); ours over it %.3f\n' "$name" "$version" "$ms" "$setting" "$ratio"
    record "$name" "$side" step_ms "$ms" ms "$version: $setting"
    bar "$name" "$name: step time over PyTorch $version at its best" "$ratio" "<=" 0.8696
}
# compare NAME DEPTH STEM IMAGE CLASSES BATCH STEPS
compare() {
    local name=$1 depth=$2 stem=$3 image=$4 classes=$5 batch=$6 steps=$7 round mine which python
    local -A best_of=() environment_of=() arguments_of=()
    wanted "$name" || return 0
    if $self_test; then image=32 classes=5 batch=2 steps=1; fi
    cat >"$work/net.json" <<JSON
{"model": {"type": "resnet", "depth": $depth, "stem": "$stem", "classes": $classes},
 "data": {"type": "synthetic", "shape": [3, $image, $image], "classes": $classes, "samples": $((4 * batch)), "micro_batch": $batch},
 "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}, "train": {"steps": 100}}
JSON
    arguments=(--model "resnet$depth" --stem "$stem" --image "$image" --classes "$classes" --batch "$batch" --clip 0)
    for which in new old; do
        torch_best "$which" "$name" resnet "${arguments[@]}" || continue
        best_of[$which]=$best_name environment_of[$which]=$best_environment arguments_of[$which]=$best_arguments
    done
    for ((round = 0; round < rounds; round++)); do
        our_step "$name" "$work/net.json" --warmup 2 --steps "$steps"
        for which in "${!best_of[@]}"; do
            python=$torch_new
            [ "$which" = old ] && python=$torch_old
            # shellcheck disable=SC2086
            torch_sample "$python" "$name" "PyTorch, $which" "${environment_of[$which]}" "${arguments[@]}" ${arguments_of[$which]} --warmup 2 --steps "$steps"
        done
    done
    mine=$(middle "$name" cltrain step_ms)
    printf '%s: cltrain %.1f ms\n' "$name" "$mine"
    record "$name" cltrain step_ms "$mine" ms
    compare_torch "$name" new "${torch_new_has:-}"
    compare_torch "$name" old "${torch_old_has:-}"
}
# compare_dlprimitives NAME BATCH: runs steps of dlprimitives with the batch for which our step has been
# measured. Its first step builds kernels.
compare_dlprimitives() {
    local name=$1 batch=$2 program=${BENCH_DLPRIM:-}/build/dlprim_benchmark ms ratio
    local net=${BENCH_DLPRIM:-}/docs/nets_for_benchmark/resnet50-b8.js
    if ! wanted "$name" || $self_test; then return 0; fi
    if [ ! -x "$program" ] || [ ! -f "$net" ]; then skip dlprimitives "BENCH_DLPRIM names no built checkout of dlprimitives"; return; fi
    if ! watched step "$program" -b -g -B"$batch" -w2 -i3 0:0 "$net"; then
        echo "  $name: dlprimitives failed: $(tail -n 1 "$work/out")"
        return
    fi
    ms=$(awk '$1 == "Step" && $2 >= 0 { print $3 }' "$work/out" | median)
    ratio=$(calc "$ms / $(middle "$name" cltrain step_ms)")
    printf '%s: dlprimitives %.1f ms; its time over ours %.2f\n' "$name" "$ms" "$ratio"
    record "$name" dlprimitives step_ms "$ms" ms "commit $(git -C "$BENCH_DLPRIM" rev-parse --short HEAD 2>/dev/null || echo unknown)"
    bar "$name" "$name: images per second over those of dlprimitives" "$ratio" ">=" 8
}
compare "ResNet-50, 224x224, batch 8" 50 imagenet 224 1000 8 8
compare_dlprimitives "ResNet-50, 224x224, batch 8" 8
compare "ResNet-18 CIFAR, 32x32, batch 128" 18 cifar 32 10 128 5
finish
