#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 10 ctest-optimise: no
#
# cltrain ckpt ls, verify, get and gc on checkpoints in object storage (storage_double.py): complete, incomplete and damaged ones, faults on
# the way, refused keys, and a training that goes on from a fetched checkpoint.
. "$(dirname "${BASH_SOURCE[0]}")/storage_lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

net mlp train.steps=30 checkpoint.every=10 checkpoint.keep=0 >net.json
expect_code 0 "$CLTRAIN" train net.json --out straight
storage_double server
clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
ckpt() { expect_code "$1" "$CLTRAIN" ckpt "${@:2}"; kept_outputs; }
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
# put STEP [NAME]: uploads the files of a checkpoint but not the file NAME
put() {
    local file
    for file in straight/checkpoints/step_"$1"/*; do
        [ "${file##*/}" = "${2:-}" ] || guarded "$tool" bucket upload "runs/a/checkpoints/step_$1/${file##*/}" "$file" 2>/dev/null || fail "uploading $file"
    done
}

ckpt 7 ls s3://bucket/runs/a
expect_text 's3://bucket/runs/a: there are no checkpoints'
put 10
put 20
put 30 manifest.json
echo 3 >server/page # lists have many pages
ckpt 0 ls s3://bucket/runs/a/
expect_text '^ +10 .*complete$' '^ +20 .* complete$' '^ +30 .* incomplete$'
ckpt 0 ls s3://bucket/runs/a/checkpoints
expect_text '^ +10 .*complete$'
ckpt 0 ls s3://bucket/runs/a/checkpoints/step_20 --json
expect_text '"step": 20' '"complete": true'
reject_text '"step": 10'
ckpt 7 ls s3://bucket/runs
ckpt 7 verify s3://bucket/runs/a
expect_text 'step_10/: intact' 'step_20/: intact' 'step_30/: damaged: .*has no manifest.json' '1 of 3 is damaged'
ckpt 0 verify s3://bucket/runs/a/checkpoints/step_20 straight/checkpoints/step_20
expect_text 's3://bucket/runs/a/checkpoints/step_20/: intact' '^straight/checkpoints/step_20: intact'

# --- get: the newest complete one, or the one that is named ---
echo 'GET model hold' >server/faults
"$CLTRAIN" ckpt get s3://bucket/runs/a --out run >killed.out 2>&1 &
process=$!
is_held() { [ ! -s server/faults ]; }
await_from $process is_held
kill -9 $process
wait $process 2>/dev/null
left=$(basename run/checkpoints/step_20.tmp-fetch-*-$process) # step_20.tmp-fetch-HASH-ID
own=${left%-*} other=step_30.tmp-fetch-0123456789abcdef old=step_40.tmp-fetch-0123456789abcdef
mkdir run/checkpoints/{"$own-$$","$other-$process","$old-$process","$old-$$",step_30.tmp-$process}
touch run/checkpoints/"$old-$$"/model.safetensors
touch -d '2 days ago' run/checkpoints/"$old"-{$process,$$}
printf '%s\n' 'GET model cut' 'GET model 500' 'GET manifest reset' >server/faults
ckpt 0 get s3://bucket/runs/a --out run
# What a fetch that was killed has left goes, and what has not changed for a day; what belongs to a process that lives, to another machine,
# on which a process of this number may live, or to a save, stays.
if [ "$(ls run/checkpoints | sort | paste -s -d ' ')" = "$(printf '%s\n' step_20 "$own-$$" "$other-$process" "$old-$$" step_30.tmp-$process | sort | paste -s -d ' ')" ]; then pass; else fail "the folder has: $(ls run/checkpoints)"; fi
rm -r run/checkpoints/step_*.tmp-*
expect_text '^run/checkpoints/step_20: intact'
expect_same straight/checkpoints/step_20/model.safetensors run/checkpoints/step_20/model.safetensors
expect_absent run/checkpoints/step_20.tmp-* run/checkpoints/step_30
ckpt 2 get s3://bucket/runs/a --out run
expect_text 'exists already'
ckpt 0 get s3://bucket/runs/a --step 10 --out run
ckpt 7 get s3://bucket/runs/a --step 30 --out run
expect_text 'is not a complete checkpoint'
ckpt 7 get s3://bucket/runs/a --step 40 --out run
expect_text 'there is no checkpoint of step 40'
ckpt 7 get s3://bucket/other --out run
ckpt 2 get s3://bucket/runs/a
# In the folder of a run that trains, the next save would remove the files of the fetch, and a later start
# would take another run's checkpoint for the newest: it is refused until the run has ended.
net mlp train.steps=4000000 checkpoint.every=4000000 >long.json
"$CLTRAIN" train long.json --out busy >busy.out 2>&1 &
process=$!
await_from $process has_updates busy 1
ckpt 8 get s3://bucket/runs/a --out busy
expect_text "'busy' is in use, by a training or by another fetch: locking 'busy/lock': it is held by process $process on host"
touch busy/STOP
await_end $process
wait $process
if compgen -G 'busy/checkpoints/step_20*' >/dev/null; then fail 'a checkpoint was fetched into the folder of a run that trains'; else pass; fi
ckpt 0 get s3://bucket/runs/a --out busy
expect_absent busy/lock
# A fetched checkpoint is trained on, with the same bits.
expect_code 0 "$CLTRAIN" train net.json --out run --resume auto
expect_text 'step 20'
expect_same straight/checkpoints/step_30/model.safetensors run/checkpoints/step_30/model.safetensors

# --- commands read a run where it lies: its newest complete checkpoint, and its metrics ---
for file in metrics.jsonl config.resolved.json; do
    guarded "$tool" bucket upload "runs/a/$file" "straight/$file" 2>/dev/null || fail "uploading $file"
done
export CLTRAIN_CACHE_DIR=$work/cache
reads() { expect_code "$1" "$CLTRAIN" "${@:2}"; kept_outputs; }
reads 0 export straight/checkpoints/step_20 --out near.safetensors
for place in runs/a runs/a/ runs/a/checkpoints runs/a/checkpoints/step_20; do
    reads 0 export s3://bucket/$place --out far.safetensors
    expect_same near.safetensors far.safetensors
    rm far.safetensors
done
reads 0 export s3://bucket/runs/a --out far.safetensors
expect_text 'step_30 is skipped: .*has no manifest.json' 'from s3://bucket/runs/a/checkpoints/step_20'
reads 0 eval s3://bucket/runs/a/checkpoints/step_20
reads 0 ckpt diff s3://bucket/runs/a straight/checkpoints/step_20
expect_text 'have the same bits'
reads 0 compare s3://bucket/runs/a straight
expect_text 'config: the same' 'losses: equal in all 30 common steps'
reads 0 compare s3://bucket/runs/a/checkpoints/step_20 straight
reads 0 report s3://bucket/runs/a
expect_text '^report: ./report.html '
reads 0 watch s3://bucket/runs/a
expect_text 's3://bucket/runs/a: finished, step 30 of 30'
sed '/"end"/d; /"step":30/d' straight/metrics.jsonl >unfinished
guarded "$tool" bucket upload runs/b/metrics.jsonl unfinished 2>/dev/null
reads 0 watch s3://bucket/runs/b
expect_text 's3://bucket/runs/b: not finished, step 29 .*: the bucket does not show'
for command in 'compare straight' report watch eval; do
    reads 2 $command s3://bucket/runs/none
    expect_text "'s3://bucket/runs/none': nothing is there; check the address"
done
reads 7 export s3://bucket/runs/none --out none.safetensors
expect_text "'s3://bucket/runs/none': nothing is there; check the address"
touch server/locked
for command in 'compare straight' report watch eval 'export --out x'; do
    reads 8 $command s3://bucket/runs/a
    expect_text 's3://bucket/runs/a: HEAD: 403; the keys do not allow this'
done
rm server/locked

# A '/' at the end changes nothing.
for place in runs/a runs/a/checkpoints runs/a/checkpoints/step_20; do
    reads 0 report s3://bucket/$place/ --out page.html
    expect_text '^report: page.html '
done

# A refusal by the server is no reason to take an older checkpoint, and is not reported as "is not there".
refused() { # METHOD PATTERN: more often than the client asks
    for i in 1 2 3 4 5 6; do echo "$1 $2 403"; done >server/faults
}
rm -rf cache
for command in 'export --out x.safetensors' eval 'ckpt diff straight/checkpoints/step_20'; do
    refused GET step_20/model
    reads 8 $command s3://bucket/runs/a
    expect_text 's3://bucket/runs/a/checkpoints/step_20/model.safetensors: GET: 403'
    reject_text 'step_20 is skipped' 'step_10'
done
expect_absent x.safetensors
refused GET step_20/state
reads 8 ckpt show s3://bucket/runs/a
expect_text 'step_20/state.json: GET: 403'
refused HEAD runs/a/metrics.jsonl
reads 8 report s3://bucket/runs/a/checkpoints
expect_text 's3://bucket/runs/a/metrics.jsonl: HEAD: 403'
reject_text 'has no metrics.jsonl'
rm server/faults

# Results are written to a disk, and no folder "s3:" is made.
mkdir texts && echo 'some words' >texts/a.txt
echo '{"config": "net.json", "keys": {"optimizer.learning_rate": {"values": [0.001, 0.01]}}}' >sweep.json
local_only() {
    reads 2 "$@"
    expect_text "writing 's3://bucket/out[^ ]*': results are written to a disk of this machine"
    expect_absent s3:
}
local_only train net.json --out s3://bucket/out
local_only train net.json --out s3://bucket/out --resume auto
local_only sweep sweep.json --out s3://bucket/out
local_only report straight --out s3://bucket/out.html
local_only ckpt get s3://bucket/runs/a --out s3://bucket/out
local_only data show none.json --out s3://bucket/out.html # before anything is read
local_only data prepare texts --tokenizer bytes --out s3://bucket/out
for end in .safetensors .gguf ''; do local_only export straight --out s3://bucket/out$end; done

# --- damage: a byte of a file, a size, a missing file, a manifest ---
flipped=straight/checkpoints/step_10/model.safetensors
cp $flipped good
size=$(stat -c %s $flipped)
{ head -c $((size - 1)) good; tail -c 1 good | tr '\000-\377' '\001-\377\000'; } >$flipped
put 10
ckpt 7 verify s3://bucket/runs/a/checkpoints/step_10
expect_text 'does not match the hash in its manifest'
ckpt 7 get s3://bucket/runs/a --step 10 --out damaged
expect_absent damaged/checkpoints/step_10
if compgen -G 'damaged/checkpoints/*' >/dev/null; then fail 'a damaged checkpoint has left files'; else pass; fi
head -c 100 good >$flipped
put 10
ckpt 7 get s3://bucket/runs/a --step 10 --out damaged
expect_text 'it was truncated or changed'
guarded "$tool" bucket delete runs/a/checkpoints/step_10/model.safetensors 2>/dev/null
ckpt 7 verify s3://bucket/runs/a/checkpoints/step_10
expect_text 'model.safetensors is missing'
cp good $flipped
put 10
printf 'GET step_10/manifest damage\n' >server/faults
ckpt 7 verify s3://bucket/runs/a/checkpoints/step_10
expect_text 'manifest.json: does not match its own hash'

# --- keys that are refused: never reported as "there are none" ---
touch server/locked
for command in ls verify 'get --out run2' gc; do
    ckpt 8 ${command%% *} s3://bucket/runs/a $(sed 's/^[a-z]* *//' <<<"$command")
    expect_text '403 AccessDenied' 'the keys do not allow this'
done
rm server/locked
expect_absent run2

# --- gc ---
put 10 manifest.json
guarded "$tool" bucket delete runs/a/checkpoints/step_10/manifest.json 2>/dev/null
ckpt 0 gc s3://bucket/runs/a --dry-run
expect_text 'step_10/: would be deleted \(incomplete'
reject_text 'step_20' 'step_30' # the upload of step 30 may still be going on
ckpt 0 gc s3://bucket/runs/a
expect_text 'step_10/: deleted'
put 10
put 30
ckpt 0 gc s3://bucket/runs/a
[ -s "$out" ] && fail 'nothing was left to delete' || pass
ckpt 0 gc s3://bucket/runs/a --keep 2
expect_text 'step_10/: deleted \(older'
reject_text 'step_20'
# The manifest is deleted first, so that a reader never takes a partly deleted checkpoint for complete.
if [ "$(grep 'DELETE.*step_10' server/requests | tail -n "$(ls straight/checkpoints/step_10 | wc -l)" | head -n 1)" = 'DELETE /bucket/runs/a/checkpoints/step_10/manifest.json ' ]; then
    pass
else
    fail 'the manifest was not deleted first'
fi
ckpt 0 ls s3://bucket/runs/a
expect_text '^ +20 ' '^ +30 '
reject_text '^ +10 '
# gc of one checkpoint does not touch others that are uploaded at the same time.
head -c 20000000 /dev/zero >large
for step in 20 30; do
    printf '%s\n' 'PUT partNumber=2 AccessDenied.403' 'DELETE uploadId AccessDenied.403' >server/faults
    guarded "$tool" bucket upload runs/a/checkpoints/step_$step/large large >"$out" 2>&1
    expect_text 'the parts of an upload stay'
done
# The age of uploads is measured by the server's clock, which may differ from this machine's; in a bucket
# without a prefix, uploads of other programs stay.
leave() { # KEY: an upload that is never finished
    printf '%s\n' 'PUT partNumber=2 AccessDenied.403' 'DELETE uploadId AccessDenied.403' >server/faults
    guarded "$tool" bucket upload "$1" large >"$out" 2>&1
    expect_text 'the parts of an upload stay'
}
leave checkpoints/step_7/large
leave log.txt
leave others/backup.tar
leave step_x/large
aborts() { # NUMBER ADDRESS
    ckpt 0 gc "$2"
    if [ "$1" -gt 0 ]; then expect_text "never finished: $1 aborted"; else reject_text 'aborted'; fi
}
aborts 0 s3://bucket/runs/a # they are new
echo 100000 >server/clock
aborts 1 s3://bucket/runs/a/checkpoints/step_20
aborts 1 s3://bucket/runs/a
aborts 2 s3://bucket
aborts 0 s3://bucket
rm server/clock
guarded "$tool" bucket abort '' >"$out" 2>/dev/null
expect_text '^2$' # what other programs have begun
ckpt 2 gc runs/a
expect_text 'looks like s3://bucket/prefix'
AWS_ENDPOINT_URL_S3= ckpt 0 ls s3://bucket/runs/a --endpoint "$address" --region us-east-1

obeys server
no_secrets TEST/SECRET
finish
