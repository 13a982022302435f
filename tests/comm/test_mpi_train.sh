#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 11 ctest-optimise: no
#
# Training on several ranks of this host stays close to one rank with the same global batch: losses,
# evaluations and parameters. Settings that do not fit are refused before step 0, and a signal ends all
# ranks at the same step.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

# floats FILE: the numbers of a safetensors file, one a line.
floats() {
    local header
    header=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
    od -A n -v -t f4 -w4 -j $((8 + header)) "$1"
}
# expect_near WHAT LIMIT A B: compares two columns of numbers of equal length, relative to the larger of
# 1e-3 and the number.
expect_near() {
    local worst
    worst=$(paste "$3" "$4" | awk -v limit="$2" '
        NF != 2 { print "of different length"; bad = 1; exit }
        { d = $1 - $2; if (d < 0) d = -d; a = $1 < 0 ? -$1 : $1; if (a < 1e-3) a = 1e-3; if (d / a > worst) worst = d / a }
        END { if (!bad && (NR == 0 || worst > limit)) print NR " numbers, worst " worst }')
    if [ -z "$worst" ]; then pass; else fail "$1: $worst (limit $2)"; fi
}
# expect_close WHAT LIMIT A B: the same with absolute differences.
expect_close() {
    local worst
    worst=$(paste "$3" "$4" | awk -v limit="$2" '
        NF != 2 { print "of different length"; bad = 1; exit }
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
        END { if (!bad && (NR == 0 || worst > limit)) print NR " numbers, worst " worst }')
    if [ -z "$worst" ]; then pass; else fail "$1: $worst (limit $2)"; fi
}
# follows ONE MANY STEPS: the run MANY gives the results of the run ONE, up to rounding.
follows() {
    local key
    for key in loss grad_norm eval_loss; do
        values $key "$1/metrics.jsonl" >one && values $key "$2/metrics.jsonl" >many
        expect_near "$2: $key" 1e-6 one many
    done
    for key in step update lr eval_accuracy eval_samples; do
        expect_same <(values $key "$1/metrics.jsonl") <(values $key "$2/metrics.jsonl")
    done
    floats "$1/checkpoints/step_$3/model.safetensors" >one && floats "$2/checkpoints/step_$3/model.safetensors" >many
    expect_close "$2: parameters" 1e-6 one many
}

# Dropout and ignored targets, unevenly distributed: the mean is over all counted targets of all ranks.
cat >graph.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "linear", "name": "stem", "out": 32}, {"op": "layernorm"}, {"op": "relu"}, {"op": "dropout", "p": 0.2},
   {"op": "linear", "out": 5}, {"op": "cross_entropy", "ignore_index": 2}]},
 "data": {"type": "synthetic", "samples": 500, "shape": [12], "classes": 5, "noise": 1.0, "micro_batch": 4, "global_batch": 32},
 "optimizer": {"type": "sgd", "momentum": 0.9, "learning_rate": 0.05, "clip": 0.7}, "train": {"steps": 30, "eval_every": 10}}
JSON
expect_code 0 "$CLTRAIN" train graph.json --out one1
units=$(sed -n 's/^device .*, \([0-9]*\) compute units\{0,1\}.*/\1/p' "$out")
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train graph.json --out two
expect_text '^batch +32 samples a step, 4 times 4 on each of 2 ranks' '^ranks +2 over ' '^done: 30 steps'
if [ "$(grep -c '^step 30/30' "$out")" -eq 1 ]; then pass; else fail 'rank 0 alone should print'; fi
if grep -q 'PoCL\|Portable Computing' "$out"; then
    got=$(sed -n 's/^device .*, \([0-9]*\) compute units\{0,1\}.*/\1/p' "$out")
    half=$((units / 2 > 0 ? units / 2 : 1))
    if [ "$got" = "$half" ]; then pass; else fail "each of 2 ranks should have $half of $units CPU cores, not $got"; fi
else
    note_skip 'the division of a CPU device is only known for PoCL'
fi
follows one1 two 30
# The sizes of gradient buckets change no bit, also of the norm (every step is clipped, and partial sums of
# the norm have several chunks): one bucket, and one for every 64 KiB. It changes no bit either whether
# gradients are summed in place or through copies, as with devices that have their own memory.
net mlp 'model.hidden=[310, 290]' 'data.shape=[12]' data.noise=1.0 data.micro_batch=4 data.global_batch=32 optimizer.type=sgd optimizer.momentum=0.9 \
    optimizer.learning_rate=0.05 optimizer.clip=0.01 train.steps=8 >wide.json
for style in group lane; do
    expect_code 0 "${mpi[@]}" 2 env CLTRAIN_UPDATE=$style "$CLTRAIN" train wide.json --out "wide_$style"
    expect_code 0 "${mpi[@]}" 2 env CLTRAIN_UPDATE=$style "$CLTRAIN" train wide.json parallel.bucket_mb=0.07 \
        parallel.first_bucket_mb=0.004 "parallel.shared_memory=$([ $style = group ] && echo true || echo false)" --out "cut_$style"
    expect_same "wide_$style/checkpoints/step_8/model.safetensors" "cut_$style/checkpoints/step_8/model.safetensors"
    values grad_norm "wide_$style/metrics.jsonl" >whole && values grad_norm "cut_$style/metrics.jsonl" >pieces
    expect_same whole pieces
done
if all_cases; then
    expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train graph.json --out four
    expect_text '^batch +32 samples a step, 2 times 4 on each of 4 ranks'
    follows one1 four 30
fi

# Three ranks share eight micro-batches as 3, 3 and 2.
expect_code 0 "${mpi[@]}" 3 "$CLTRAIN" train graph.json --out three
expect_text '^batch +32 samples a step, 3 or 2 times 4 on each of 3 ranks'
follows one1 three 30

# Text, the embedding's gradient; numbers of samples per epoch and of evaluation samples that are not multiples of the batch; the
# default folder.
awk 'BEGIN { for (i = 0; i < 101; i++) printf "%d bottles of %s on the wall;", i % 17, i % 3 ? "beer" : "milk" }' >text.txt
cat >text.json <<'JSON'
{"model": {"type": "mlp", "embedding": 8, "hidden": [32], "dropout": 0.1, "outputs": 256},
 "data": {"type": "text", "path": ["text.txt"], "window": 5, "split": 0.15, "micro_batch": 16, "global_batch": 32},
 "optimizer": {"type": "sgd", "learning_rate": 0.3}, "train": {"steps": 25}}
JSON
expect_code 0 "$CLTRAIN" train text.json --out text1
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train text.json
expect_text 'run folder: runs/text$'
follows text1 runs/text 25

# Evaluation alone, on two ranks.
expect_code 0 "$CLTRAIN" eval graph.json --checkpoint one1 --json one.eval
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" eval graph.json --checkpoint one1 --json two.eval
for key in loss accuracy samples targets; do
    values "$key" one.eval | head -n 1 >one && values "$key" two.eval | head -n 1 >many
    expect_near "eval: $key" 1e-6 one many
done

# --- settings that do not fit: refused before step 0, reported once, nothing written ---
expect_code 2 "${mpi[@]}" 3 "$CLTRAIN" train graph.json data.micro_batch=16 --out never
expect_text 'data.global_batch 32 has 2 micro-batches \(data.micro_batch 16\), too few for 3 ranks'
expect_absent never
expect_code 2 "${mpi[@]}" 1 "$CLTRAIN" train graph.json --out never : \
    -np 1 "$CLTRAIN" train graph.json optimizer.learning_rate=0.06 --out never
expect_text 'ranks do not fit: the configuration of rank 1 .*"optimizer": "learning_rate": 0.06 instead of "learning_rate": 0.05'
expect_absent never
cp "$CLTRAIN" another && echo >>another
expect_code 2 "${mpi[@]}" 1 "$CLTRAIN" train graph.json --out never : -np 1 ./another train graph.json --out never
expect_text 'ranks do not fit: rank 1 on .* runs a different build of cltrain than rank 0 .*different builds'
mkdir here there && cp text.json text.txt here && cp text.json there && sed 's/beer/wine/' text.txt >there/text.txt
expect_code 2 "${mpi[@]}" 1 --wdir here "$CLTRAIN" train text.json --out "$work/never" : \
    -np 1 --wdir there "$CLTRAIN" train text.json --out "$work/never"
expect_text 'ranks do not fit: rank 1 on .* reads other data than rank 0 .*: the content of the training data differs'
expect_absent never
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train graph.json train.stps=3 --out never
expect_text "\[rank 0 .*\] cltrain: configuration error.*did you mean 'train.steps'"
expect_absent never
expect_code 4 "${mpi[@]}" 1 "$CLTRAIN" train graph.json --out never : \
    -np 1 env OCL_ICD_VENDORS=/nonexistent "$CLTRAIN" train graph.json --out never
expect_text '\[rank 1 .*\] cltrain: no device or driver'
expect_absent never

# --- SIGUSR2 to mpirun reaches every rank, a signal to one rank or a file STOP reaches the others with
# their sums; all of them finish the same step ---
for how in 0 one file $(all_cases && echo 3); do # 3: with evaluations in between
    run=stop$how every=0
    [ "$how" != 3 ] || every=3
    "${mpi[@]}" 2 "$CLTRAIN" train graph.json train.steps=1000000 train.eval_every=$every train.eval_batches=2 --out $run >stop.out 2>&1 &
    launcher=$!
    await_from $launcher has_updates $run
    case $how in
    one) kill -TERM "$(pgrep -P $launcher | tail -n 1)" ;;
    file) touch $run/STOP ;;
    *) kill -USR2 $launcher ;;
    esac
    ended 75 stop.out
    last=$(tail -n 1 $run/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')
    expect_text "stopped after step $last of 1000000; saved in $run/checkpoints/step_$last"
    expect_file "$run/checkpoints/step_$last/model.safetensors"
    expect_absent $run/lock
done
# Up to the stop the run computed the same as one rank.
steps=$(grep -c '"loss"' stop0/metrics.jsonl)
steps=$((steps < 30 ? steps : 30))
expect_near 'stop0: loss' 1e-6 <(values loss one1/metrics.jsonl | head -n $steps) <(values loss stop0/metrics.jsonl | head -n $steps)
finish
