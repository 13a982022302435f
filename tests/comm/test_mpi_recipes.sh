#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# Recipes with several ranks: learning rates scale with the global batch, counts of classes add up to those
# of one rank, all ranks end early at the same step, and data.micro_batch auto is the smallest that fits on
# any rank.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

# 250 samples are 16 micro-batches, the last of which is padded.
net graph 'model.layers=[{"op": "linear", "out": 16}, {"op": "relu"}, {"op": "linear", "out": 8}, {"op": "cross_entropy"}]' data.classes=8 \
    data.samples=250 data.micro_batch=16 data.global_batch=64 data.noise=1.5 data.workers=1 optimizer.type=sgd optimizer.learning_rate=0.1 \
    optimizer.base_batch=32 train.steps=200 train.eval_every=4 train.eval_metrics=true train.early_stop_evals=2 checkpoint.best=f1 \
    parallel.rank_invariant=true >net.json
expect_code 0 "$CLTRAIN" train net.json --out one
expect_text 'learning rate 0.1 x 64/32 = 0.2' 'early end after step'
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out two
expect_text 'learning rate 0.1 x 64/32 = 0.2' 'early end after step'
for key in eval_accuracy eval_top_k_accuracy eval_f1 eval_samples; do
    expect_same <(values $key one/metrics.jsonl) <(values $key two/metrics.jsonl)
done
expect_same one/classes.json two/classes.json
expect_same <(grep early_end one/metrics.jsonl | sed 's/"time":[^,]*//') <(grep early_end two/metrics.jsonl | sed 's/"time":[^,]*//')
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" eval two --best --json two.json --confusion two.csv
expect_code 0 "$CLTRAIN" eval one --best --json one.json --confusion one.csv
expect_same one.csv two.csv
# A resumed run has ended on all ranks.
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train --resume two
expect_text 'it has ended early'

# If the config has no global batch, the batch of two ranks scales the rate; an automatic micro-batch is
# each rank's.
short=(train.steps=2 train.early_stop_evals=0 train.eval_every=0 checkpoint.best=none)
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json "${short[@]}" data.global_batch=0 --out free
expect_text 'learning rate 0.1 x 32/32 = 0.1'
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json "${short[@]}" data.micro_batch=auto --out found
expect_text '64 samples a step.* micro-batches of 32 were found to fit'
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train --resume found train.steps=4
expect_text 'micro-batches of 32 were found to fit'
shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
if [ -f "$shim" ]; then
    # Only rank 1's device refuses memory; both ranks continue with less.
    cat >less.sh <<'SH'
#!/usr/bin/env bash
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" = 0 ] || export LD_PRELOAD=$SHIM CLT_SHIM=memory=40000000
exec "$@"
SH
    chmod +x less.sh
    export SHIM=$shim ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0
    expect_code 0 "${mpi[@]}" 2 ./less.sh "$CLTRAIN" train net.json "${short[@]}" data.micro_batch=auto data.samples=4096 'data.shape=[4096]' \
        data.global_batch=4096 device.tune=off --out less
    expect_text 'a device refused the memory for micro-batches of 2048; this run continues with 1024' 'micro-batches of 512 were found to fit'
else
    note_skip 'driver_shim was not built: no device refuses memory'
fi
finish
