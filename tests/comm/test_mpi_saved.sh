#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 45 ctest-optimise: no
#
# Checkpoints that several ranks write together: if a rank's disk fails, that checkpoint is lost and the
# rank is named; three failures in a row end the run; if a rank is killed while it writes, the older
# checkpoint is left, from which the run resumes; hosts that do not share rank 0's disk make the same files.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
shims=${CLTRAIN_BUILD_DIR:?}/tests
[ -f "$shims/io_shim.so" ] && [ -f "$shims/driver_shim.so" ] || skip_all 'the shims were not built'

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [512]},
 "data": {"type": "synthetic", "samples": 500, "shape": [80], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 20}, "checkpoint": {"every": 5}}
JSON
# with_shim.sh RANK PLAN ACTION RUN OPTION...: three ranks, one of which has storage that fails (tests/fault/io_shim.c).
cat >with_shim.sh <<SH
#!/bin/sh
export SHIM_RANK=\$1 CLT_SHIM_PLAN=\$2 CLT_SHIM_ACTION=\$3 CLT_SHIM_FOLDER=$work/\$4/checkpoints CLT_SHIM_LOG=$work/calls
[ \$1 = 0 ] || export CLT_SHIM_PART=1 # rank 0 makes the folders
run=$work/\$4
rm -f calls
shift 4
exec ${mpi[@]} 3 ./one_rank.sh train small.json --out "\$run" "\$@"
SH
cat >one_rank.sh <<SH
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" != "\$SHIM_RANK" ] || export LD_PRELOAD=$shims/\${SHIM:-io_shim}.so
exec "$CLTRAIN" "\$@"
SH
chmod +x with_shim.sh one_rank.sh
saved() { # RUN STEP...: these are all there is in its checkpoints folder
    local want
    want=$(printf 'step_%s\n' "${@:2}" | sort)
    if [ "$(ls "$1/checkpoints")" = "$want" ]; then pass; else fail "$1 has: $(ls "$1/checkpoints")"; fi
}
hit() { # the shim made a call fail
    if grep -q ' hit$' calls; then pass; else fail 'no call was made to fail'; fi
}
same_files() { # RUN_A RUN_B STEP
    for file in model optimizer; do
        expect_same "$1/checkpoints/step_$3/$file.safetensors" "$2/checkpoints/step_$3/$file.safetensors"
    done
}

expect_code 0 "${mpi[@]}" 3 "$CLTRAIN" train small.json --out well
saved well 10 15 20
for shard in none optimizer; do
    expect_code 0 ./with_shim.sh 2 0,2+ ENOSPC "full.$shard" parallel.shard=$shard
    expect_text 'the checkpoint of step 10 could not be written \(1 in a row\), training continues: rank 2 on .*No space left on device'
    hit
    saved "full.$shard" 5 15 20
    same_files well "full.$shard" 15
    same_files well "full.$shard" 20
done
expect_code 8 ./with_shim.sh 1 0,1+,1+,1+ EIO broken
expect_text '3 checkpoints in a row could not be written, the run ends' 'rank 1 on .*Input/output error'
hit
saved broken 5
touch broken/shared-123-45af broken/shared-0123456789abcdef-123-45af broken/shared-notes # of runs that were killed, and a file of the user's
expect_code 0 "${mpi[@]}" 3 "$CLTRAIN" train small.json --out broken --resume auto
if [ ! -e broken/shared-123-45af ] && [ ! -e broken/shared-0123456789abcdef-123-45af ] && [ -e broken/shared-notes ]; then pass; else fail "files: $(ls broken)"; fi
same_files well broken 20

# Rank 0's disk: when it makes the files, and when it places them. The number of the call NAME PATH in the
# log of a save:
call_of() { awk -v save="$1" -v name="$2" -v path="$3" '$1 == save && $3 == name && $4 ~ path { print $2; exit }' calls; }
expect_code 0 ./with_shim.sh 0 '' EIO rank0
first=$(call_of 2 open '^/step_10.tmp-.*/model.safetensors$')
last=$(call_of 2 rename '^/step_10.tmp-')
if [ "${first:-0}" -gt 0 ] && [ "${last:-0}" -gt "${first:-0}" ]; then pass; else fail "no such calls of rank 0: $(cat calls)"; fi
for call in "$first" "$last"; do
    expect_code 0 ./with_shim.sh 0 "0,$call" ENOSPC "rank0.$call"
    expect_text 'the checkpoint of step 10 could not be written \(1 in a row\), training continues: .*No space left on device'
    hit
    saved "rank0.$call" 5 15 20
    same_files well "rank0.$call" 20
done

# The rank that reads files of this size again fails to read: the older checkpoint is kept. The first save
# has nothing to delete, so its files are not read.
expect_code 0 ./with_shim.sh 2 '' EIO again checkpoint.keep=1
saved again 20
call=$(call_of 2 open '^/step_10/model.safetensors$')
if [ -z "$(call_of 1 open '^/step_5/')" ] && [ "${call:-0}" -gt 0 ]; then pass; else fail "which are read again: $(cat calls)"; fi
expect_code 0 ./with_shim.sh 2 "0,$call" EIO unread checkpoint.keep=1 train.steps=10
expect_text 'older checkpoints are kept, because the checkpoint of step 10 does not verify: rank 2 on .*Input/output error'
hit
saved unread 5 10

# A bit changes on the way from rank 1's device, in its share of a moment: that checkpoint is not kept,
# whichever rank has the moment. Undivided it is 15 of 45 chunks, like the parameter that is read before it;
# divided it is 16, like the gradient that every rank reads after step 3.
for shard in none optimizer; do
    if [ $shard = none ]; then rule=read:bytes=61440:flip:nth=2; else rule=read:bytes=65536:flip:nth=2; fi
    expect_code 0 env SHIM=driver_shim SHIM_RANK=1 CLT_SHIM=$rule \
        "${mpi[@]}" 3 ./one_rank.sh train small.json --out "flip.$shard" parallel.shard=$shard
    expect_text "checkpoint of step 5 could not be written.*rank 1 on .*reading 'fc1.weight.moment1' .* arrived with other bits"
    same_files well "flip.$shard" 10
done

# Two of rank 1's calls: opening its file, and writing to it.
for call in 1 2; do
    code=0
    ./with_shim.sh 1 0,$call kill killed >"$out" 2>&1 || code=$?
    hit
    if [ $code -ne 0 ] && [ $code -ne 75 ]; then pass; else fail "code $code after a rank was killed"; fi
    [ -d killed/checkpoints/step_5 ] || fail 'the older checkpoint is gone'
    [ ! -d killed/checkpoints/step_10 ] || fail 'a checkpoint without the part of a killed rank'
    expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train small.json --out killed --resume auto --max-steps 6
    saved killed 5 6
    rm -rf killed
done

# Two hosts; the far one has another disk at the path of the run folder.
if why=$(hosts_refused); then
    echo "not tried on two hosts: $why"
    finish
fi
mkdir apart
export far_first="mount -t tmpfs apart $work/apart"
make_hosts 2 2>refused || { echo "not tried on two hosts: $(tail -n 1 refused)"; finish; }
trap 'remove_hosts; rm -rf "$work"' EXIT
for shard in none optimizer; do
    start=(./start.sh -np 4 "$CLTRAIN" train small.json train.steps=10 checkpoint.keep=1 optimizer.type=adamw parallel.shard=$shard)
    expect_code 0 "${start[@]}" --out "together.$shard"
    expect_code 0 "${start[@]}" --out "apart/$shard"
    if [ $shard = optimizer ]; then expect_text "2 of 4 ranks do not see the folder 'apart/optimizer/checkpoints'"; fi
    saved "apart/$shard" 10
    same_files "together.$shard" "apart/$shard" 10
done
same_files together.none together.optimizer 10
# To resume, every host needs the checkpoint: a host that lacks it ends the job, with the path, and the run
# does not change.
for resume in auto apart/none; do
    expect_code 7 ./start.sh -np 4 "$CLTRAIN" train small.json train.steps=12 checkpoint.keep=1 optimizer.type=adamw --out apart/none --resume $resume
    expect_text 'apart/none/checkpoints/step_10'
    saved apart/none 10
done

# Data from a rank of the far host is compared as well: a bit changes in its share of a moment.
expect_code 0 ./start.sh -x SHIM=driver_shim -x SHIM_RANK=2 -x CLT_SHIM=read:bytes=49152:flip:nth=2 -np 4 "$work/one_rank.sh" train small.json \
    train.steps=10 parallel.shard=optimizer --out apart/flip
expect_text "checkpoint of step 5 could not be written.*rank 2 on .*reading 'fc1.weight.moment1' .* arrived with other bits"
saved apart/flip 10
same_files together.optimizer apart/flip 10
finish
