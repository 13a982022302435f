#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 30 ctest-optimise: no
#
# Tuning from end to end: what `tune` measures is saved, shown, used by training and pinned in its checkpoints; a resumed run keeps
# the choices of its checkpoint whatever the cache contains; damaged, foreign and outdated records are ignored and replaced.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset CLTRAIN_GEMM
put=$CLTRAIN_BUILD_DIR/tests/put_record
[ -x "$put" ] || skip_all 'the tool put_record was not built'
# The program counts the processors that it may use, the tool does not: without this the two see different
# devices if some processors are not allowed.
POCL_MAX_PTHREAD_COUNT=$(nproc)
POCL_CPU_MAX_CU_COUNT=$POCL_MAX_PTHREAD_COUNT
export POCL_MAX_PTHREAD_COUNT POCL_CPU_MAX_CU_COUNT
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device'

cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [48], "activation": "tanh"},
 "data": {"type": "synthetic", "samples": 64, "shape": [80], "classes": 3, "micro_batch": 16},
 "optimizer": {"learning_rate": 0.02}, "train": {"steps": 8}, "checkpoint": {"every": 4, "keep": 0}}
JSON
use() { own_cache "$work/$1"; }
model() { echo "$1/checkpoints/step_8/model.safetensors"; }

# --- usage: settings out of range are errors ---
export CLTRAIN_CACHE_DIR=$work/none
for bad in 'device.tune=always' 'device.tune_seconds=0' 'device.tune_seconds=-1' 'device.tune_seconds=1e9' 'device.tune_seconds=soon'; do
    expect_code 2 "$CLTRAIN" train net.json --out never "$bad"
    expect_text "${bad%%=*}"
done
expect_absent never none
expect_code 2 "$CLTRAIN" tune net.json --seconds 0
expect_text "'0' is not a number from"
expect_code 2 "$CLTRAIN" tune net.json --list
expect_code 2 "$CLTRAIN" tune --list --clear
expect_code 2 "$CLTRAIN" tune train.steps=3
expect_code 2 "$CLTRAIN" tune missing.json
expect_code 0 "$CLTRAIN" tune --list
expect_text 'holds no tuning records'
expect_absent none

# --- measuring until everything was tried, with the backend that has the fewest candidates, so that it is
# fast ---
use measured
export CLTRAIN_GEMM=simple CLTRAIN_UPDATE=lane
expect_code 0 "$CLTRAIN" tune net.json --seconds 86400 --json tune.json
expect_text '^device .*: [0-9]+ problems$' '^NT m=16 n=48 k=80 batch=1 f32\*f32->f32' '^TN m=48 n=80 k=16' 'geometric mean' 'records kept in'
reject_text 'wrong result' 'skipped:'
unset CLTRAIN_GEMM CLTRAIN_UPDATE
expect_awk 'the record needs its keys' '/"speed_up"/ { n++ } /"tried"/ { t++ } /"complete": false/ { c++ } END { exit !(n > 0 && t == n && c == n) }' tune.json
expect_file measured/tuning/*.json
if [ "$(stat -c %a measured/tuning)" = 700 ]; then pass; else fail 'the folder of records should be private'; fi
expect_code 0 "$CLTRAIN" tune --list
expect_text '^  device .* records$' '^  gemm +NT m=16 n=48 k=80'
expect_code 0 "$CLTRAIN" train net.json --out tuned
with_log tuned
expect_text '^tuning +([0-9]+) of \1 problems tuned \(cached\), choices [0-9a-f]{16}$'
expect_code 0 "$CLTRAIN" train net.json --out untuned device.tune=off
with_log untuned
expect_text '^tuning +off$'
expect_code 0 "$CLTRAIN" tune --clear
expect_text 'were deleted$'
expect_code 0 "$CLTRAIN" tune --clear
expect_text 'there are no tuning records'
expect_absent measured/tuning/*.json
# What was measured with capabilities masked does not apply to other runs.
use masked
expect_code 0 "$CLTRAIN" tune net.json --seconds 20 --caps none
expect_text '^device .*: [0-9]+ problems$' 'measured on a device that --caps makes weaker .*, so the records are not kept'
reject_text 'records kept'
expect_absent masked/tuning
expect_code 2 env CLTRAIN_GEMM=simpel "$CLTRAIN" tune --seconds 1
expect_text 'CLTRAIN_GEMM=simpel'

# --- a record decides: simple and the default round the sums of this product differently ---
problem='NT m=16 n=48 k=80 batch=1 f32*f32->f32'
use by_record
expect_code 0 "$put" "$problem" simple
record=$(cat "$out")
expect_code 0 "$CLTRAIN" plan net.json --full
expect_text 'kernel .*\.forward +simple +gemm_fwd_dot'
expect_code 0 "$CLTRAIN" train net.json --out recorded
with_log recorded
expect_text '^tuning +1 of [0-9]+ problems tuned'
if cmp -s "$(model untuned)" "$(model recorded)"; then
    note_skip 'simple and the default give the same bits here: pinned choices cannot be told from others'
fi
expect_code 0 grep -c '"problem": "NT m=16 n=48 k=80' recorded/checkpoints/step_4/state.json
reject_text '^0$'
if grep -q '"ns"' recorded/checkpoints/step_4/state.json; then fail 'times do not belong into a checkpoint'; else pass; fi
expect_code 0 "$CLTRAIN" bench gemm --sizes 16x48x80 --layout nt --seconds 0.01
expect_text '16 +48 +80 +nt .*simple'

# --- and is pinned: the resumed run keeps it without any record on the disk, and with another one ---
half() { # NAME FROM: a run that ended after step 4
    rm -rf "$1" && mkdir -p "$1/checkpoints"
    cp "$2/config.resolved.json" "$2/metrics.jsonl" "$1/"
    cp -r "$2/checkpoints/step_4" "$1/checkpoints/"
}
use empty
half again recorded
expect_code 0 "$CLTRAIN" train net.json --out again --resume auto
with_log again
expect_text '^tuning +1 of [0-9]+ problems tuned \(kept from the checkpoint\)'
expect_same "$(model recorded)" "$(model again)"
use by_record
half plain untuned # nothing was pinned there, and nothing stays
expect_code 0 "$CLTRAIN" train net.json --out plain --resume auto device.tune=cached
with_log plain
expect_text '^tuning +0 of [0-9]+ problems tuned \(kept from the checkpoint\)'
expect_same "$(model untuned)" "$(model plain)"
half dropped recorded
expect_code 0 "$CLTRAIN" train net.json --out dropped --resume auto device.tune=off
with_log dropped
expect_text 'device.tune is off: the 1 choices in dropped are not used' '^tuning +off$'

# --- records that must not be trusted: one line, the default is used, and they are replaced ---
damage() { # what to do with the file
    cp good.json "$record"
    "$@"
    expect_code 0 "$CLTRAIN" train net.json --out damaged
    if [ "$(grep -c 'tuning records are ignored' "$out")" -eq 1 ]; then pass; else fail 'it should be said once'; fi
    with_log damaged
    expect_text "^warning: tuning records are ignored: .*" '^tuning +0 of [0-9]+ problems tuned \(cached\)'
    expect_same "$(model untuned)" "$(model damaged)"
    rm -rf damaged
    expect_code 0 "$put" "$problem" simple
    expect_code 0 "$CLTRAIN" train net.json --out damaged
    with_log damaged
    reject_text 'ignored'
    expect_text '^tuning +1 of'
    rm -rf damaged
}
cp "$record" good.json
half_written() { head -c 300 good.json >"$record"; }
edited() { sed 's/simple/clblast/' good.json >"$record"; }
emptied() { : >"$record"; }
foreign() { sed 's/"driver": "/&x/' good.json >"$record"; }
damage edited
if all_cases; then
    damage half_written
    damage emptied
    damage foreign
fi
# The file of one device in place of another's.
use other
expect_code 0 env POCL_MAX_PTHREAD_COUNT=1 POCL_CPU_MAX_CU_COUNT=1 "$put" "$problem" simple
moved=$(cat "$out")
if [ "$(basename "$moved")" != "$(basename "$record")" ]; then
    mv "$moved" "other/tuning/$(basename "$record")"
    expect_code 0 "$CLTRAIN" train net.json --out foreign
    with_log foreign
    expect_text '^warning: tuning records are ignored: .*its records are for 1 compute units, this device has'
    expect_same "$(model untuned)" "$(model foreign)"
fi
# Other kernels than those of the record.
use by_record
mkdir kernels
cp "$CLTRAIN_BUILD_DIR/kernels/gemm.cl" kernels/
echo '/* changed */' >>kernels/gemm.cl
expect_code 0 env CLTRAIN_KERNEL_DIR=kernels "$CLTRAIN" train net.json --out changed
with_log changed
expect_text '^warning: 1 tuning records in .* were measured with other kernels' '^tuning +0 of'
# A variant that does not exist any more, a value that is not offered: the default is used.
expect_code 0 "$put" "$problem" vanished
expect_code 0 "$CLTRAIN" train net.json --out vanished
expect_same "$(model untuned)" "$(model vanished)"
expect_code 0 "$put" "$problem" simple mr=3
expect_code 0 "$CLTRAIN" train net.json --out offered
expect_same "$(model untuned)" "$(model offered)"

# --- device.tune on: measured at the start, once ---
use started
export CLTRAIN_GEMM=simple
expect_code 0 "$CLTRAIN" train net.json --out on device.tune=on device.tune_seconds=3600
with_log on
expect_text '^tuning +[0-9]+ of [0-9]+ problems tuned \(on\), choices .*, measured for [0-9.]+ s$'
expect_code 0 "$CLTRAIN" train net.json --out on-again device.tune=on
with_log on-again
reject_text 'measured for'
expect_text '^tuning +[0-9]+ of [0-9]+ problems tuned \(on\), choices [0-9a-f]{16}$'
expect_same "$(model on)" "$(model on-again)"
# A result that cannot be saved is used nevertheless.
use closed && touch closed/tuning
expect_code 0 "$CLTRAIN" train net.json --out unkept device.tune=on device.tune_seconds=3600
with_log unkept
expect_text '^warning: saving tuning records: ' 'measured for'
expect_code 8 "$CLTRAIN" tune net.json --seconds 10
finish
