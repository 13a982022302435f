#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 25
# ctest-optimise: no
#
# parallel.sync_batch_norm: N ranks with one N-th of a micro-batch each compute what one rank computes with all of it, also with several
# micro-batches, with ranks that have one fewer, with recomputation and in 16 bits; without the key they do not. A late rank ends the run.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

# Convolutions with norms, one of which includes a residual sum. The rows of rows.csv are far apart, so that
# the statistics of parts of a batch differ from those of the whole.
cat >net.json <<'JSON'
{"model": {"type": "graph", "layers": [
   {"op": "reshape", "name": "image", "shape": [2, 4, 4]},
   {"op": "conv2d", "name": "conv1", "out": 6, "kernel": 3, "padding": 1, "bias": false}, {"op": "batch_norm", "name": "bn1"}, {"op": "relu", "name": "relu1"},
   {"op": "conv2d", "name": "conv2", "out": 6, "kernel": 3, "padding": 1, "bias": false}, {"op": "batch_norm", "name": "bn2"},
   {"op": "add", "name": "sum", "inputs": ["bn2", "relu1"]}, {"op": "relu", "name": "relu2"},
   {"op": "conv2d", "name": "conv3", "out": 7, "kernel": 3, "stride": 2, "padding": 1, "bias": false}, {"op": "batch_norm", "name": "bn3"}, {"op": "relu", "name": "relu3"},
   {"op": "flatten", "name": "flat"}, {"op": "linear", "name": "out", "out": 3}, {"op": "cross_entropy"}]},
 "data": {"type": "csv", "path": "rows.csv", "target": "y", "shuffle": false, "micro_batch": 12, "global_batch": 12, "workers": 1,
          "eval_path": "rows.csv"},
 "optimizer": {"type": "sgd", "momentum": 0.9, "learning_rate": 0.05}, "train": {"steps": 8, "eval_every": 8}, "checkpoint": {"every": 8}}
JSON
# rows ORDER...: 8 batches whose rows have these numbers; equal numbers in a batch are equal rows.
rows() {
    awk 'BEGIN {
        for (f = 0; f < 32; f++) printf "f%d,", f
        print "y"
        for (batch = 0; batch < 8; batch++)
            for (k = 1; k < ARGC; k++) {
                s = (batch * 131 + ARGV[k] * 17 + 5) * 7919 % 2147483648
                shift = (ARGV[k] * 5 + batch) % 7 - 3
                for (f = 0; f < 32; f++) { s = (s * 1103515245 + 12345) % 2147483648; printf "%.4f,", shift + (s / 2147483648 - 0.5) * (1 + ARGV[k] % 4) }
                print (ARGV[k] + batch) % 3
            }
    }' "$@"
}
# numbers FILE PATTERN: the values of the tensors of a safetensors file whose names match, one a line, in the order of their names.
numbers() {
    local file=$1 length name from to
    length=$(od -An -tu8 -N8 "$file" | tr -d ' ')
    tail -c +9 "$file" | head -c "$length" | grep -oE '"[a-z0-9_.]+":\{[^}]*\}' | grep -E "^\"($2)\"" |
        sed -E 's/^"([^"]*)".*"data_offsets":\[([0-9]+),([0-9]+)\].*/\1 \2 \3/' | sort | while read -r name from to; do
        tail -c +$((9 + length + from)) "$file" | head -c $((to - from)) | od -An -v -tf4 -w4
    done
}
tensors() { numbers "$1/checkpoints/step_8/model.safetensors" "$2"; } # RUN PATTERN
# apart RUN_A RUN_B PATTERN: the largest difference of the losses of the steps, and of the tensors that match.
apart() {
    paste <(values loss "$1/metrics.jsonl"; tensors "$1" "$3") <(values loss "$2/metrics.jsonl"; tensors "$2" "$3") |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { if (NR < 50 || NF != 2) print "no values"; else printf "%.9f\n", worst }'
}
all='.*\.(weight|bias|running_mean|running_var)'
# close RUN_A RUN_B [LIMIT [PATTERN]]
close() {
    local found
    found=$(apart "$1" "$2" "${4:-$all}")
    if awk -v d="$found" -v l="${3:-2e-5}" 'BEGIN { exit !(d != "no values" && d <= l) }'; then pass; else fail "$1 and $2: $found"; fi
}
sync() { # RANKS RUN OPTION...
    expect_code 0 "${mpi[@]}" "$1" "$CLTRAIN" train net.json parallel.sync_batch_norm=true "${@:3}" --out "$2"
}

# --- equal parts ---
rows 0 1 2 3 4 5 6 7 8 9 10 11 >rows.csv
expect_code 0 "$CLTRAIN" train net.json --out one
for n in 2 $(if all_cases; then echo 3 4; fi); do
    sync $n sync$n data.micro_batch=$((12 / n))
    close one sync$n
    # each rank evaluates a part with its own running statistics: all ranks have the saved ones
    expect_code 0 "$CLTRAIN" eval sync$n
    expect_text "loss $(printf '%.4f' "$(values eval_loss sync$n/metrics.jsonl | tail -n 1)")"
done
# Without the key each rank normalises by its own micro-batch.
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json data.micro_batch=6 --out plain
found=$(apart one plain "$all")
if awk -v d="$found" 'BEGIN { exit !(d > 1e-2) }'; then pass; else fail "not synchronised, and yet only $found from one rank"; fi
# The same run again gives the same bits; so do recomputed norms, whose statistics are kept, and gradients in small buckets.
again() { # NAME OPTION...
    sync 2 "$1" data.micro_batch=6 "${@:2}"
    expect_same sync2/checkpoints/step_8/model.safetensors "$1/checkpoints/step_8/model.safetensors"
}
again block train.recompute=block
if all_cases; then
    again same
    again cheap train.recompute=gelu
    again shard parallel.shard=optimizer
    again buckets parallel.bucket_mb=0.001 parallel.first_bucket_mb=0.001 parallel.shared_memory=false
fi
# A single rank has no other to exchange with: the same bits with the key and without.
expect_code 0 "$CLTRAIN" train net.json parallel.sync_batch_norm=true --out alone
expect_same one/checkpoints/step_8/model.safetensors alone/checkpoints/step_8/model.safetensors
expect_code 0 "$CLTRAIN" plan net.json parallel.sync_batch_norm=true --full
reject_text 'records of all ranks'
# Resuming with another number of ranks changes the number of samples in the statistics. A warning says so,
# unless the micro-batch makes up for it.
sync 2 fewer data.micro_batch=6 --max-steps 4
expect_code 0 "$CLTRAIN" train --resume fewer data.micro_batch=12 --dry-run
reject_text 'batch_norm takes its statistics'
expect_code 0 "$CLTRAIN" train --resume fewer
expect_text '^warning: batch_norm takes its statistics over 6 samples, before over 12 .*: training continues, but with other results'

# --- PyTorch: torch.nn.SyncBatchNorm takes no tensors of a CPU, so the golden file is of one process with the whole batch, which is the
# same mathematics (make_joined of tests/golden/make_golden.py) ---
golden=$CLTRAIN_SOURCE_DIR/tests/golden/data
cat >golden.json <<JSON
{"model": {"type": "graph", "layers": [
   {"op": "linear", "name": "fc1", "out": 29, "bias": false}, {"op": "batch_norm", "name": "norm1"}, {"op": "tanh"},
   {"op": "linear", "name": "fc2", "out": 17, "bias": false},
   {"op": "batch_norm", "name": "norm2", "affine": false, "momentum": 0.4, "eps": 0.01}, {"op": "tanh"},
   {"op": "linear", "name": "out", "out": 7}, {"op": "cross_entropy", "ignore_index": -1, "label_smoothing": 0.05}]},
 "data": {"type": "npy", "path": "$golden/batch_norm_x.npy", "targets": "$golden/batch_norm_y.npy", "shuffle": false, "global_batch": 15, "workers": 1},
 "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "nesterov": true, "weight_decay": 0.01, "decay": "all"},
 "train": {"steps": 10}}
JSON
numbers "$golden/batch_norm_joined_sgd.safetensors" 'param\..*' >want
for n in 1 3 $(if all_cases; then echo 5; fi); do
    expect_code 0 "${mpi[@]}" $n "$CLTRAIN" train golden.json parallel.sync_batch_norm=true data.micro_batch=$((15 / n)) \
        --init "$golden/batch_norm_init.safetensors" --out golden$n
    numbers golden$n/checkpoints/step_10/model.safetensors "$all" >got
    found=$(paste want got | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d } END { if (NR < 1000 || NF != 2) print "no values"; else printf "%.9f\n", worst }')
    if awk -v d="$found" 'BEGIN { exit !(d != "no values" && d <= 2e-5) }'; then pass; else fail "$n ranks and PyTorch: $found"; fi
    echo "$n ranks: $found from PyTorch"
done

# --- 16 bits: the distance from one rank is what rounding explains ---
for mode in $(if all_cases; then echo f16 bf16; fi); do
    expect_code 0 "$CLTRAIN" train net.json precision.mode=$mode --out one.$mode
    sync 2 sync.$mode precision.mode=$mode data.micro_batch=6
    close one.$mode sync.$mode 0.02 '.*\.(running_mean|running_var|bias)'
done

# --- several micro-batches: rank 0 computes the first and the second, rank 1 the third and the fourth; the first and the third are
# normalised together, as one rank does with the rows in that order ---
if all_cases; then
    rows 0 1 2 3 4 5 12 13 14 15 16 17 6 7 8 9 10 11 18 19 20 21 22 23 >rows.csv
    expect_code 0 "$CLTRAIN" train net.json data.global_batch=24 --out several1
    rows 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 >rows.csv
    sync 2 several2 data.global_batch=24 data.micro_batch=6
    close several1 several2
fi

# --- ranks with one micro-batch fewer take part in the first one without samples. The first micro-batch has
# the rows 0 to 3, and the second one, on all ranks together, has each of them several times, so mean and
# variance are those of the whole batch. Statistics are updated twice. ---
uneven() { # RANKS ROW...
    rows "${@:2}" >rows.csv
    sed -E 's/("op": "batch_norm")/\1, "momentum": 0.19/' net.json >twice.json
    expect_code 0 "$CLTRAIN" train twice.json data.micro_batch=$(($# - 1)) data.global_batch=$(($# - 1)) --out whole.$1
    sync "$1" uneven.$1 data.micro_batch=4 data.global_batch=$(($# - 1))
    close whole.$1 uneven.$1 2e-5 '.*\.(weight|bias|running_mean)'
    # rank 0 saves; the others evaluate their parts with their own running statistics
    expect_code 0 "$CLTRAIN" eval uneven.$1
    expect_text "loss $(printf '%.4f' "$(values eval_loss "uneven.$1/metrics.jsonl" | tail -n 1)")"
}
uneven 2 0 1 2 3 0 0 1 1 2 2 3 3
# With divided optimizer state, the parameters of the last step are still being gathered when a rank without
# samples gives its first record.
sync 2 uneven.shard data.micro_batch=4 data.global_batch=12 parallel.shard=optimizer parallel.bucket_mb=0.001 parallel.first_bucket_mb=0.001 parallel.deadline=$((100 * patience))
sync 2 uneven.plain data.micro_batch=4 data.global_batch=12
expect_same uneven.shard/checkpoints/step_8/model.safetensors uneven.plain/checkpoints/step_8/model.safetensors
if all_cases; then
    uneven 3 0 1 2 3 0 0 0 1 1 1 2 2 2 3 3 3
    # two of three ranks have two micro-batches: the first round has two of them, the second three
    rows 0 0 1 1 0 0 1 1 2 2 3 3 2 2 3 3 0 1 2 3 >rows.csv
    sync 3 two.of.three data.micro_batch=4 data.global_batch=20
    sync 3 two.of.three.block data.micro_batch=4 data.global_batch=20 train.recompute=block
    expect_same two.of.three/checkpoints/step_8/model.safetensors two.of.three.block/checkpoints/step_8/model.safetensors
fi

# --- one value per channel on each rank: together with the others it has a variance, alone it has none ---
cat >narrow.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 8}, {"op": "batch_norm"}, {"op": "relu"}, {"op": "linear", "out": 3}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "samples": 60, "shape": [6], "classes": 3, "micro_batch": 1, "global_batch": 2}, "train": {"steps": 4}}
JSON
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train narrow.json parallel.sync_batch_norm=true --out narrow
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train narrow.json --out never
expect_text 'a micro-batch of one sample has no variance to train with'
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train narrow.json parallel.sync_batch_norm=true data.global_batch=3 --out never
expect_text 'a data.global_batch so large that at least two ranks always have a micro-batch'

# --- nothing to synchronise: a warning, once ---
sed 's/{"op": "batch_norm"}, //' narrow.json >bare.json
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train bare.json parallel.sync_batch_norm=true --out bare
expect_text 'parallel.sync_batch_norm=true changes nothing: the model has no batch_norm'
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train bare.json --out bare2
reject_text 'changes nothing'

# --- refused ---
expect_code 2 "$CLTRAIN" train net.json parallel.sync_batch_norm=true parallel.rank_invariant=true --out never
expect_text 'parallel.sync_batch_norm.*depend on the number of ranks.*parallel.rank_invariant'
expect_absent never

# --- a rank that stops ends the run, as in any other collective ---
"${mpi[@]}" 2 "$CLTRAIN" train narrow.json parallel.sync_batch_norm=true parallel.deadline=$((5 * patience)) train.steps=1000000 \
    --out stopped >"$out" 2>&1 &
launcher=$!
await_from $launcher has_updates stopped 11
for process in $(pgrep -P $launcher); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -qx OMPI_COMM_WORLD_RANK=1; then kill -STOP "$process"; fi
done
ended 9
expect_text 'cltrain: communication error.*no answer from rank 1'
finish
