#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 40 ctest-optimise: no
#
# parallel.shard=optimizer: ranks that each keep a share of the optimizer's state compute the same bits as ranks that each keep all of
# it, with every optimizer; they hold less memory; their checkpoints are whole and resume on any number of ranks.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
all_cases || export CLTRAIN_GEMM=simple

write_gpt 2 45 1 8 '"parallel": {"first_bucket_mb": 0.13, "bucket_mb": 0.2},'
# state_of RANKS OPTION...: the largest number of bytes of optimizer state that a rank keeps.
state_of() {
    "$CLTRAIN" estimate "$CLTRAIN_SOURCE_DIR/configs/gpt2-124m.json" data.global_batch=96 --json --ranks "$1" "${@:2}" |
        sed -n -E 's/.*"optimizer": ?([0-9]+).*/\1/p' | head -n 1
}

# equal RUN_A RUN_B: the bits of parameters and optimizer state, and the losses.
equal() {
    for step in 4 8; do
        expect_same "$1/checkpoints/step_$step/model.safetensors" "$2/checkpoints/step_$step/model.safetensors"
        expect_same "$1/checkpoints/step_$step/optimizer.safetensors" "$2/checkpoints/step_$step/optimizer.safetensors"
    done
    values loss "$1/metrics.jsonl" >a
    values loss "$2/metrics.jsonl" >b
    expect_same a b
}

# same_bits NAME RANKS OPTION...
same_bits() {
    local train=("${mpi[@]}" "$2" "$CLTRAIN" train gpt.json "${@:3}")
    expect_code 0 "${train[@]}" --out "$1.whole"
    expect_code 0 "${train[@]}" parallel.shard=optimizer --out "$1.shared"
    equal "$1.whole" "$1.shared"
}

# A rank's share of each gradient bucket is a whole number of grains of 64 KiB.
whole=$(state_of 1)
for ranks in 2 3 4 8; do
    part=$(state_of $ranks parallel.shard=optimizer)
    if [ "${part:-0}" -gt 0 ] && [ "$part" -le $((whole / ranks + whole / 100)) ]; then pass; else
        fail "$part bytes of state on each of $ranks ranks, all of it: $whole"
    fi
done

# histograms RUN: the histograms of gradients and parameters in TensorBoard's file, without the times of
# writing
histograms() {
    od -An -v -tu1 -w1 "$1"/*tfevents* | awk '{ b[n++] = $1 } END {
        for (i = 0; i < n; i += 16 + length_) {
            length_ = b[i] + 256 * b[i + 1] + 65536 * b[i + 2]
            line = ""
            for (k = i + 21; k < i + 12 + length_; k++) line = line " " b[k]
            if (line ~ / 103 114 97 100 105 101 110 116 115 47/ || line ~ / 112 97 114 97 109 101 116 101 114 115 47/) print line # gradients/ parameters/
        }
    }'
}

same_bits adamw 2 optimizer.type=adamw optimizer.clip=1 log.tensorboard=true log.histograms=4
expect_code 1 grep 'learn nothing' adamw.whole/log.txt adamw.shared/log.txt
# weights that start and stay at zero: each rank knows only some of the gradients, and the warning is about
# all of them
dead='model.layers=[{"op": "linear", "out": 16, "init": "zeros", "name": "fc1"}, {"op": "relu"}, {"op": "linear", "out": 5, "init": "zeros", "name": "fc2"}, {"op": "cross_entropy", "inputs": ["fc2", "y"]}]'
net graph "$dead" train.steps=4 >dead.json
for shard in none optimizer; do
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train dead.json parallel.shard=$shard --out dead.$shard
    expect_text 'after 3 steps the gradients of 3 of the 4 trained parameters are zero .*: fc1.weight, fc1.bias, fc2.weight; the loss'
done
histograms adamw.whole >a
histograms adamw.shared >b
expect_same a b
if [ "$(wc -l <a)" -gt 100 ]; then pass; else fail "$(wc -l <a) histograms"; fi
same_bits muon 3 optimizer.type=muon precision.mode=bf16 optimizer.ema=0.8 optimizer.learning_rate=0.01 parallel.shared_memory=false
if all_cases; then
    same_bits adam 4 optimizer.type=adam precision.mode=f16 precision.loss_scale=1024
    same_bits sgd 3 optimizer.type=sgd optimizer.momentum=0.9 optimizer.learning_rate=0.1
    same_bits lion 2 optimizer.type=lion optimizer.learning_rate=0.001
    same_bits lamb 2 optimizer.type=lamb optimizer.learning_rate=0.01
    same_bits lars 3 optimizer.type=lars optimizer.learning_rate=1 optimizer.momentum=0.9
    same_bits bf16 2 optimizer.type=adamw parallel.gradients=bf16 precision.mode=bf16
    same_bits frozen 2 optimizer.type=adamw 'model.freeze=["wte.weight"]'
    # steps that overflow change nothing on any rank
    same_bits overflow 4 optimizer.type=lamb optimizer.learning_rate=0.01 precision.mode=f16 precision.loss_scale=1e9
    if [ "$(values skipped overflow.shared/metrics.jsonl | tail -n 1)" -gt 0 ]; then pass; else fail 'no step overflowed'; fi
    same_bits none 5 optimizer.type=muon optimizer.learning_rate=0.01 model.channels=3
    # with averaged buffers, and so few parameters that the last ranks have no share
    cp gpt.json text.json
    cat >gpt.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 9}, {"op": "batch_norm"}, {"op": "linear", "out": 5}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "samples": 500, "shape": [40], "classes": 5, "noise": 1.0, "micro_batch": 2, "global_batch": 24},
 "train": {"steps": 8, "eval_every": 4}, "checkpoint": {"every": 4}}
JSON
    same_bits small 5 optimizer.type=lamb optimizer.learning_rate=0.01 optimizer.clip=1
    # windows that are transformed once in a step of three micro-batches, after the wait for gathered
    # weights; evaluations between steps use the averages' windows. A run that recomputes keeps none.
    cat >gpt.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "conv2d", "out": 32, "kernel": 1}, {"op": "relu"}, {"op": "conv2d", "out": 32, "kernel": 3,
  "padding": 1}, {"op": "relu"}, {"op": "conv2d", "out": 64, "kernel": 3}, {"op": "flatten"}, {"op": "linear", "out": 5}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "samples": 500, "shape": [3, 12, 12], "classes": 5, "noise": 1.0, "micro_batch": 2, "global_batch": 12},
 "parallel": {"first_bucket_mb": 0.13, "bucket_mb": 0.1}, "train": {"steps": 8, "eval_every": 2}, "checkpoint": {"every": 4}}
JSON
    expect_code 0 "$CLTRAIN" plan gpt.json data.global_batch=6 --device cpu --full
    expect_text "kept until the parameter changes"
    same_bits windows 2 optimizer.type=sgd optimizer.momentum=0.9 optimizer.learning_rate=0.1 optimizer.ema=0.7
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train gpt.json optimizer.type=sgd optimizer.momentum=0.9 optimizer.learning_rate=0.1 \
        optimizer.ema=0.7 parallel.shard=optimizer train.recompute=block --out transient
    equal windows.shared transient
    for run in whole shared; do values eval_loss "windows.$run/metrics.jsonl" >"$run"; done
    expect_same whole shared
    mv text.json gpt.json
fi

# One or three ranks resume from the whole state: they continue as from a checkpoint of ranks that each kept
# all of it.
for kind in whole shared; do
    mkdir -p "down.$kind/checkpoints"
    cp "adamw.$kind/config.resolved.json" "adamw.$kind/metrics.jsonl" "down.$kind/"
    cp -r "adamw.$kind/checkpoints/step_4" "down.$kind/checkpoints/"
    cp -r "down.$kind" "up.$kind"
done
go_on=("$CLTRAIN" train gpt.json optimizer.type=adamw optimizer.clip=1 --resume auto)
expect_code 0 "${go_on[@]}" --out down.whole
expect_code 0 "${go_on[@]}" parallel.shard=optimizer --out down.shared
equal down.whole down.shared
expect_code 0 "${mpi[@]}" 3 "${go_on[@]}" --out up.whole
expect_code 0 "${mpi[@]}" 3 "${go_on[@]}" parallel.shard=optimizer --out up.shared
equal up.whole up.shared

# 4, 2 and 1 ranks that share one run, in which results do not depend on their number; the last one sets no sharding.
if all_cases; then
    one_run() {
        expect_code 0 "${mpi[@]}" "$1" "$CLTRAIN" train gpt.json data.global_batch=8 optimizer.type=lamb parallel.rank_invariant=true \
            "${@:2}"
    }
    one_run 1 --out stays
    one_run 4 --out moves --max-steps 3 parallel.shard=optimizer
    one_run 2 --out moves --max-steps 6 parallel.shard=optimizer --resume auto
    one_run 1 --out moves --resume auto
    expect_same stays/checkpoints/step_8/model.safetensors moves/checkpoints/step_8/model.safetensors
    expect_same stays/checkpoints/step_8/optimizer.safetensors moves/checkpoints/step_8/optimizer.safetensors
fi
finish
