#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What recipes of images and volumes reach, and the memory that large volumes need:
#
#   MNIST, CIFAR JPEG       cnn-mnist.json; resnet18-cifar10-tiny.json on 5,000 JPEG images: accuracy, time
#   unet3d, cnn3d           unet3d-tiny.json and cnn3d-tiny.json on volumes that make_volumes makes: Dice, accuracy
#   unet3d 256x256x64       that network evaluated by sliding windows: Dice, and the memory against a volume of a quarter of the size
#   cnn3d 256x256x64        training steps of cnn3d-ct.json on whole volumes: memory
#
# Memory is the most that the process had resident (VmHWM). Options and environment: benchlib.sh. Also: BENCH_BUILD a build folder with its
# tests (default: build), CLTRAIN_MNIST a folder with MNIST's four files, CLTRAIN_CIFAR_JPEG one with train/CLASS/*.jpg and test/CLASS/*.jpg.
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
make_volumes=${BENCH_BUILD:-$root/build}/tests/make_volumes
mnist=${CLTRAIN_MNIST:-$root/../shared/data/mnist}
cifar=${CLTRAIN_CIFAR_JPEG:-$root/../shared/data/cifar10-jpeg}
[ -x "$make_volumes" ] || { echo "bench_volumes.sh: there is no $make_volumes; build the tests, and set BENCH_BUILD" >&2; exit 2; }
configs=$root/configs
volumes() { # FOLDER ARGUMENTS...: makes a folder once
    [ -d "$work/$2" ] || "$make_volumes" "$1" "$work/$2" "${@:3}" || exit 1
}
# reached CASE BAR KEY RUN ["what"]: records the last value of KEY in metrics.jsonl, and the time of the
# training
reached() {
    local value
    value=$(json_line "$4/metrics.jsonl" "$3")
    printf '%s: %s %s, %.0f s\n' "$1" "${5:-$3}" "$value" "$wall_s"
    record "$1" cltrain "${5:-$3}" "$value" ""
    record "$1" cltrain wall_s "$wall_s" s
    bar "$1" "$1: ${5:-$3}" "$value" ">=" "$2"
}

mnist() {
    wanted MNIST || return 0
    local file short=()
    for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        [ -f "$mnist/$file-ubyte.gz" ] || { skip MNIST "there is no $mnist/$file-ubyte.gz; set CLTRAIN_MNIST"; return 0; }
    done
    $self_test && short=(train.steps=5 schedule.warmup=0 train.eval_batches=2)
    ours train "$configs/cnn-mnist.json" --out "$work/mnist" data.path="$mnist/train-images-idx3-ubyte.gz" \
        data.targets="$mnist/train-labels-idx1-ubyte.gz" data.eval_path="$mnist/t10k-images-idx3-ubyte.gz" \
        data.eval_targets="$mnist/t10k-labels-idx1-ubyte.gz" ${short[@]+"${short[@]}"}
    reached MNIST 0.99 eval_accuracy "$work/mnist" accuracy
}

cifar_jpeg() {
    local name="CIFAR JPEG" length=(train.epochs=20)
    wanted "$name" || return 0
    [ -d "$cifar/train" ] || { skip "$name" "there is no $cifar/train; set CLTRAIN_CIFAR_JPEG"; return 0; }
    $self_test && length=(train.steps=3 schedule.warmup=0 train.eval_batches=1)
    ours train "$configs/resnet18-cifar10-tiny.json" --out "$work/cifar" data.type=images data.path="$cifar/train" \
        data.eval_path="$cifar/test" data.size=32 "${length[@]}"
    reached "$name" 0.55 eval_accuracy "$work/cifar" accuracy
    bar "$name" "$name: seconds" "$wall_s" "<=" 900
}

segmented=false
unet3d() {
    local size=48,64,64 length=()
    $segmented && return 0
    $self_test && size=16,16,16 length=(train.steps=2 schedule.warmup=0 'data.patch=[16,16,16]')
    volumes masks ct --count 12 --size $size --gz
    ours train "$configs/unet3d-tiny.json" --out "$work/unet3d" data.path="$work/ct" ${length[@]+"${length[@]}"}
    segmented=true
    reached unet3d 0.90 eval_volume_dice "$work/unet3d" Dice
}

# large SIZE: evaluates two volumes of that size; records the peak, and sets $rss_mib to it.
large() {
    local name="unet3d $1" dice
    volumes masks "ct.$1" --count 2 --size "$1" --seed 7
    ours eval "$work/unet3d" data.eval_path="$work/ct.$1" --json "$work/eval.json"
    dice=$(json_number "$work/eval.json" volume_dice)
    printf '%s: Dice %s of 2 volumes, %.0f MiB at the peak, %.0f s\n' "$name" "$dice" "$rss_mib" "$wall_s"
    record "$name" cltrain Dice "$dice" ""
    record "$name" cltrain peak_rss_mib "$rss_mib" MiB
}
unet3d_large() {
    local name="unet3d 256x256x64" side=256 quarter=128 depth=64 small allowed
    wanted "$name" || return 0
    $self_test && side=32 quarter=16 depth=16
    unet3d
    large "$depth,$quarter,$quarter"
    small=$rss_mib
    large "$depth,$side,$side"
    # bytes per added voxel: image (i16) and mask (u8) of both volumes in the cache; in the planes of a
    # window (32), the sums of two classes
    allowed=$(calc "($side * $side - $quarter * $quarter) * (2 * 3 * $depth + 4 * 2 * 32) / 1048576 + 16")
    printf '%s: %.0f MiB more than for a quarter of the voxels, %.0f MiB allowed\n' "$name" "$(calc "$rss_mib - $small")" "$allowed"
    bar "$name" "$name: growth of the peak, MiB" "$(calc "$rss_mib - $small")" "<=" "$allowed"
    bar "$name" "$name: Dice" "$(json_number "$work/eval.json" volume_dice)" ">=" 0.90
}

cnn3d() {
    local length=()
    wanted "cnn3d small" || return 0
    $self_test && length=(train.steps=2 schedule.warmup=0 'data.volume=[16,16,16]')
    volumes classes kinds --count 80 --size 32,32,32
    ours train "$configs/cnn3d-tiny.json" --out "$work/cnn3d" data.path="$work/kinds" ${length[@]+"${length[@]}"}
    reached "cnn3d small" 0.92 eval_accuracy "$work/cnn3d" accuracy
}

# The process needs the bytes that estimate gives for the device and for checkpoints, the loader's slots for
# training and evaluation, the volumes in the cache, and about 300 MiB for the program, its kernels and the
# driver's compiler.
cnn3d_large() {
    local name="cnn3d 256x256x64" size=64,256,256 count=2 allowed voxels arguments
    wanted "$name" || return 0
    $self_test && size=64,64,64
    voxels=$((${size//,/*}))
    volumes classes "kinds.$size" --count $count --size $size
    arguments=("$configs/cnn3d-ct.json" data.path="$work/kinds.$size" data.split=0.5 "data.volume=[$size]" data.micro_batch=1
        data.global_batch=1 train.steps=4 train.eval_every=2 schedule.warmup=0)
    watched bytes "$CLTRAIN" estimate "${arguments[@]}" --json || { tail -n 5 "$work/err"; exit 1; }
    cp "$work/out" "$work/estimate.json"
    ours train "${arguments[@]}" --out "$work/cnn3d.large"
    local total checkpoint inputs device
    total=$(json_number "$work/estimate.json" total) checkpoint=$(json_number "$work/estimate.json" checkpoint_host)
    inputs=$(json_number "$work/estimate.json" inputs) device=$(json_line "$work/cnn3d.large/metrics.jsonl" device_bytes)
    allowed=$(calc "($total + $checkpoint + 2 * 4 * $inputs + 2 * 2 * $count * $voxels) / 1048576 + 300")
    printf '%s: %.0f MiB resident at the peak, %.0f MiB allowed; on the device %.1f MiB, estimated %.1f; %.1f s a step\n' "$name" "$rss_mib" \
        "$allowed" "$(calc "$device / 1048576")" "$(calc "$total / 1048576")" "$(calc "$(json_line "$work/cnn3d.large/metrics.jsonl" step_ms) / 1000")"
    record "$name" cltrain peak_rss_mib "$rss_mib" MiB
    record "$name" cltrain device_bytes "$device" B
    record "$name" cltrain estimate "$total" B
    bar "$name" "$name: resident, MiB" "$rss_mib" "<=" "$allowed"
    bar "$name" "$name: estimated over measured bytes of the device" "$(calc "$total / $device")" "<=" 1.05
    bar "$name" "$name: estimated over measured bytes of the device" "$(calc "$total / $device")" ">=" 0.95
}

mnist
cifar_jpeg
if wanted unet3d; then unet3d; fi
unet3d_large
cnn3d
cnn3d_large
finish
