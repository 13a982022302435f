#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Memory of residual networks. Plans for batches of 32 images of 224 x 224 show what recomputing batch norm
# and relu saves, and what f16 saves. Runs with 4 images compare the bytes that `estimate` gives with the
# device memory that the steps took, and on a CPU device with the growth of the process itself (its peak
# resident set, less the peak of the same training on images of 32 x 32). Options and environment:
# benchlib.sh.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
configs=$root/configs
device=generic

# planned CONFIG SETTING...: writes the estimate of a batch to $work/estimate.json; sets $total
planned() {
    watched bytes "$CLTRAIN" estimate "$configs/$1.json" "${@:2}" --device "$device" --json || { tail -n 5 "$work/err"; exit 1; }
    mv "$work/out" "$work/estimate.json"
    total=$(json_number "$work/estimate.json" total)
}
tier() { sed -n '/activations_by_recompute/,$p' "$work/estimate.json" >"$work/tiers" && json_number "$work/tiers" "$1"; }
mib() { calc "$1 / 1048576"; }

activations() {
    local name="ResNet-50, batch 32" mode none gelu block
    wanted "$name" || return 0
    for mode in f32 f16; do
        planned resnet50-imagenet data.micro_batch=32 data.global_batch=32 precision.mode=$mode train.recompute=none
        none=$(tier none) gelu=$(tier gelu) block=$(tier block)
        printf '%s, %s: activations %.0f MiB; with train.recompute=gelu %.0f, block %.0f\n' "$name" "$mode" "$(mib "$none")" "$(mib "$gelu")" \
            "$(mib "$block")"
        record "$name $mode" cltrain activations "$none" B
        record "$name $mode" cltrain activations_gelu "$gelu" B
        record "$name $mode" cltrain activations_block "$block" B
        bar "$name" "$name, $mode: activations with norms recomputed" "$(calc "$gelu / $none")" "<=" 0.70
    done
}
totals() { # DEPTH LIMIT
    local name="ResNet-$1, batch 32" f32
    wanted "$name" || return 0
    planned "resnet$1-imagenet" data.micro_batch=32 data.global_batch=32 precision.mode=f32 train.recompute=none
    f32=$total
    planned "resnet$1-imagenet" data.micro_batch=32 data.global_batch=32 precision.mode=f16 train.recompute=none
    printf '%s: total in f32 %.0f MiB, in f16 %.0f\n' "$name" "$(mib "$f32")" "$(mib "$total")"
    record "$name" cltrain total_f32 "$f32" B
    record "$name" cltrain total_f16 "$total" B
    bar "$name" "$name: total in f16 over f32" "$(calc "$total / $f32")" "<=" "$2"
}

# stepped SETTING...: runs two steps; sets $total and $used in bytes, and $rss_mib. The second run counts,
# because compiling kernels takes memory, too.
stepped() {
    planned resnet50-imagenet data.micro_batch=4 data.global_batch=4 data.eval_path=[] "$@"
    for _ in first second; do
        ours bench step "$configs/resnet50-imagenet.json" data.micro_batch=4 data.global_batch=4 data.eval_path=[] "$@" --warmup 1 \
            --steps 1 --json "$work/step.json"
    done
    used=$(json_number "$work/step.json" device_bytes)
}
real() { # MODE TIER
    local name="ResNet-50, batch 4, $1, recompute $2" size=224 planned_bytes rss
    wanted "$name" || return 0
    device=cpu
    $self_test && size=64
    stepped data.size=$size precision.mode="$1" train.recompute="$2"
    planned_bytes=$total rss=$rss_mib
    printf '%s: estimated %.1f MiB, taken %.1f MiB' "$name" "$(mib "$total")" "$(mib "$used")"
    record "$name" cltrain estimate "$total" B
    record "$name" cltrain device_bytes "$used" B
    bar_of=$(calc "$total / $used")
    stepped data.size=32 precision.mode="$1" train.recompute="$2"
    printf '; %.0f MiB more than for images of 32 x 32, the process grew by %.0f\n' "$(mib "($planned_bytes - $total)")" "$(calc "$rss - $rss_mib")"
    record "$name" cltrain resident_growth_mib "$(calc "$rss - $rss_mib")" MiB
    bar "$name" "$name: estimate over bytes taken" "$bar_of" "<=" 1.05
    bar "$name" "$name: estimate over bytes taken" "$bar_of" ">=" 0.95
    device=generic
}

activations
totals 50 0.60
totals 152 0.70
if "$CLTRAIN" devices 2>/dev/null | grep -q -w cpu; then
    real f32 none
    real f32 gelu
    real f16 none
else
    skip "the device" "there is no OpenCL device of type cpu"
fi
finish
