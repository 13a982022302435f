#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# What an interrupted or changed run still owes when it is resumed: an evaluation that failed by its data, also
# the last one of a run whose steps are done; the save of checkpoint.every at the last step; its new learning
# rate in config.resolved.json. A run that ended early and trains on is not called complete.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || { note_skip 'there is no OpenCL device: nothing is trained'; finish; }

image='iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIEAAAAACx9D0UAAAAE0lEQVR42mPc3cCAApgYGAZCAACqZQFLs+uDDQAAAABJRU5ErkJggg=='
mkdir -p train/a train/b eval/a eval/b
for place in train/a train/b eval/a eval/b; do base64 -d <<<"$image" >$place/one.png; done
cp eval/b/one.png good.png
cat >images.json <<'JSON'
{"model": {"type": "mlp", "hidden": [4], "loss": "cross_entropy"},
 "data": {"type": "images", "path": "train", "eval_path": "eval", "size": [8, 8], "micro_batch": 2},
 "optimizer": {"type": "sgd", "learning_rate": 0.01}, "train": {"steps": 4, "eval_every": 2}}
JSON
head -c 60 good.png >eval/b/one.png
for steps in 4 2; do # the failing evaluation after step 2: between steps, and the last one
    rm -rf run
    head -c 60 good.png >eval/b/one.png
    expect_code 3 "$CLTRAIN" train images.json --out run train.steps=$steps
    expect_text 'eval/b/one.png'
    [ "$(ls run/checkpoints)" = step_2 ] && pass || fail 'the step before the failing evaluation is not saved'
    expect_code 3 "$CLTRAIN" train --resume run
    cp good.png eval/b/one.png
    expect_code 0 "$CLTRAIN" train --resume run
    reject_text 'is complete'
    [ "$(grep -c '"eval_loss"' run/metrics.jsonl)" = $((steps / 2)) ] && pass || fail "not each evaluation of $steps steps was made"
    expect_code 0 "$CLTRAIN" train --resume run
    expect_text 'the run is complete'
done

net mlp 'model.hidden=[]' 'data.shape=[3]' data.classes=2 data.samples=64 data.micro_batch=8 optimizer.type=sgd optimizer.learning_rate=0.01 \
    train.steps=6 >net.json
expect_code 0 "$CLTRAIN" train net.json --out every checkpoint.final=false checkpoint.every=3
[ -d every/checkpoints/step_6 ] && pass || fail 'checkpoint.every has not saved the last step'

expect_code 0 "$CLTRAIN" train net.json --out rate --max-steps 3
expect_code 0 "$CLTRAIN" train --resume rate optimizer.learning_rate=0.02
grep -q '"learning_rate": 0.02' rate/config.resolved.json && grep -q '"learning_rate": 0.01' rate/config.resolved.1.json && pass ||
    fail 'config.resolved.json does not have the new learning rate'

# A session that ended before it saved has changed the config: the next one goes on with it. A checkpoint named
# by its step has its own config.
expect_code 0 "$CLTRAIN" train --resume rate optimizer.learning_rate=0.03 train.steps=9 checkpoint.final=false train.log_every=1 --max-steps 8
[ -d rate/checkpoints/step_8 ] && fail 'the session has saved' || pass
expect_code 0 "$CLTRAIN" train --resume rate/checkpoints/step_6 --dry-run
expect_text 'the run is complete'
expect_code 0 "$CLTRAIN" train --resume rate checkpoint.final=true
expect_text 'step 9/9 .*lr 3.00e-02'
expect_code 0 "$CLTRAIN" train --resume rate --dry-run
expect_text 'the run is complete'

# A checkpoint in a folder with a longer path could not be opened again.
long=$(printf 'd%.0s' {1..220})
expect_code 2 "$CLTRAIN" train net.json --out "$long/$long/$long/$long"
expect_text 'the path of the run folder has 883 bytes'
expect_absent "$long"

# Evaluations of other samples begin the count again, so the run goes on.
expect_code 0 "$CLTRAIN" train net.json --out early train.early_stop_delta=100 train.eval_every=1 train.early_stop_evals=2 train.steps=20
expect_text 'early'
expect_code 0 "$CLTRAIN" train --resume early train.eval_batches=1 --max-steps 6
reject_text 'is complete'
finish
