#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20 ctest-optimise: no
#
# cltrain sweep: weights that all trials start from, a limit on the cost of all trials together, uploads of
# each trial to its own address, and the table of trials on the page of a report.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'
unset CLTRAIN_PRICE_PER_HOUR

net mlp train.steps=20 >net.json
echo '{"config": "net.json", "keys": {"train.seed": {"values": [1, 2]}}}' >grid.json

# --- weights: each trial equals a training with --init, and the folder records the weights ---
expect_code 0 "$CLTRAIN" train net.json --out first train.steps=5
expect_code 2 "$CLTRAIN" sweep grid.json --out tuned --init nothing
expect_text "^cltrain: .*--init 'nothing': No such file"
expect_absent tuned
expect_code 0 "$CLTRAIN" sweep grid.json --out tuned --init first
expect_code 0 "$CLTRAIN" train net.json --out alone --init first train.seed=2
expect_same tuned/trial-02/checkpoints/step_20/model.safetensors alone/checkpoints/step_20/model.safetensors
rm tuned/done/trial-02-0.json
rm -r tuned/trial-02
expect_code 0 "$CLTRAIN" sweep tuned # the folder says where it starts from
expect_same tuned/trial-02/checkpoints/step_20/model.safetensors alone/checkpoints/step_20/model.safetensors
expect_code 2 "$CLTRAIN" sweep grid.json --out tuned
expect_text "'tuned' holds a sweep whose trials start from the weights .*/first: give --init"
expect_code 2 "$CLTRAIN" sweep tuned --init alone
expect_text "start from the weights .*/first, and not from 'alone'"
expect_code 0 "$CLTRAIN" sweep grid.json --out plain
expect_code 2 "$CLTRAIN" sweep grid.json --out plain --init first
expect_text "start from random weights: give --init"

# model.init does the same for the config, and is a key like others
echo '{"config": "net.json", "set": {"model.init": "first"}, "keys": {"train.seed": {"values": [2]}}}' >keyed.json
expect_code 0 "$CLTRAIN" sweep keyed.json --out keyed
expect_same keyed/trial-01/checkpoints/step_20/model.safetensors alone/checkpoints/step_20/model.safetensors
expect_code 0 "$CLTRAIN" sweep keyed # a copy of the config is in the folder
sed -i 's/first/alone/' keyed.json
expect_code 2 "$CLTRAIN" sweep keyed.json --out keyed
expect_text "'keyed' holds a sweep over another config.* model.init: was \"first\", is \"alone\""
echo '{"config": "net.json", "set": {"model.init": "first", "optimizer.learning_rate": 0.5}, "keys": {"train.seed": {"values": [2]}}}' >keyed.json
expect_code 2 "$CLTRAIN" sweep keyed.json --out keyed
expect_text "'keyed' holds a sweep over another config.* optimizer.learning_rate: was .*, is 0.5"
# Trials are checked as they are trained, from the printed config, in which no key gives way.
echo '{"config": "net.json", "set": {"schedule.warmup": 10}, "keys": {"train.steps": {"values": [20, 5]}}}' >short.json
expect_code 2 "$CLTRAIN" sweep short.json --out never
expect_text "trial 2: .*schedule.warmup: must not be longer than the schedule"
expect_absent never
echo '{"config": "net.json", "set": {"train.seed": 2}, "keys": {"model.init": {"values": ["", "first"]}}}' >starts.json
expect_code 0 "$CLTRAIN" sweep starts.json --out starts
expect_same starts/trial-02/checkpoints/step_20/model.safetensors alone/checkpoints/step_20/model.safetensors
sed -i 's/""/"absent"/' starts.json
expect_code 7 "$CLTRAIN" sweep starts.json --out never
expect_text "trial 1: model.init: .*'absent'"
expect_absent never

# --- commands that only show results need no weights ---
mv first gone
expect_code 0 "$CLTRAIN" sweep tuned --table
expect_text '^best: trial-0[12], eval_loss '
expect_code 0 "$CLTRAIN" report tuned
expect_code 0 "$CLTRAIN" compare tuned
expect_code 7 "$CLTRAIN" sweep tuned
mv gone first

# --- the report shows all trials ---
sed 's/20/16/' net.json >short.json
echo '{"config": "short.json", "keys": {"train.seed": {"from": 1, "to": 9, "step": 1}, "cost.currency": {"values": ["<i>x</i>"]}}}' >nine.json
expect_code 0 "$CLTRAIN" sweep nine.json --out nine
expect_code 0 "$CLTRAIN" report nine
expect_awk 'the page has a row for each trial, the best one first' '
    /<h3>Trials <small>9 of 9 have ended/ { inside = 1 }
    inside && /^<tr><td>trial-0[1-9]<\/td><td>[1-9]<\/td><td>&lt;i&gt;x/ { rows++; sub(/.*<td>16<\/td><td>/, ""); sub(/<.*/, ""); if ($0 < last) exit 1; last = $0 }
    inside && /<\/section>/ { inside = 0 }
    END { exit rows != 9 }' nine/report.html
expect_code 0 "$CLTRAIN" report alone
expect_code 0 "$CLTRAIN" report nine alone --out both.html # there is room for the run in either order
expect_code 0 "$CLTRAIN" report alone nine --out both.html
expect_code 0 "$CLTRAIN" compare nine nine alone --csv
expect_awk 'the runs of two sweeps and a run' '/^"/ { n++ } END { exit n != 20 }' "$out"
expect_awk 'the report of a run has no trials' '/<h3>Trials/ { found = 1 } END { exit found }' alone/report.html

# --- a budget of all trials: trainings save and are given back, and with a larger budget they continue ---
net mlp train.steps=4000000 train.log_every=1000000 cost.per_hour=3600 >long.json
echo '{"config": "long.json", "keys": {"train.steps": {"values": [16000000, 60]}}}' >money.json
expect_code 2 "$CLTRAIN" sweep grid.json --out money --budget 5
expect_text 'budget needs a price'
expect_absent money
expect_code 75 "$CLTRAIN" sweep money.json --out money --budget 3
expect_text '^trial-01 was interrupted and can be resumed$' 'the trials have cost [0-9.]+, and --budget is 3; the same command with a larger --budget resumes the sweep'
expect_awk 'the budget is spent' -v s="$(sed -n -E 's/.*the trials have cost ([0-9.]+),.*/\1/p' "$out")" 'BEGIN { exit !(s >= 3) }'
ls money/trial-01/checkpoints/step_* >/dev/null 2>&1 && pass || fail 'the training did not save'
expect_absent money/trial-02 money/failed/trial-01-0.json
expect_code 2 "$CLTRAIN" sweep money --budget 3 # nothing begins, so that no script goes round and round
expect_text 'the trials have cost [0-9.]+, and --budget is 3'
"$CLTRAIN" sweep money --budget 1e9 --workers 2 >more.txt 2>&1 &
worker=$!
await_from $worker test -s money/done/trial-02-0.json
await_from $worker grep -q 'resumed from .*trial-01' money/output/trial-01.txt # it goes on
kill -TERM $worker
wait $worker
[ $? -eq 75 ] && pass || fail 'a worker that was stopped did not end with 75'
expect_code 75 "$CLTRAIN" sweep money.json --out hours --hours 0.0003
expect_text 'the trials were trained for [0-9.e-]+ hours, and --hours is 0.0003'
expect_code 0 "$CLTRAIN" sweep plain --hours 1e-9 # all trials are over

# No trial is begun if less is left than a start-up needs, by the trials so far.
echo '{"config": "net.json", "keys": {"train.seed": {"values": [1, 2]}}, "set": {"cost.per_hour": 3600}}' >rest.json
expect_code 0 "$CLTRAIN" sweep rest.json --out rest --budget 1e9
rm rest/done/trial-02-0.json
rm -r rest/trial-02
sed -i -E 's/"startup_s":[0-9.e+-]+/"startup_s":1000000/' rest/trial-01/metrics.jsonl
expect_code 2 "$CLTRAIN" sweep rest --budget 1000
expect_text 'the trials have cost [0-9.]+ of the 1000.00 of --budget, and just the start of a trial costs 1000000.00; the same'
expect_code 2 "$CLTRAIN" sweep rest --hours 1
expect_text 'were trained for [0-9.e-]+ of the 1 hours of --hours, and just the start of a trial takes 1e\+06 s; the same'
expect_absent rest/trial-02
expect_code 0 "$CLTRAIN" sweep rest --budget 1e9 --hours 1000

# A worker that takes no further trial, here because a device is missing, checks the budget as well.
echo '{"config": "long.json", "keys": {"train.seed": {"values": [1, 2]}}}' >long_seeds.json
expect_code 4 "$CLTRAIN" sweep long_seeds.json --out closing --workers 2 --device '0:0,no such device' --budget 3
expect_text '^trial-02 ended with code 4 ' '^the trials have cost [0-9.]+, and --budget is 3; ' '^trial-01 was interrupted and can be resumed$'

# --- a metric in money appears once in each trial's object ---
echo '{"config": "net.json", "metric": "cost", "set": {"cost.per_hour": 3600}, "keys": {"train.seed": {"values": [1, 2]}}}' >cost.json
expect_code 0 "$CLTRAIN" sweep cost.json --out cost
expect_code 0 "$CLTRAIN" sweep cost --table --json
expect_awk 'each trial has its cost once' '/"cost":/ { n++ } END { exit n != 2 }' "$out"
sed 's/3600/0/' cost.json >free.json
expect_code 2 "$CLTRAIN" sweep free.json --out free
expect_text 'the metric cost needs a price above 0'
expect_absent free

# --- each trial is uploaded to a place of its own ---
storage_double server
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
echo '{"config": "net.json", "keys": {"train.seed": {"values": [1, 2]}}, "set": {"checkpoint.upload": "s3://bucket/sweep/"}}' >bucket.json
expect_code 0 "$CLTRAIN" sweep bucket.json --out bucket
kept_outputs
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/sweep/trial-01/checkpoints/step_20
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/sweep/trial-02/checkpoints/step_20
expect_same bucket/trial-02/checkpoints/step_20/model.safetensors plain/trial-02/checkpoints/step_20/model.safetensors
# The remains of another sweep there do not count as the trial's own.
expect_code 1 "$CLTRAIN" sweep bucket.json --out bucket2
expect_text '^trial-01 failed: .*holds checkpoints of a run already'
kept_outputs
# A key that varies may be the address, too.
sed -e 's/, "set".*/}/' -e 's/"train.seed"/"checkpoint.upload": {"values": ["", "s3:\/\/bucket\/other"]}, "train.seed"/' bucket.json >places.json
expect_code 0 "$CLTRAIN" sweep places.json --out places
kept_outputs
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/other/trial-03/checkpoints/step_20
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/other/trial-04/checkpoints/step_20
# A warning says that data is not checked before the first trial.
echo '{"config": "net.json", "keys": {"data.micro_batch": {"values": [2, 4]}}, "set": {"train.steps": 2}}' >batches.json
expect_code 0 "$CLTRAIN" sweep batches.json --out batches
expect_text '^the data is first opened by the trainings, since data\.\* takes several values$'
no_secrets TEST/SECRET
obeys server
finish
