#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-optimise: no
#
# Steps whose loss is far above that of recent steps: found, warned of or skipped; the same step with one rank and with two, and in a run
# that is resumed between the steps that it is compared with.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

# Samples in the order of the file, 4 a step; a sample of step 21 has a target that no other sample has.
awk 'BEGIN { srand(7); for (i = 0; i < 200; i++) { x = rand(); z = rand()
    print x "," z "," (i == 124 ? 500 : x - z + rand() / 8) } }' >rows.csv
net mse model.outputs=1 data.path=rows.csv data.shuffle=false data.global_batch=4 data.workers=1 optimizer.type=sgd optimizer.learning_rate=0.01 \
    train.steps=40 train.on_spike=skip train.spike_window=16 checkpoint.every=20 >net.json
spikes() { sed -n -E 's/^\{"step": ?([0-9]+),.*"spike": ?true.*/\1/p' "$1/metrics.jsonl" | tr '\n' ' '; }
last_skipped() { values skipped "$1/metrics.jsonl" | tail -n 1; }
expect_equal() { if [ "$2" = "$3" ]; then pass; else fail "$1: '$2' instead of '$3'"; fi; }

expect_code 0 "$CLTRAIN" train net.json --out one
expect_text "step 21 is a spike"
expect_text "the update was skipped"
expect_equal "spikes of one rank" "$(spikes one)" "21 "
expect_equal "skipped updates" "$(last_skipped one)" 1

expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train net.json --out two
expect_equal "spikes of two ranks" "$(spikes two)" "21 "
expect_equal "skipped updates of two ranks" "$(last_skipped two)" 1

# Only a warning: the update is made, and the next losses show it.
expect_code 0 "$CLTRAIN" train net.json train.on_spike=warn --out warned
expect_text "step 21 is a spike"
expect_equal "the first spike that is warned of" "$(spikes warned | cut -d' ' -f1)" 21
expect_equal "updates skipped" "$(last_skipped warned)" 0
expect_code 0 "$CLTRAIN" train net.json train.on_spike=off --out off
expect_equal "spikes that are not looked for" "$(spikes off)" ""
for run in one warned off; do values loss $run/metrics.jsonl | sed -n 22,40p >$run.after; done
if cmp -s warned.after off.after && ! cmp -s one.after off.after; then pass; else fail "what the losses after the spike follow"; fi

# The losses that steps are compared with are saved: the resumed run finds the spike and continues with the
# same bits.
expect_code 0 "$CLTRAIN" train net.json --max-steps 20 --out again
expect_code 0 "$CLTRAIN" train net.json --resume auto --out again
expect_equal "spikes of a resumed run" "$(spikes again)" "21 "
if cmp -s {one,again}/checkpoints/step_40/model.safetensors; then pass; else fail "the resumed run has other parameters"; fi
# A run that diverged is continued from an earlier step with the rule switched on.
expect_code 0 "$CLTRAIN" train net.json --resume off/checkpoints/step_20 train.on_spike=skip --out mended
expect_equal "spikes of a run that was continued with the rule" "$(spikes mended)" "21 "
finish
