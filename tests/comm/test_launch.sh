#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 25 ctest-optimise: no
#
# cltrain launch: starts the ranks, resumes from the newest checkpoint when a rank is killed, saves and ends
# on a signal, and gives up when a restart achieves nothing. A run resumes with other numbers of ranks.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM # launch allows it where it is needed
export OMPI_MCA_mpi_yield_when_idle=1

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 1000000}, "checkpoint": {"every": 300}}
JSON
# --- a warning about the config is printed once, by the first rank, and not by the launcher and each
# rank ---
sed 's/"train": {"steps": 1000000}/"schedule": {"warmup": 400}, "train": {"steps": 4000}/; s/, "checkpoint".*/}/' small.json >warm.json
expect_code 0 "$CLTRAIN" launch warm.json train.steps=4 --devices 2 --out warm
expect_text 'schedule.warmup is 1 instead of 400, since the training is shorter'
[ "$(grep -c 'schedule.warmup is' "$out")" -eq 1 ] && pass || fail 'one warning'

# begin RUN ARGUMENT...: launches in the background; the output goes to RUN.out. $launcher is its process.
begin() {
    local run=$1
    shift
    setsid "$CLTRAIN" launch --out "$run" "$@" >"$run.out" 2>&1 &
    launcher=$!
}
# listens PROCESS...: the addresses at which these processes accept TCP connections, in the form of
# /proc/net/tcp.
listens() {
    local process
    for process in "$@"; do
        find "/proc/$process/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -cd '0-9\n' |
            awk 'NR == FNR { mine[$1]; next } $4 == "0A" && ($10 in mine) { print $2 }' - /proc/net/tcp /proc/net/tcp6
    done
}
ranks() { pgrep -P "$(pgrep -P $launcher | head -n 1)"; } # processes of the ranks

# Remains of jobs that SIGKILL ended are removed: segments that no process maps, and folders of processes
# that are gone. Segments that are younger than a minute, mapped, or of other hosts stay.
export TMPDIR=$work/tmp
host=$(uname -n) segments=/dev/shm/vader_segment
host=${host%%.*}
left=("$segments.$host.$UID.test$$.0" "$segments.$host.$UID.test$$.1" "$segments.other.$UID.test$$.2" "$segments.$host.$UID.test$$.3")
{ npy_header '<f4' '(64, 8)' && head -c 2048 /dev/zero; } | tee "${left[@]}" >/dev/null
{ npy_header '|u1' '(64,)' && head -c 64 /dev/zero; } >y.npy
trap 'rm -rf "$work" "${left[@]}"' EXIT
touch -d '5 minutes ago' "${left[0]}" "${left[2]}" "${left[3]}"
touch -d '1 day' "${left[1]}" # a minute may pass before it is looked at
sed 's|"type": "synthetic", "samples": 500, "shape": .8., "classes": 5|"type": "npy", "path": "'"${left[3]}"'", "targets": "y.npy"|; s/"hidden": .16./&, "outputs": 5/' \
    small.json >mapped.json
"$CLTRAIN" train mapped.json --out maps >maps.out 2>&1 &
holder=$!
await_from $holder has_updates maps
gone=99999999 # no process has this number
mkdir -p "$TMPDIR/ompi.$host.$UID/pid.$gone/1" "$TMPDIR/ompi.$host.$UID/pid.$$"

# A rank is killed: the job starts again, and computes the same as an undisturbed one.
begin killed --devices 2 small.json
await_from $launcher saved_after killed 0
if [ "$(readlink /proc/self/ns/pid)" != 'pid:[4026531836]' ]; then
    note_skip 'inside of a container nothing of killed jobs is removed'
    if [ -e "${left[0]}" ] && [ -e "$TMPDIR/ompi.$host.$UID/pid.$gone" ]; then pass; else fail 'something was removed inside of a container'; fi
else
    if [ ! -e "${left[0]}" ] && [ -e "${left[1]}" ] && [ -e "${left[2]}" ] && [ -e "${left[3]}" ]; then pass; else fail "segments: $(ls "${left[@]}" 2>&1)"; fi
    if [ ! -e "$TMPDIR/ompi.$host.$UID/pid.$gone" ] && [ -d "$TMPDIR/ompi.$host.$UID/pid.$$" ]; then pass; else fail "folders of jobs: $(ls "$TMPDIR"/ompi*)"; fi
fi
kill -9 $holder
wait $holder 2>/dev/null
rm -f "${left[@]}"
# The ranks of one host use shared memory: none of them accepts connections from the network.
# shellcheck disable=SC2046 # several processes
places=$(listens $(ranks))
if [ "$(ranks | wc -l)" = 2 ] && [ -z "$places" ]; then pass; else fail "ranks of one host listen at: $places"; fi
# mpirun accepts connections at the loopback address alone, although Open MPI has no setting for that; the ranks do not get the library
# that does it.
places=$(listens "$(pgrep -P $launcher | head -n 1)" | grep -v -E '^(0100007F|00000000000000000000000001000000):')
if [ -z "$places" ]; then pass; else fail "mpirun listens at: $places"; fi
for process in $(ranks); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep -q cltrain_loopback; then fail "rank $process has the library of mpirun"; else pass; fi
done
# shellcheck disable=SC2046 # several processes
lose_rank $(ranks)
await_from $launcher says killed.out 'resumed from'
await_from $launcher steps_since killed "$EPOCHREALTIME"
touch killed/STOP
ended 75 killed.out
expect_text 'cltrain launch: rank [01] on .* was ended by signal 9 \(Killed\); restart 1 of 3, from step [0-9]+00' \
    'the run was stopped: a file STOP in the run folder'
reject_text 'noticed that process rank' 'Per user-direction' 'restart 2'
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_code 0 "$CLTRAIN" launch --devices 2 small.json --out alone --max-steps "$last"
expect_text '^ranks +2 over ' "^done: $last steps" 'launch --devices 2 --resume alone'
ln -s "$CLTRAIN" here # what comes next is called as this was
expect_code 0 ./here launch --devices 2 small.json --out called --max-steps 2
expect_text '^  resume +\./here launch --devices 2 --resume called' '^  look +\./here report called'
expect_same "alone/checkpoints/step_$last/model.safetensors" "killed/checkpoints/step_$last/model.safetensors"

# A signal to launch: all ranks save, and it does not start again. The run resumes with other numbers of
# ranks.
begin told --devices 4 small.json checkpoint.every=0
await_from $launcher has_updates told
kill -TERM $launcher
ended 75 told.out
expect_text 'stopped after step [0-9]+ of 1000000; saved in told/checkpoints/step_' 'the run can be resumed from its newest checkpoint'
reject_text 'restart'
expect_absent told/lock
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_code 0 "$CLTRAIN" launch --devices 2 --resume told --max-steps $((last + 10))
expect_code 0 "$CLTRAIN" launch --devices 1 --resume told --max-steps $((last + 20))
expect_text "^done: $((last + 20)) steps"

# Another run is resumed in a new folder, and a rank is killed before that folder has a checkpoint: the
# restart resumes the other run once more.
longer=(--devices 2 small.json --resume told checkpoint.every=0 data.global_batch=32)
begin again "${longer[@]}"
await_from $launcher has_updates again
kill -9 "$(ranks | shuf -n 1)"
await_from $launcher says again.out 'resumed from' 2
await_from $launcher steps_since again "$EPOCHREALTIME"
kill -TERM $launcher
ended 75 again.out
expect_text 'restart 1 of 3'
if says again.out "resumed from told/checkpoints/step_$((last + 20)) at step" 2; then pass; else fail 'the restart does not begin where the first start did'; fi
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
expect_code 0 "$CLTRAIN" launch "${longer[@]}" --max-steps "$last" --out straight
expect_text "^done: $last steps"
expect_same "again/checkpoints/step_$last/model.safetensors" "straight/checkpoints/step_$last/model.safetensors"

# Mistakes end launch immediately, before or after the ranks have started.
expect_code 2 "$CLTRAIN" launch --devices 2 small.json train.stps=3 --out never
expect_text "did you mean 'train.steps'"
expect_code 2 "$CLTRAIN" launch --devices 3 small.json data.micro_batch=16 --out never
expect_text 'too few for 3 ranks' 'the job ended with code 2'
reject_text 'restart'
expect_code 2 "$CLTRAIN" launch --devices some small.json --out never
expect_text "'some' is neither all nor a number"
expect_absent never

# Other launchers: none at all, which one rank does not need, and one that always fails.
mkdir empty bin
cat >bin/mpirun <<'SH'
#!/bin/sh
echo "$*" >>"$STARTS"
echo "[rank 0 here] a line of a rank" >&2
echo '--------------------------------------------------------------------------' >&2
printf 'prterun noticed that process rank 3 with PID 0 on node node7 exited on\nsignal 11 (Segmentation fault).\n' >&2 # as Open MPI 5 breaks it
echo '--------------------------------------------------------------------------' >&2
echo '--------------------------------------------------------------------------' >&2
echo 'something else that mpirun has to say' >&2
echo '--------------------------------------------------------------------------' >&2
exit 139
SH
chmod +x bin/mpirun
expect_code 2 env PATH="$work/empty" "$CLTRAIN" launch --devices 2 small.json --out never
expect_text "need Open MPI's mpirun, which is in no folder of PATH"
expect_code 0 env PATH="$work/empty" "$CLTRAIN" launch --devices 1 small.json --out single train.steps=20
expect_text '^done: 20 steps'
# A parent that ignores SIGCHLD passes this on, and then no process is told how its child ends.
if command -v python3 >/dev/null; then
    expect_code 0 python3 -c 'import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])' \
        "$CLTRAIN" launch --devices 1 small.json --out ignored train.steps=20
else
    note_skip 'python3 is not installed: launch was not started with SIGCHLD ignored'
fi
expect_code 9 env PATH="$work/bin:$PATH" STARTS="$work/starts" "$CLTRAIN" launch --devices 4 small.json --out never --max-steps 9
expect_text 'rank 3 on node7 was ended by signal 11 .*; restart 1 of 3, from the beginning' \
    'giving up: since the last restart there is no newer checkpoint' 'a line of a rank' 'something else that mpirun has to say'
reject_text 'noticed that process' 'restart 2'
expect_awk 'two starts of four ranks, the second one resumed' \
    '$0 !~ /-np 4 .*--bind-to none.* train .*--max-steps 9 .*small.json/ || (NR == 2) != ($0 ~ /--resume auto/) { exit 1 } END { if (NR != 2) exit 1 }' starts
expect_code 9 env PATH="$work/bin:$PATH" STARTS="$work/starts" "$CLTRAIN" launch --devices 4 --max-restarts 0 small.json --out never
expect_text 'giving up after 0 restarts'
# Open MPI refuses an include in addition to the user's exclude.
for exclude in '' docker0; do
    rm -f starts
    expect_code 9 env ${exclude:+OMPI_MCA_oob_tcp_if_exclude=$exclude} PATH="$work/bin:$PATH" STARTS="$work/starts" \
        "$CLTRAIN" launch --devices 4 --max-restarts 0 small.json --out never
    expect_awk "exclude '$exclude'" '!/oob_tcp_disable_ipv6_family 1/ || ($0 ~ /oob_tcp_if_include lo/) != (exclude == "") { exit 1 }
        END { if (NR != 1) exit 1 }' "exclude=$exclude" starts
done
expect_absent never
finish
