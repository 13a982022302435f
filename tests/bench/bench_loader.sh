#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of loading per step: small residual networks train on JPEG images of 500 x 375, in turns with the
# same step on random samples in memory (bench step). The bar: the step takes no longer than computing
# alone, plus the processor time of its decoding divided by the cores, plus 5 %. The processor time is that
# of the loader threads in the training itself. Then the same images on storage whose opens take 10 ms:
# eight threads must halve the time for which a step waits with four. Options and environment: benchlib.sh.
# Needs a build folder with its tests (BENCH_BUILD, default: build). BENCH_WORKERS: data.workers of the
# first part (default: auto).
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"
tests=${BENCH_BUILD:-$root/build}/tests
for file in make_images slow_open_shim.so; do
    [ -f "$tests/$file" ] || { echo "bench_loader.sh: there is no $tests/$file; build the tests, and set BENCH_BUILD" >&2; exit 2; }
done
cores=$(nproc)

images=64 steps=60
$quick && steps=30
$self_test && images=4 steps=12
"$tests/make_images" "$work/set" --classes 4 --count "$images" || exit 1

# net NAME WIDTH BATCH SIZE: its config in $work/NAME.json
net() {
    cat >"$work/$1.json" <<JSON
{"model": {"type": "resnet", "depth": 18, "width": $2, "classes": 4}, "optimizer": {"type": "sgd", "learning_rate": 0.01},
 "data": {"type": "images", "path": "$work/set", "size": $4, "flip": 0.5, "micro_batch": $3, "scale": 0.00392156862745098,
          "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}, "train": {"steps": $steps, "log_every": 1}}
JSON
}

# loader_ticks PROCESS: processor time of the process's loader threads so far, in ticks of 10 ms
loader_ticks() {
    local task ticks=0 line
    for task in /proc/"$1"/task/*; do
        read -r line 2>/dev/null <"$task/stat" || continue
        case $line in
        *'(clt-loader)'*)
            # shellcheck disable=SC2086 # fields behind the name: state is the first, utime and stime the 12th and 13th
            set -- "$1" ${line##*) }
            ticks=$((ticks + ${13} + ${14}))
            ;;
        esac
    done
    echo "$ticks"
}
# middle_of KEY RUN: the median of KEY in the second half of the steps
middle_of() { sed -n -E "/\"event\"/d; s/.*\"$1\": *(-?[0-9.]+([eE][-+]?[0-9]+)?).*/\1/p" "$2/metrics.jsonl" | tail -n $((steps / 2)) | median; }

# trained NAME: a training on the images; samples of its step time and of its decoding time per step.
trained() {
    local name=$1 run=$work/run.$1 process ticks=0 now
    rm -rf "$run"
    # shellcheck disable=SC2086
    ${BENCH_GATE:-} "$CLTRAIN" train "$work/$name.json" --out "$run" ${BENCH_WORKERS:+data.workers=$BENCH_WORKERS} >"$work/out" 2>"$work/err" &
    process=$!
    while [ -d /proc/$process ]; do
        now=$(loader_ticks $process)
        [ "$now" -ge "$ticks" ] && ticks=$now
        sleep 0.02
    done
    wait $process || { echo "FAIL: cltrain train $name"; tail -n 5 "$work/err" "$work/out"; exit 1; }
    sample "$name" JPEG step_ms "$(middle_of step_ms "$run")"
    sample "$name" JPEG decode_cpu_ms "$(calc "$ticks * 10 / $steps")"
}

# compare "NAME" WIDTH BATCH SIZE
compare() {
    local name=$1 round step alone cpu allowed
    wanted "$name" || return 0
    net "$name" "$2" "$3" "$4"
    ours train "$work/$name.json" --out "$work/first.$name" train.steps=4 # kernels are built, files are in memory
    for ((round = 0; round < rounds; round++)); do
        our_step "$name" "$work/$name.json" --warmup 3 --steps $((steps / 2))
        trained "$name"
    done
    step=$(middle "$name" JPEG step_ms) cpu=$(middle "$name" JPEG decode_cpu_ms) alone=$(middle "$name" cltrain step_ms)
    allowed=$(calc "$alone + $cpu / $cores")
    printf '%s: step %.1f ms with JPEG, %.1f ms without; decoding %.1f ms of processor time, %d cores: %.1f ms allowed\n' "$name" "$step" \
        "$alone" "$cpu" "$cores" "$allowed"
    record "$name" JPEG step_ms "$step" ms
    record "$name" cltrain step_ms "$alone" ms "random samples in memory"
    record "$name" JPEG decode_cpu_ms "$cpu" ms "processor time per step"
    bar "$name" "$name: step over computing and decoding" "$(calc "$step / $allowed")" "<=" 1.05
}
compare "little decoding" 16 16 224
compare "much decoding" 8 16 64 # more than computing: one loader thread would not be enough

slow_opens() {
    local name="opens of 10 ms" workers ms
    wanted "$name" || return 0
    net slow 4 32 32
    for workers in 4 8; do
        env LD_PRELOAD="$tests/slow_open_shim.so" CLT_SLOW_OPEN_FOLDER="$work/set/" CLT_SLOW_OPEN_MS=10 "$CLTRAIN" train \
            "$work/slow.json" data.workers=$workers train.steps=$((steps / 2)) --out "$work/slow.$workers" >"$work/out" 2>&1 ||
            { echo "FAIL: cltrain train with slow opens"; tail -n 5 "$work/out"; exit 1; }
        ms=$(sed -n -E 's/.*"data_ms": *([0-9.]+).*/\1/p' "$work/slow.$workers/metrics.jsonl" | tail -n $((steps / 3)) | median)
        sample "$name" "$workers threads" data_ms "$ms"
        record "$name" "$workers threads" data_ms "$ms" ms
    done
    printf '%s: a step waits %.1f ms with 4 threads, %.1f ms with 8\n' "$name" "$(middle "$name" "4 threads" data_ms)" \
        "$(middle "$name" "8 threads" data_ms)"
    bar "$name" "$name: wait with 8 threads over that with 4" \
        "$(calc "$(middle "$name" "8 threads" data_ms) / $(middle "$name" "4 threads" data_ms)")" "<=" 0.5
}
slow_opens
finish
