#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 25 ctest-optimise: no
#
# checkpoint.upload: a run uploads its checkpoints, metrics and log while it trains (storage_double.py). On
# another machine, simulated by an empty folder, --resume auto continues from there with the same bits,
# after a kill, a stop, and faults of the storage. Refused keys are never taken for "there is nothing yet",
# a failed upload does not end a run, and no file holds a secret.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

storage_double server
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
train() { expect_code "$1" "$CLTRAIN" train "${@:2}"; kept_outputs; }
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
listed() { guarded "$tool" bucket list "$1" 2>/dev/null | grep -q -E -- "$2"; } # PREFIX PATTERN
expect_listed() { if listed "$@"; then pass; else fail "$1 has no object $2"; fi; }
same_end() { expect_same "$1/checkpoints/step_$3/model.safetensors" "$2/checkpoints/step_$3/model.safetensors"; } # RUN RUN STEP

# A whole run: every file of the newest checkpoint is there and intact, the manifest last.
net mlp train.steps=40 checkpoint.every=10 >net.json
train 0 net.json --out straight
train 0 net.json --out whole checkpoint.upload=s3://bucket/runs/whole
same_end straight whole 40
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/whole/checkpoints/step_40
expect_listed runs/whole/ '^runs/whole/metrics.jsonl '
expect_listed runs/whole/ '^runs/whole/log.txt '
if grep 'PUT.*/step_40/' server/requests | tail -n 1 | grep -q manifest.json; then pass; else fail 'the manifest is not the last file'; fi
guarded "$tool" bucket read runs/whole/metrics.jsonl >metrics 2>/dev/null
expect_same whole/metrics.jsonl metrics
expect_code 0 grep -q 'uploaded step 40 to s3://bucket/runs/whole' whole/log.txt
# An event reports each checkpoint that is completely uploaded, with its bytes; the end of the run stays the
# last line.
last_event() { tail -n 1 "$1/metrics.jsonl" | sed -n 's/.*"event":"\([a-z]*\)".*/\1/p'; }
uploaded() { sed -n 's/.*"event":"uploaded","step":\([0-9]*\),.*"seconds":[0-9.e-]*,"bytes":\([0-9]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
bytes=$(cat whole/checkpoints/step_40/* | wc -c)
if [ "$(uploaded whole | tail -n 1)" = "40 $bytes" ]; then pass; else fail "the last event of an upload: $(uploaded whole | tail -n 1)"; fi
if [ "$(last_event whole)" = end ]; then pass; else fail "the last line is not the end: $(tail -n 1 whole/metrics.jsonl)"; fi

# Killed at any moment, on a machine whose disk is lost: another machine continues with the same bits.
net mlp train.steps=4000000 checkpoint.every=50 train.log_every=1000 >long.json
"$CLTRAIN" train long.json --out lost checkpoint.upload=s3://bucket/runs/lost >lost.out 2>&1 &
process=$!
await_from $process listed runs/lost/checkpoints/ manifest.json
kill -9 $process
wait $process 2>/dev/null
cat lost.out >>outputs
rm -rf lost
printf '%s\n' 'GET model cut' 'GET manifest 500' 'GET list-type reset' >server/faults
train 0 long.json --out found --resume auto --max-steps 1 checkpoint.upload=s3://bucket/runs/lost
expect_text 'fetched step [0-9]+ from s3://bucket/runs/lost'
step=$(sed -n 's/.*fetched step \([0-9]*\) from.*/\1/p' "$out" | head -n 1)
train 0 long.json --out found --resume auto --max-steps $((step + 20)) checkpoint.upload=s3://bucket/runs/lost
reject_text fetched # it is here already
# Looking at what is here opens and verifies the newest checkpoint once; the run then takes it as it is.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
    opened() { # ARGUMENT...: how often a start that has no step left opens the tensors of its checkpoint
        expect_code 0 strace -f -o calls -e trace=open,openat "$CLTRAIN" train long.json --out found --resume auto --max-steps $((step + 20)) "$@"
        expect_text 'the run is complete up to --max-steps'
        grep -c "/step_$((step + 20))/model.safetensors" calls >count
    }
    opened
    cp count alone
    opened checkpoint.upload=s3://bucket/runs/lost
    expect_same alone count
else
    note_skip 'strace is not installed or not allowed: how often a checkpoint is read is not counted'
fi
train 0 long.json --out beside --max-steps $((step + 20))
same_end beside found $((step + 20))
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/lost/checkpoints/step_$((step + 20))

# A machine that was only stopped starts again with its disk, after another one has continued the run: the
# whole history comes with the checkpoint.
train 0 net.json --out disk --max-steps 10 checkpoint.upload=s3://bucket/runs/disk
train 0 net.json --out elsewhere --resume auto --max-steps 20 checkpoint.upload=s3://bucket/runs/disk
train 0 net.json --out disk --resume auto --max-steps 30 checkpoint.upload=s3://bucket/runs/disk
expect_text 'fetched step 20 from'
losses() { sed -n -E 's/^(.*"update":.*"loss":[^,]*),.*/\1/p' "$1/metrics.jsonl"; }
losses straight | head -n 30 >there
losses disk >here
expect_same there here
expect_code 0 grep -q 'resumed from elsewhere/checkpoints/step_10' disk/log.txt

# Killed as soon as a checkpoint is complete in the bucket: another machine has the lines of all its steps,
# and the lines of each step once.
printf '%s\n' 'PUT moment.*/manifest meet' 'GET /go meet' >server/faults
"$CLTRAIN" train net.json --out moment checkpoint.upload=s3://bucket/runs/moment >moment.out 2>&1 &
process=$!
meets() { ! grep -q manifest server/faults; }
await_from $process meets
printf '%s\n' 'GET /go meet' 'PUT moment/metrics.jsonl hold' >server/faults # the texts that come after this manifest
guarded "$tool" bucket read go >/dev/null 2>&1
is_held() { [ ! -s server/faults ]; }
await_from $process is_held
kill -9 $process
wait $process 2>/dev/null
cat moment.out >>outputs
rm -r moment
train 0 net.json --out moment --resume auto checkpoint.upload=s3://bucket/runs/moment
expect_text 'fetched step [1-4]0 from'
losses straight >there
losses moment >here
expect_same there here

# If the newest uploaded checkpoint is damaged, an older intact one is fetched; if the server does not
# answer, it is not. A good copy replaces a damaged local one. If nothing is intact, the run does not begin
# again.
spoil() { head -c 100 straight/checkpoints/step_40/model.safetensors >spoilt; guarded "$tool" bucket put "runs/$1/checkpoints/step_$2/model.safetensors" spoilt 2>/dev/null; }
for steps in 20 40; do train 0 net.json --out spoils --resume auto --max-steps $steps checkpoint.upload=s3://bucket/runs/spoils; done
rm -r spoils
echo 'GET step_40/model AccessDenied.403' >server/faults
train 8 net.json --out spoils --resume auto checkpoint.upload=s3://bucket/runs/spoils
reject_text 'is skipped'
spoil spoils 40
train 0 net.json --out spoils --resume auto --max-steps 35 checkpoint.upload=s3://bucket/runs/spoils
expect_text 'step 40 is skipped: .*it was truncated or changed' 'fetched step [23]0 from' # a run may be ahead of its uploads
train 0 net.json --out spoils --resume auto --max-steps 38 checkpoint.upload=s3://bucket/runs/spoils
expect_text 'step 40 is skipped' 'resumed from spoils/checkpoints/step_35'
head -c 100 spoilt >spoils/checkpoints/step_38/model.safetensors
: >server/requests
train 0 net.json --out spoils --resume auto checkpoint.upload=s3://bucket/runs/spoils
expect_text 'fetched step 38 from'
same_end straight spoils 40
# Before the files of an existing step are replaced, its manifest is deleted, so that no reader takes a
# mixture for a checkpoint.
first_change() { grep -m 1 -E '^(PUT|POST|DELETE) .*/step_40/' server/requests; }
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/spoils/checkpoints/step_40
if [ "$(first_change)" = 'DELETE /bucket/runs/spoils/checkpoints/step_40/manifest.json ' ]; then pass; else fail "the manifest was not deleted first: $(first_change)"; fi
spoil spoils 40
rm -r spoils
echo 'DELETE step_40/manifest AccessDenied.403' >server/faults
train 0 net.json --out spoils --resume auto checkpoint.upload=s3://bucket/runs/spoils
expect_text 'are replaced while its manifest is there: .* needs the right s3:DeleteObject'
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/spoils/checkpoints/step_40
spoil all 20
guarded "$tool" bucket upload runs/all/checkpoints/step_20/manifest.json straight/checkpoints/step_20/manifest.json 2>/dev/null
train 7 net.json --out all --resume auto checkpoint.upload=s3://bucket/runs/all

# Killed while it fetches at its start: local files are then complete or absent, so that the next start can
# continue. A start that fails has uploaded nothing.
echo 'GET config.resolved hold' >server/faults
"$CLTRAIN" train long.json --out cut --resume auto checkpoint.upload=s3://bucket/runs/lost >cut.out 2>&1 &
process=$!
await_from $process is_held
kill -9 $process
wait $process 2>/dev/null
expect_absent cut/config.resolved.json
left=$(echo cut/config.resolved.json.tmp-*-$process) # .tmp-HASH-ID
lives=${left%-*}-$$ other=cut/config.resolved.json.tmp-0123456789abcdef-$process
expect_code 0 cp "$left" "$lives"
expect_code 0 cp "$left" "$other" # of another machine that shares the folder
cat cut.out >>outputs
puts() { grep -c '^PUT' server/requests; }
before=$(puts)
train 2 long.json --out cut --resume auto train.seed=7 checkpoint.upload=s3://bucket/runs/lost
expect_text 'fetched step'
expect_absent "$left"
expect_code 0 rm "$lives" "$other"
mv cut/log.txt cut.log
mkdir cut/log.txt # the run folder cannot be opened
train 8 long.json --out cut --resume auto checkpoint.upload=s3://bucket/runs/lost
if [ "$(puts)" -eq "$before" ]; then pass; else fail 'a start that has failed has uploaded something'; fi
rmdir cut/log.txt
mv cut.log cut/log.txt
train 0 long.json --out cut --resume auto --max-steps $((step + 20)) checkpoint.upload=s3://bucket/runs/lost
expect_same found/config.resolved.json cut/config.resolved.json

# Stopped: the last checkpoint is uploaded when the program ends.
"$CLTRAIN" train long.json --out stopped checkpoint.upload=s3://bucket/runs/stopped >stopped.out 2>&1 &
process=$!
await_from $process has_updates stopped 1
touch stopped/STOP
await_end $process
code=0
wait $process || code=$?
if [ $code -eq 75 ]; then pass; else fail "code $code instead of 75"; fi
cat stopped.out >>outputs
last=$(sed -n 's/.*"event":"stopped","step":\([0-9]*\),.*/\1/p' stopped/metrics.jsonl)
expect_code 0 "$CLTRAIN" ckpt verify "s3://bucket/runs/stopped/checkpoints/step_$last"
if [ "$(uploaded stopped | tail -n 1 | cut -d ' ' -f 1)" = "$last" ]; then pass; else fail 'no event tells of the last upload'; fi
if [ "$(last_event stopped)" = stopped ]; then pass; else fail 'the last line is not that the run was stopped'; fi

# interrupt PROCESS: Ctrl-C ends the wait of a run that is complete, with code 8
interrupt() {
    local code=0
    kill -INT "$1"
    await_end "$1"
    wait "$1" || code=$?
    if [ $code -eq 8 ]; then pass; else fail "code $code instead of 8"; fi
}

# A complete run waits for its uploads until a user interrupts the wait.
echo 'PUT step_40/manifest hold' >server/faults
"$CLTRAIN" train net.json --out held checkpoint.upload_seconds=0 checkpoint.upload=s3://bucket/runs/held >held.out 2>&1 &
process=$!
await_from $process is_held
interrupt $process
expect_code 0 grep -q 'the uploads were interrupted' held.out
if [ "$(last_event held)" = end ]; then pass; else fail 'the last line of an interrupted wait is not the end'; fi
if uploaded held | grep -q '^40 '; then fail 'an event tells of an upload that was interrupted'; else pass; fi
cat held.out >>outputs

# A prefix that holds another run; keys that are refused; no such bucket: refused at the start, before anything is made.
train 2 net.json --out other checkpoint.upload=s3://bucket/runs/whole
expect_text 'holds checkpoints of a run already'
touch server/locked
train 8 net.json --out other --resume auto checkpoint.upload=s3://bucket/runs/whole
expect_text '403 AccessDenied'
rm server/locked
train 8 net.json --out other checkpoint.upload=s3://nobucket/x
expect_text NoSuchBucket
train 2 net.json --out other checkpoint.upload=/tmp/x
expect_text 'looks like s3://bucket/prefix'
train 2 net.json --out other checkpoint.upload=s3://bucket/x storage.endpoint=http://192.0.2.1
expect_text 'storage.allow_http'
# An address that ends like a checkpoint's would put everything beside that checkpoint, where upload_keep
# deletes another run's checkpoints.
train 2 net.json --out other checkpoint.upload_keep=1 checkpoint.upload=s3://bucket/runs/whole/step_41
expect_text 'checkpoint.upload: s3://bucket/runs/whole/step_41: step_41 at its end .* such as s3://bucket/runs/whole/run_41'
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/whole/checkpoints/step_40
expect_absent other

# The files of two runs never mix at an address. A run is known by the first line of its metrics.jsonl, on whatever machine it goes on.
train 0 net.json --out first --max-steps 10 checkpoint.upload=s3://bucket/runs/shared
train 0 net.json --out second --max-steps 10
train 2 net.json --out second --resume auto checkpoint.upload=s3://bucket/runs/shared
expect_text "checkpoint.upload: s3://bucket/runs/shared holds another run than 'second', whose files would replace it"
guarded "$tool" bucket read runs/shared/metrics.jsonl >metrics 2>/dev/null
expect_same first/metrics.jsonl metrics
train 0 net.json --out first --resume auto checkpoint.upload=s3://bucket/runs/shared
guarded "$tool" bucket put runs/begun/metrics.jsonl second/metrics.jsonl 2>/dev/null # a run that has no checkpoint yet
train 2 net.json --out third checkpoint.upload=s3://bucket/runs/begun
expect_text 's3://bucket/runs/begun holds metrics of a run already'
# A run that ends before its first step leaves nothing at the address, so the same command can begin again.
touch notice
train 75 net.json --out early cloud.notice_file="$work/notice" checkpoint.upload=s3://bucket/runs/early
expect_text 'nothing was lost|before the first step'
if listed runs/early/ .; then fail 'a run without a step has uploaded something'; else pass; fi
rm notice
train 0 net.json --out early checkpoint.upload=s3://bucket/runs/early
# Two runs that have begun at the same moment.
"$CLTRAIN" train long.json checkpoint.every=4000000 --out duel checkpoint.upload_seconds=0 checkpoint.upload=s3://bucket/runs/duel >duel.out 2>&1 &
process=$!
await_from $process listed runs/duel/ config.resolved
guarded "$tool" bucket put runs/duel/metrics.jsonl second/metrics.jsonl 2>/dev/null
await_from $process has_updates duel 1
touch duel/STOP
await_end $process
code=0
wait $process || code=$?
if [ $code -eq 75 ]; then pass; else fail "code $code instead of 75"; fi
cp duel.out "$out"
kept_outputs
expect_text 'another run also writes to s3://bucket/runs/duel: '
if listed runs/duel/checkpoints/ .; then fail 'a checkpoint was uploaded beside the checkpoints of another run'; else pass; fi
guarded "$tool" bucket read runs/duel/metrics.jsonl >metrics 2>/dev/null
expect_same second/metrics.jsonl metrics

# Uploads that fail: the run continues, and they are tried again while it runs and at its end. If the newest
# checkpoint is still missing after that wait, the code of a complete run is 8.
"$CLTRAIN" train long.json checkpoint.every=4000000 --out again --max-steps 20 >"$out" 2>&1
for _ in 1 2; do echo 'PUT step_20/model AccessDenied.403'; done >server/faults
"$CLTRAIN" train long.json checkpoint.every=4000000 --out again --resume auto checkpoint.upload=s3://bucket/runs/again >again.out 2>&1 &
process=$!
await_from $process listed runs/again/checkpoints/step_20/ manifest.json # no newer checkpoint comes
touch again/STOP
await_end $process
wait $process
cat again.out >>outputs
if [ "$(grep -c '"event":"warning".*step 20 could not be uploaded and is retried' again/metrics.jsonl)" -eq 1 ]; then pass; else fail 'there is not one warning for two failures in a row'; fi
for _ in 1 2; do echo 'PUT step_40/model AccessDenied.403'; done >server/faults
train 0 net.json --out tried checkpoint.upload=s3://bucket/runs/tried
expect_text 'the checkpoint of step 40 could not be uploaded and is retried: .*403 AccessDenied'
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/tried/checkpoints/step_40
for _ in 1 2 3; do echo 'PUT tried.texts/log.txt AccessDenied.403'; done >server/faults # at the start, with the checkpoint, at the end
train 0 net.json --out texts checkpoint.upload=s3://bucket/runs/tried.texts
expect_text 'log.txt and config.resolved.json could not all be uploaded; .*log.txt: PUT: 403 AccessDenied'
echo 'PUT step_40/model AccessDenied.403*' >server/faults
: >server/requests
"$CLTRAIN" train net.json --out failed checkpoint.upload_seconds=0 checkpoint.upload=s3://bucket/runs/failed >failed.out 2>&1 &
process=$!
is_tried_again() { [ "$(grep -c 'PUT.*failed.*step_40/model' server/requests)" -ge 3 ]; }
await_from $process is_tried_again
interrupt $process
expect_code 0 grep -q 'runs/failed: the uploads were interrupted; s3://bucket/runs/failed/checkpoints/step_40/model.safetensors: PUT: 403' failed.out
cat failed.out >>outputs
same_end straight failed 40
train 8 net.json --out failed --resume auto checkpoint.upload_seconds=4 checkpoint.upload=s3://bucket/runs/failed
expect_text 'not all that the run has made is in s3://bucket/runs/failed: checkpoint.upload_seconds \(4\) were too few; .*step_40/model.safetensors: PUT: 403'
guarded "$tool" bucket read runs/failed/metrics.jsonl >there.jsonl 2>/dev/null # the checkpoint does not keep away what tells of it
expect_same failed/metrics.jsonl there.jsonl
rm server/faults
if [ "$(last_event failed)" = end ]; then pass; else fail 'the last line of a run whose upload has failed is not the end'; fi
if listed runs/failed/checkpoints/step_40/ manifest.json; then fail 'an incomplete checkpoint has a manifest'; else pass; fi
train 0 net.json --out failed --resume auto checkpoint.upload=s3://bucket/runs/failed # what is here goes there
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/failed/checkpoints/step_40

# An upload that hangs, of a checkpoint or of texts as they were before, does not keep away the final texts: they are sent beside it in the
# time that is reserved for them, by another client.
printf '%s\n' 'PUT hangs/.*step_40/model hold' 'PUT stuck/log.txt hold' >server/faults
limit=$((8 * ${CLTRAIN_TEST_PATIENCE:-1}))
"$CLTRAIN" train net.json --out hangs checkpoint.upload_seconds=$limit checkpoint.upload=s3://bucket/runs/hangs >hangs.out 2>&1 &
process=$!
train 8 net.json --out stuck checkpoint.upload_seconds=$limit checkpoint.upload=s3://bucket/runs/stuck
cp "$out" stuck.out
await_end $process
code=0
wait $process || code=$?
if [ $code -eq 8 ]; then pass; else fail "code $code instead of 8"; fi
for run in hangs stuck; do
    cp $run.out "$out"
    kept_outputs
    expect_text "not all that the run has made is in s3://bucket/runs/$run: checkpoint.upload_seconds \($limit\) were too few"
    if [ "$(last_event $run)" = end ]; then pass; else fail "the last line of $run is not the end"; fi
    guarded "$tool" bucket read runs/$run/metrics.jsonl >there.jsonl 2>/dev/null
    expect_same $run/metrics.jsonl there.jsonl
done
train 0 net.json --out hangs --resume auto checkpoint.upload=s3://bucket/runs/hangs
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/hangs/checkpoints/step_40

# checkpoint.upload_keep: older checkpoints are deleted, manifests first, except the best one and multiples
# of checkpoint.major, as in the folder.
awk 'BEGIN { for (i = 0; i < 40; i++) printf "%g,%g,%g\n", i / 40, i % 7 / 7, i / 20 }' >t.csv
awk -F, -v OFS=, '{ $3 = -$3; print }' t.csv >against.csv # what is learnt makes this worse, so that step 10 stays the best
net mse data.eval_path=against.csv optimizer.learning_rate=0.05 train.steps=50 checkpoint.every=10 train.eval_every=10 checkpoint.best=loss \
    checkpoint.keep=1 checkpoint.major=20 checkpoint.upload=s3://bucket/runs/kept checkpoint.upload_keep=1 >kept.json
steps_there() { guarded "$tool" bucket list runs/kept/ 2>/dev/null | sed -n 's:.*/step_\([0-9]*\)/.*:\1:p' | sort -n -u | paste -s -d ' '; }
expect_there() { if [ "$(steps_there)" = "$1" ]; then pass; else fail "the bucket has the steps $(steps_there) instead of $1"; fi; }
for steps in 10 20 30; do train 0 kept.json --out kept --resume auto --max-steps $steps; done
expect_there '10 20 30'
echo 'DELETE step_30/model AccessDenied.403' >server/faults
train 0 kept.json --out kept --resume auto --max-steps 35
expect_text 'older checkpoints stay in the bucket: .*step_30/model.*403 AccessDenied.* needs the right s3:DeleteObject'
if [ "$(grep -m 1 'DELETE.*/step_30/' server/requests)" = 'DELETE /bucket/runs/kept/checkpoints/step_30/manifest.json ' ]; then pass; else fail 'the manifest was not deleted first'; fi
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/kept/checkpoints/step_35
train 0 kept.json --out kept --resume auto --max-steps 38 # what is incomplete goes as well
reject_text 'stay in the bucket'
expect_there '10 20 38'
if [ "$(ls kept/checkpoints | paste -s -d ' ')" = 'step_10 step_20 step_38' ]; then pass; else fail "the folder has others: $(ls kept/checkpoints)"; fi

# Not only the newest checkpoint waits for its upload: the best one and multiples of checkpoint.major do,
# too, and come after it. None waits for one that is always refused, which is tried again after a pause.
# Until the new best one is uploaded, the previous best one stays there. A process uploads what the process
# before it could not.
cat >busy.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16], "activation": "gelu", "dropout": 0.5},
 "data": {"type": "synthetic", "samples": 52, "shape": [6], "classes": 3, "noise": 1.0, "micro_batch": 4, "global_batch": 8},
 "optimizer": {"learning_rate": 0.3, "clip": 1}, "schedule": {"type": "constant"}, "train": {"steps": 30, "eval_every": 15},
 "checkpoint": {"every": 7, "keep": 1, "major": 7, "best": "loss", "upload": "s3://bucket/runs/busy", "upload_keep": 1, "upload_seconds": 0}}
JSON
steps_there() { guarded "$tool" bucket list runs/busy/ 2>/dev/null | sed -n 's:.*/step_\([0-9]*\)/manifest.*:\1:p' | sort -n -u | paste -s -d ' '; }
train 0 busy.json --out busy --max-steps 12 # makes 7 and 12, which is the best so far
expect_there '7 12'
printf '%s\n' 'PUT step_14/manifest meet' 'GET /go meet' 'PUT step_15/manifest AccessDenied.403*' >server/faults
: >server/requests
"$CLTRAIN" train busy.json --out busy --resume auto >busy.out 2>&1 &
process=$!
await_from $process grep -q 'saved step 30 to' busy/log.txt # the upload of 14 still waits
cp busy.out "$out"
expect_text 'saved step 14 to' 'saved step 15 to' 'saved step 21 to' 'saved step 28 to'
guarded "$tool" bucket read go >/dev/null 2>&1
is_tried_again() { [ "$(grep -c 'PUT.*busy.*step_15/manifest' server/requests)" -ge 4 ]; } # after 30, 21 and 28, and after the pause
await_from $process is_tried_again
expect_there '7 12 14 21 28 30'
interrupt $process
cat busy.out >>outputs
rm server/faults
train 0 busy.json --out busy --resume auto
expect_text 'the run is complete'
expect_there '7 14 15 21 28 30'
if [ "$(ls busy/checkpoints | sort -t _ -k 2 -n | paste -s -d ' ')" = 'step_7 step_14 step_15 step_21 step_28 step_30' ]; then pass; else fail "the folder has: $(ls busy/checkpoints)"; fi
if [ "$(uploaded busy | tail -n +3 | cut -d ' ' -f 1 | paste -s -d ' ')" = '14 30 21 28 15' ]; then pass; else fail "uploaded were: $(uploaded busy)"; fi
expect_code 0 "$CLTRAIN" eval busy/checkpoints/step_15 --json here.json
expect_code 0 "$CLTRAIN" eval s3://bucket/runs/busy --best --json there.json
expect_same <(grep '"loss"' here.json) <(grep '"loss"' there.json)
# Another machine has only the newest one locally; the best one stays at the address, and the message names
# it.
rm -r busy
train 0 busy.json --out busy --resume auto train.steps=35
expect_text 'fetched step 30 from'
reject_text 'best checkpoint so far'
expect_there '7 14 15 21 28 35'
expect_code 7 "$CLTRAIN" eval busy --best
expect_text "after step 15, whose checkpoint is not in 'busy/checkpoints'; the run uploads to s3://bucket/runs/busy, where it may be"
expect_code 0 "$CLTRAIN" eval s3://bucket/runs/busy --best --json there.json
expect_same <(grep '"loss"' here.json) <(grep '"loss"' there.json)
for step in 15 21 28; do expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/busy/checkpoints/step_$step; done

# A machine is lost before it has uploaded the best one: on the next machine the previous best one, which is
# still uploaded, is the best again, and stays until a better one is uploaded.
sed 's:runs/busy:runs/gone:' busy.json >gone.json
steps_there() { guarded "$tool" bucket list runs/gone/ 2>/dev/null | sed -n 's:.*/step_\([0-9]*\)/manifest.*:\1:p' | sort -n -u | paste -s -d ' '; }
train 0 gone.json --out gone --max-steps 12
echo 'PUT gone.*step_15/manifest AccessDenied.403*' >server/faults
train 8 gone.json --out gone --resume auto --max-steps 16 checkpoint.upload_seconds=1
expect_text 'the checkpoint of step 15 could not be uploaded and is retried'
expect_there '7 12 14 16'
rm -r gone server/faults
train 0 gone.json --out gone --resume auto --max-steps 20 train.eval_every=0
expect_text 'the best checkpoint so far, of step 15, is neither in gone/checkpoints nor in s3://bucket/runs/gone: the one before it, of step 12, which is there, is the best one again'
expect_code 0 "$CLTRAIN" eval s3://bucket/runs/gone --best --json there.json
expect_there '7 12 14 20'

# If uploading a checkpoint takes longer than the run needs for checkpoint.keep newer ones, its local files
# stay until it is uploaded.
net mlp train.steps=40 checkpoint.every=10 checkpoint.keep=1 >slow.json
printf '%s\n' 'PUT slow.*step_10/model meet' 'GET /go meet' >server/faults
"$CLTRAIN" train slow.json --out slow checkpoint.upload=s3://bucket/runs/slow >slow.out 2>&1 &
process=$!
await_from $process grep -q 'saved step 40 to' slow/log.txt
guarded "$tool" bucket read go >/dev/null 2>&1
await_end $process
wait $process
cat slow.out >>outputs
if [ "$(uploaded slow | cut -d ' ' -f 1 | paste -s -d ' ')" = '10 40' ]; then pass; else fail "uploaded were: $(uploaded slow)"; fi
expect_code 0 "$CLTRAIN" ckpt verify s3://bucket/runs/slow/checkpoints/step_10

obeys server
cat ./*/metrics.jsonl ./*/log.txt ./*/config.resolved.json ./*/checkpoints/*/*.json >>outputs
no_secrets TEST/SECRET TESTKEY
finish
