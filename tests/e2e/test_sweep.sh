#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 40 ctest-optimise: no
#
# cltrain sweep: two workers, workers and trainings that are killed at many moments, signals, failing
# trials, halving, folders that hold something else. Whatever is killed, the final table is the same as
# without kills.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is run'

net mlp train.steps=60 >net.json
cat >grid.json <<'JSON'
{"config": "net.json", "keys": {"optimizer.learning_rate": {"values": [0.001, 0.01]}, "train.seed": {"from": 1, "to": 2, "step": 1}}}
JSON
cat >halving.json <<'JSON'
{"config": "net.json", "method": "halving", "trials": 6, "seed": 5, "metric": "accuracy", "halving": {"first_steps": 10, "keep": 2},
 "keys": {"optimizer.learning_rate": {"from": 0.0001, "to": 0.01, "scale": "log"}, "model.dropout": {"values": [0, 0.1]}}}
JSON
# table FOLDER: the table without values that depend on a clock
table() { "$CLTRAIN" sweep "$1" --table --json | sed -e '/"seconds"/d' -e "s|\"$1|\"sweep|"; }
# same_as QUIET FOLDER: the tables are equal, each result was written once, and nothing failed
same_as() {
    table "$1" >quiet.json
    table "$2" >now.json
    expect_same quiet.json now.json
    diff <(ls "$1/done") <(ls "$2/done" | grep -v tmp) >"$out" && pass || fail "the results of $2 are others than those of $1"
    [ -z "$(ls "$2/failed")" ] && pass || fail "$2 has trials that failed"
}

# --- without a worker ---
expect_code 0 "$CLTRAIN" sweep grid.json --dry-run --out dry
expect_text '^trial +optimizer.learning_rate +train.seed ' '^trial-04 +0\.01 +2 .*waiting$'
expect_absent dry
expect_code 0 "$CLTRAIN" sweep grid.json --dry-run --json --out dry --hours 0 --budget 0 # no limit
expect_text '"name": "trial-03"' '"optimizer.learning_rate": 0.01,' '"complete": false'
sed 's/learning_rate/learning_rat/' grid.json >wrong.json
expect_code 2 "$CLTRAIN" sweep wrong.json --out dry
expect_text "did you mean 'optimizer.learning_rate'"
expect_code 2 "$CLTRAIN" sweep none.json
expect_code 2 "$CLTRAIN" sweep . --table
expect_text 'is not the folder of a sweep'
expect_code 2 "$CLTRAIN" sweep grid.json --dry-run --table
for arguments in '--device=' '--device=0:0,' '--table --budget=3' '--table --hours=3' '--table --again' '--dry-run --budget=3'; do
    expect_code 2 "$CLTRAIN" sweep grid.json --out dry $arguments
done
expect_absent dry runs

# --- a grid: alone, then by two workers, one of which starts later ---
expect_code 0 "$CLTRAIN" sweep grid.json --out quiet
expect_text '^trial-01: optimizer.learning_rate=0.001, train.seed=1$' '^trial-04 is done: eval_loss [0-9]' '^trial +optimizer' '^best: trial-0[34], eval_loss ' '^next:$'
awk '/^trial-/ && / done$/ { if (last != "" && $5 < last) exit 1; last = $5 }' "$out" && pass || fail 'the table is not sorted by the metric'
expect_code 0 "$CLTRAIN" sweep grid.json --out quiet # there is nothing left to do
reject_text 'is done:'
expect_code 0 "$CLTRAIN" compare quiet --csv
expect_text '"optimizer.learning_rate"' '^"trial-01"' '^"trial-04"'
expect_code 0 "$CLTRAIN" train net.json --out plain optimizer.learning_rate=0.01 train.seed=1
numbers plain >a.txt
numbers quiet/trial-03 >b.txt
expect_same a.txt b.txt
"$CLTRAIN" sweep grid.json --out two --workers 2 >first.txt 2>&1 &
first=$!
expect_code 0 "$CLTRAIN" sweep grid.json --out two
wait $first && pass || fail 'the first worker failed'
[ "$(grep -c 'is done' first.txt "$out" | awk -F: '{ n += $2 } END { print n }')" -eq 4 ] && pass || fail 'four results were not told once each'
same_as quiet two

# --- what else the folder may hold ---
sed 's/0.001/0.002/' grid.json >other.json
expect_code 2 "$CLTRAIN" sweep other.json --out quiet
expect_text 'holds another sweep' 'cltrain sweep quiet'
net mlp train.steps=61 >net2.json
sed 's/net.json/net2.json/' grid.json >other.json
expect_code 2 "$CLTRAIN" sweep other.json --out quiet
expect_text 'train.steps: was 60, is 61'
sed 's/0.001/0.002/' grid.json >other.json
expect_code 0 "$CLTRAIN" sweep other.json --out quiet --table # the folder's values, not those of the file
expect_text '^trial-01 +0\.001 '
reject_text '0\.002'
expect_code 2 "$CLTRAIN" sweep grid.json --out plain
expect_text 'is the folder of a run'

# --- another metric changes the table and trains nothing ---
sed 's/"keys"/"metric": "accuracy", "keys"/' grid.json >accuracy.json
cp -r quiet compared
expect_code 0 "$CLTRAIN" sweep accuracy.json --out compared
expect_text '^best: trial-0[1-4], accuracy [0-9.]+ ?%?'
reject_text 'is done:' '^trial-.* - +[0-9]+s +done$'
expect_code 0 "$CLTRAIN" sweep compared --table --json
expect_text '"metric": "accuracy"' '"goal": "max"'

# --- kills: of a worker, whose training then ends by itself; of a training, which is tried again ---
expect_code 0 "$CLTRAIN" sweep halving.json --out rungs
expect_text '^rung 3: 2 trials to step 40$' '^rung 4: 1 trial to the end$' '^trial-.* left$' '^best: trial-0[1-6], accuracy '
expect_code 0 "$CLTRAIN" sweep rungs --json
expect_text '"goal": "max"' '"state": "left"' '"complete": true'
sed 's/"metric": "accuracy"/"metric": "eval_loss"/' halving.json >other.json
expect_code 2 "$CLTRAIN" sweep other.json --out rungs
expect_text "'rungs' has results by which halving chooses"
# --again while a worker trains a trial of the newest rung; the worker is on another machine, so this one
# cannot know whether it is alive
newest=$(ls rungs/lease | sed -n 's/^trial-[0-9]*-\([0-9]*\).*/\1/p' | sort -n | tail -n 1)
cp -r rungs busy
echo '{"host": "node7", "boot": "other", "space": 1, "process": 12, "started": 5, "released": false}' >"busy/lease/trial-01-$newest.9"
for i in 1 2 3 4 5 6 7 8; do [ -e "busy/lease/trial-01-$newest.$i" ] || cp "busy/lease/trial-01-$newest.9" "busy/lease/trial-01-$newest.$i"; done
expect_code 2 "$CLTRAIN" sweep busy --again
expect_text '--again: process 12 on node7 trains trial-01; with halving, end all workers first'
expect_code 0 "$CLTRAIN" sweep rungs --again
cp halving.json kills.json
# trains WORKER: whether the worker has a training; sets $child to its process
trains() { child=$(awk '{ print $1 }' "/proc/$1/task/$1/children" 2>/dev/null) && [ -n "$child" ] && grep -q -z -x train "/proc/$child/cmdline" 2>/dev/null; }
# A training that is killed is begun again.
net mlp train.steps=4000000 train.log_every=100000 >endless.json
printf '{"config": "endless.json", "keys": {"optimizer.learning_rate": {"values": [0.1]}}}' >endless.sweep.json
"$CLTRAIN" sweep endless.sweep.json --out endless >endless.txt 2>&1 &
worker=$!
await_from $worker trains $worker
first=$child
kill -KILL "$first"
begun_again() { trains $worker && [ "$child" != "$first" ]; }
if await_from $worker begun_again; then pass; fi
kill -TERM $worker
wait $worker
moments=6
all_cases && moments=60
for ((moment = 0; moment < moments; moment++)); do
    "$CLTRAIN" sweep kills.json --out kills >>kills.txt 2>&1 &
    worker=$!
    sleep 0.$((RANDOM % 10))$((RANDOM % 10))
    if [ $((moment % 3)) -eq 2 ] && [ $moment -lt 27 ]; then # a trial whose training is killed ten times is given up
        trains $worker && kill -9 "$child" 2>/dev/null
        kill -TERM $worker
    else
        kill -9 $worker
    fi
    wait $worker 2>/dev/null
done
rm -f kills/failed/* # of trainings that were killed
expect_code 0 "$CLTRAIN" sweep kills --workers 2
same_as rungs kills

# --- a signal: the training saves, the lease is given back, code 75; then it goes on ---
net mlp train.steps=4000000 train.log_every=100000 >long.json
sed 's/net.json/long.json/' grid.json >long_grid.json
"$CLTRAIN" sweep long_grid.json --out stopped >stopped.txt 2>&1 &
worker=$!
await_from $worker has_updates stopped/trial-01 10
expect_code 0 "$CLTRAIN" sweep stopped --table
expect_text '^trial-01 .*running$' "^trial-01 is trained by: process $worker on "
kill -TERM $worker
wait $worker
[ $? -eq 75 ] && pass || fail 'a worker that was stopped did not end with 75'
cp stopped.txt "$out"
expect_text '^trial-01 was interrupted and can be resumed$' 'interrupted, resumable: stopped; the same command continues the sweep'
grep -q '"released":true' stopped/lease/trial-01-0.1 && pass || fail 'the lease was not given back'
ls stopped/trial-01/checkpoints/step_* >/dev/null 2>&1 && pass || fail 'the training did not save'

# --- a training that does not react to the signal is killed after the grace, and its trial is given back ---
"$CLTRAIN" sweep long_grid.json --out hangs --grace 1 >hangs.txt 2>&1 &
worker=$!
await_from $worker has_updates hangs/trial-01 10
kill -STOP "$(sed -n 's/^process \([0-9]*\) .*/\1/p' hangs/trial-01/lock)"
kill -TERM $worker
await_end $worker
wait $worker
[ $? -eq 75 ] && pass || fail 'a worker whose training hangs did not end with 75'
cp hangs.txt "$out"
expect_text '^trial-01: its training did not end within [0-9]+ s after it was asked to, so it is killed$' '^trial-01 was interrupted and can be resumed$'
grep -q '"released":true' hangs/lease/trial-01-0.1 && pass || fail 'the lease of a trial that was killed was not given back'
[ -z "$(ls hangs/failed)" ] && pass || fail 'a training that was killed after the grace counts as failed'

# --- a worker of another machine dies: its trial is taken over when it has been silent for the time of the lease ---
if all_cases; then
    sed 's/0.001, //' long_grid.json >far.json # two trials: one of the two workers is free
    "$CLTRAIN" sweep far.json --out far >far.txt 2>&1 &
    worker=$!
    await_from $worker has_updates far/trial-01 10
    kill -9 $worker
    wait $worker 2>/dev/null
    boot=$(cat /proc/sys/kernel/random/boot_id)
    sed "s/$boot/00000000-0000-0000-0000-000000000000/" far/lease/trial-01-0.1 >edited && cp edited far/lease/trial-01-0.1
    "$CLTRAIN" sweep far --table >"$out" 2>&1
    expect_text '^trial-01 .*running$' # as far as this machine can see
    "$CLTRAIN" sweep far --workers 2 --lease 5 >far2.txt 2>&1 &
    worker=$!
    await_from $worker has_updates far/trial-02 # the other trial at once
    await_from $worker test -e far/lease/trial-01-0.2
    kill -TERM $worker
    wait $worker
    [ $? -eq 75 ] && pass || fail 'a worker that was stopped did not end with 75'
fi

# --- a notice of the cloud ends the training, and with it the worker ---
sed 's/"keys"/"set": {"cloud.notice_file": "gone"}, "keys"/' long_grid.json >notice.json
"$CLTRAIN" sweep notice.json --out notice >notice.txt 2>&1 &
worker=$!
await_from $worker has_updates notice/trial-01 10
touch gone
wait $worker
[ $? -eq 75 ] && pass || fail 'a worker whose training got a notice did not end with 75'
cp notice.txt "$out"
expect_text 'interrupted, resumable: trial-01 was interrupted: .*notice'
reject_text 'trial-01 was interrupted: interrupted'

# --- failing trials: by an infinite loss, immediately; by an error, after a second try; the others
# continue ---
for i in 1 2 3 4 5 6 7 8; do echo "$i,$((i * 2)),$((i * 3))"; done >t.csv
net mse train.steps=40 optimizer.type=sgd train.max_nonfinite=1 >mse.json
cat >fails.json <<'JSON'
{"config": "mse.json", "keys": {"optimizer.learning_rate": {"values": [0.0001, 1e6, 0.0002]}}}
JSON
mkdir -p fails/trial-03/checkpoints/step_5
echo '{}' >fails/trial-03/checkpoints/step_5/manifest.json
expect_code 0 "$CLTRAIN" sweep fails.json --out fails
expect_text '^trial-02 failed: .*numeric.*; it is not tried again$' '^trial-03 failed: .*step_5.*; it is tried again$' \
    '^trial-03 failed: .*step_5.*; it is not tried again$' '^trial-02 .*failed$' '^best: trial-01, eval_loss'
expect_file fails/output/trial-02.txt
rm -r fails/trial-03
expect_code 0 "$CLTRAIN" sweep fails --again
expect_text '^trial-03 is done: ' '^trial-02 failed: .*numeric.*; it is not tried again$'
sed 's/0.0001, 1e6, 0.0002/1e6/; s/"keys"/"set": {"train.max_nonfinite": 1000}, "keys"/' fails.json >all_fail.json
expect_code 1 "$CLTRAIN" sweep all_fail.json --out all_fail # the training goes on to its end
expect_text '^trial-01 failed: the training is complete, and its eval_loss is not finite; it is not tried again$' 'no trial of the sweep has a result'

# --- a machine with a wrong setup, or without the data, fails no trial ---
sed 's/, 1e6//' fails.json >good.json
expect_code 2 env CLTRAIN_CLOUD_PROVIDER=typo "$CLTRAIN" sweep good.json --out machine
expect_text "'typo' is not a provider of notices"
expect_code 2 env CLTRAIN_PRICE_PER_HOUR=abc "$CLTRAIN" sweep good.json --out machine
expect_text "CLTRAIN_PRICE_PER_HOUR is 'abc'"
mv t.csv away.csv
expect_code 3 "$CLTRAIN" sweep good.json --out machine
expect_text 't.csv'
[ -z "$(ls machine/failed machine/lease | grep trial)" ] && pass || fail 'a machine that is set up wrongly took a trial'
mv away.csv t.csv
expect_code 0 "$CLTRAIN" sweep good.json --out machine
sed 's/"optimizer.*/"data.path": {"values": ["t.csv", "none.csv"]}}}/' fails.json >one_missing.json
expect_code 3 "$CLTRAIN" sweep one_missing.json --out one_missing # the data of one trial
expect_text '^trial-01 is done' '^trial-02 failed: .*none.csv.*; it is tried again$' '^trial-02 ended with code 3 and can be resumed on another machine$' \
    '^cltrain: data error: trial-02: '
reject_text 'trial-02: data error'

# --- a metric that the model does not have: refused if that is certain; otherwise the worker ends after one
# trial, which keeps its checkpoint and is not trained again with another metric ---
sed 's/"keys"/"metric": "accuracy", "keys"/' good.json >no_metric.json
expect_code 2 "$CLTRAIN" sweep no_metric.json --out no_metric
expect_text 'metric: this training has no accuracy'
expect_absent no_metric
net mse train.steps=40 model.type=graph 'model.layers=[{"op": "linear", "out": 1}, {"op": "mse"}]' | sed 's/"hidden": [^,]*, //; s/"loss": "mse", //' >graph.json
echo '{"config": "graph.json", "metric": "accuracy", "keys": {"train.seed": {"values": [1, 2]}}}' >no_metric.json
expect_code 2 "$CLTRAIN" sweep no_metric.json --out no_metric
expect_text '^trial-01 is complete and has no accuracy$' 'name another "metric"'
expect_file no_metric/trial-01/checkpoints/step_40/manifest.json
expect_absent no_metric/trial-02 no_metric/failed/trial-01-0.json
sed 's/accuracy/best_rmse/' no_metric.json >rmse.json
expect_code 0 "$CLTRAIN" sweep rmse.json --out no_metric
expect_text '^trial-01 is done: best_rmse ' '^trial-02 is done: best_rmse ' '^best: trial-0[12], best_rmse '
[ "$(grep -c '"step":1[,}]' no_metric/trial-01/metrics.jsonl)" -eq 1 ] && pass || fail 'a complete trial was trained again'
# If other trials have the metric, only this one has failed.
rm no_metric/done/trial-02-0.json
sed -i -E 's/,"(eval_)?rmse":[-+.0-9e]*//g' no_metric/trial-02/metrics.jsonl
expect_code 0 "$CLTRAIN" sweep no_metric
expect_text '^trial-02 failed: the training is complete and has no best_rmse' '^best: trial-01, best_rmse '

# --- without checkpoints a result counts as well ---
sed 's/"keys"/"set": {"checkpoint.final": false}, "keys"/; s/0.001, //' grid.json >unsaved.json
expect_code 0 "$CLTRAIN" sweep unsaved.json --out unsaved
expect_text '^trial-02 is done: eval_loss '
expect_absent unsaved/trial-01/checkpoints/step_60

# --- lines that are missing up to the newest checkpoint are computed again ---
rm -r quiet/done/trial-04-0.json
sed -i '/"step":60[,}]/d' quiet/trial-04/metrics.jsonl
expect_code 0 "$CLTRAIN" sweep quiet
expect_text '^trial-04 failed: the lines of the last steps are missing .*; it is tried again$' '^trial-04 is done: '
rm quiet/failed/trial-04-0.json

# --- empty records, as a kill leaves them where there are no hard links, count as none ---
mkdir -p empty/done
touch empty/config.json empty/sweep.json empty/done/trial-02-0.json
expect_code 0 "$CLTRAIN" sweep grid.json --out empty
expect_text '^trial-02 is done: '
same_as quiet empty

# --- a budget or a file STOP ends one trial, and the worker goes on ---
sed 's/"keys".*/"set": {"cost.per_hour": 3600}, "keys": {"cost.budget": {"values": [3, 1e9]}, "train.steps": {"values": [16000000, 60]}}}/' \
    long_grid.json >ends.json
"$CLTRAIN" sweep ends.json --out ends >ends.txt 2>&1 &
worker=$!
await_from $worker has_updates ends/trial-03
touch ends/trial-03/STOP
wait $worker && pass || fail 'a budget or a file STOP ended the worker'
cp ends.txt "$out"
expect_text '^trial-01 failed: .*cost.budget.*; it is not tried again$' '^trial-04 is done: ' \
    '^trial-03 failed: a file STOP in the run folder; it is not tried again$'

# --- a machine whose disk is full, or that has no device, leaves the trial to others ---
mkdir -p broken/trial-01
echo no folder >broken/trial-01/checkpoints
expect_code 8 "$CLTRAIN" sweep grid.json --out broken
expect_text '^trial-01 ended with code 8 and can be resumed on another machine$' 'storage error: trial-01: '
for i in 2 3 4 5 6 7 8 9 10; do # but not for ever: the trial itself may be the reason
    expect_code 8 "$CLTRAIN" sweep grid.json --out broken
done
expect_text '^trial-01 failed: .*; it is not tried again$'
expect_code 0 "$CLTRAIN" sweep grid.json --out broken
expect_text 'trial-02 is done'
rm broken/trial-01/checkpoints
expect_code 0 "$CLTRAIN" sweep broken --again
expect_text '^trial-01 is done: '
expect_code 4 "$CLTRAIN" sweep grid.json --out elsewhere --device 'no such device'
expect_text '^cltrain: no device or driver: trial-01: '
reject_text 'trial-01: no device or driver'
[ -z "$(ls elsewhere/failed)" ] && pass || fail 'a missing device counts as a failed trial'
for command in report compare; do
    expect_code 2 "$CLTRAIN" $command elsewhere
    expect_text "the sweep in 'elsewhere' has no results yet"
done
expect_code 2 "$CLTRAIN" watch elsewhere
expect_text "'elsewhere' is the folder of a sweep: watch one of its trials, such as elsewhere/trial-01"
expect_code 0 "$CLTRAIN" sweep grid.json --out elsewhere
same_as quiet elsewhere
finish
