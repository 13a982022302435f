#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-full: all
# ctest-cost: 25
#
# A run on rented machines, from the first to the last: config, data and checkpoints are in a bucket, each
# machine is new and empty and has two ranks, and each except the last is lost, by a notice or a kill, at a
# random moment. The run ends with the parameters of an undisturbed one, each machine has fetched the data
# once, and the cost equals arithmetic by hand.
#
# The part "all" does it twenty times as often (STORY_ROUNDS=10), and by SIGTERM, too; with SeaweedFS if CLTRAIN_SEAWEEDFS names its program `weed`; and on
# machines whose root is a new copy of the folder that CLTRAIN_STORY_ROOT names, if it is set: a system (of debootstrap, for instance)
# with the libraries that the program needs and the installed program in /usr/local/bin. That needs the rights of root.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/storage_lib.sh"
export CLTRAIN_GEMM=simple # starts fastest

clean_keys
export AWS_ACCESS_KEY_ID=TESTKEY AWS_SECRET_ACCESS_KEY=TEST/SECRET
system=
all_cases && system=${CLTRAIN_STORY_ROOT:-}
real=no
if all_cases && [ -n "${CLTRAIN_SEAWEEDFS:-}" ]; then real=yes; fi
if [ $real = yes ]; then
    seaweedfs "$CLTRAIN_SEAWEEDFS"
    trap 'kill -9 "$seaweedfs_process" 2>/dev/null; wait; rm -rf "$work"' EXIT
else
    storage_double server
fi
tool=$CLTRAIN_BUILD_DIR/tests/object_storage
upload() { guarded "$tool" bucket upload "$1" "$2" 2>/dev/null || fail "no upload of $2"; }

# --- the bucket at the beginning: data of three blocks in two files, and a config that names it ---
awk 'BEGIN { for (i = 0; i < 300000; i++) printf "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31 }' >text
"$CLTRAIN" data prepare text --tokenizer bytes --out shards --shard-tokens 5000000 >"$out" 2>&1 || fail 'no shards were made'
cat >local.json <<JSON
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 16},
 "data": {"type": "tokens", "path": "$work/shards", "tokenizer": "bytes", "micro_batch": 2, "global_batch": 8},
 "train": {"steps": 4000000, "log_every": 1, "eval_every": 0}, "checkpoint": {"every": 10, "minutes": 0}}
JSON
sed "s|$work/shards|s3://bucket/story/shards|" local.json >far.json
upload story/net.json far.json
for file in shards/*; do upload "story/$file" "$file"; done

# --- machines ---
# Only in the part "all" machines also start without the device's answers, since asking the device takes
# seconds.
caches=()
all_cases && caches=(CLTRAIN_CACHE_DIR="$work/machine/cache")
settings=(storage.cache=copies checkpoint.upload=s3://bucket/story/run cloud.provider=file cloud.notice_file=gone cloud.poll_seconds=0.05 cost.per_hour=36 cost.currency=EUR)
# machine COMMAND...: runs it on a new machine, in the folder $work/machine, the only part of the machine
# that is visible from outside.
machine() {
    local here=("${mpi[@]}" 2)
    mkdir -p machine/home
    if [ -z "$system" ]; then
        (cd machine && exec env HOME="$work/machine/home" ${caches[@]+"${caches[@]}"} "${here[@]}" "$CLTRAIN" "$@")
        return
    fi
    # shellcheck disable=SC2016 # the variables are the inner shell's
    unshare -m bash -c 'system=$1 folder=$2; shift 2
        mount -t tmpfs tmpfs /mnt && mkdir /mnt/above /mnt/work /mnt/root &&
            mount -t overlay overlay -o "lowerdir=$system,upperdir=/mnt/above,workdir=/mnt/work" /mnt/root && mkdir -p /mnt/root/story &&
            mount --bind "$folder" /mnt/root/story && mount -t proc proc /mnt/root/proc && mount --rbind /dev /mnt/root/dev &&
            mount --rbind /sys /mnt/root/sys || exit 99
        exec chroot /mnt/root env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root LC_ALL=C CLTRAIN_GEMM=simple CLTRAIN_SYSFS=/nothing \
            OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 AWS_ENDPOINT_URL_S3="$AWS_ENDPOINT_URL_S3" \
            AWS_ACCESS_KEY_ID="$AWS_ACCESS_KEY_ID" AWS_SECRET_ACCESS_KEY="$AWS_SECRET_ACCESS_KEY" \
            bash -c "cd /story && exec \"\$@\"" story "$@"' \
        story "$system" "$work/machine" "${here[@]}" cltrain "$@"
}
kept() { cat machine.out >>outputs; rm -rf machine; }
seed=${STORY_SEED:-$RANDOM}
echo "seed $seed"
RANDOM=$seed

# signal_ranks SIGNAL: sends it to all ranks of the machine.
ranks_below() {
    local child
    for child in $(pgrep -P "$1"); do
        [ "$(ps -o comm= -p "$child")" != cltrain ] || echo "$child"
        ranks_below "$child"
    done
}
# shellcheck disable=SC2046 # several numbers
signal_ranks() { kill "$1" $(ranks_below $launcher); }

# disturb HOW: a machine continues the run until it has made between 12 and 51 steps, and then is lost.
sessions=0
disturb() {
    local how=$1 wanted=$((12 + RANDOM % 40)) code=0
    sessions=$((sessions + 1))
    machine train s3://bucket/story/net.json --out run --resume auto "${settings[@]}" >machine.out 2>&1 &
    launcher=$!
    await_from $launcher has_new_updates $wanted
    case $how in
    notice) touch machine/gone ;;
    term) signal_ranks -TERM ;;
    kill) signal_ranks -KILL ;;
    esac
    await_end $launcher
    wait $launcher || code=$?
    cp machine.out "$out"
    case $how:$code in
    notice:75 | term:75 | kill:[1-9]*) pass ;;
    *) fail "session $sessions ended by $how with code $code" ;;
    esac
    kept
}
# has_new_updates N: this machine has made N steps. The record may begin with the steps of earlier machines.
has_new_updates() {
    [ "$(sed -n '/"event":"start"/h;/"event":"start"/!H;${x;p}' machine/run/metrics.jsonl 2>/dev/null | grep -c '"update":')" -ge "$1" ]
}

ways=(notice kill) rounds=1
if all_cases; then ways=(notice kill term kill) rounds=${STORY_ROUNDS:-10}; fi
for ((round = 0; round < rounds; round++)); do
    for how in "${ways[@]}"; do disturb "$how"; done
done

# The last machine: it may finish.
machine train s3://bucket/story/net.json --out run --resume auto "${settings[@]}" --max-steps 1 >machine.out 2>&1 || true
at=$(sed -n 's/.*fetched step \([0-9]*\) from.*/\1/p' machine.out | head -n 1)
kept
[ -n "$at" ] && [ "$at" -gt 0 ] && pass || fail 'no checkpoint was fetched'
last=$((at + 15))
machine train s3://bucket/story/net.json --out run --resume auto "${settings[@]}" --max-steps $last >machine.out 2>&1 || {
    cp machine.out "$out"
    fail "the last session ended with code $?"
}
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train local.json --out straight --max-steps $last
expect_same "straight/checkpoints/step_$last/model.safetensors" "machine/run/checkpoints/step_$last/model.safetensors"
expect_same "straight/checkpoints/step_$last/optimizer.safetensors" "machine/run/checkpoints/step_$last/optimizer.safetensors"
expect_code 0 "$CLTRAIN" ckpt verify "s3://bucket/story/run/checkpoints/step_$last"

# --- its cost: 36 an hour is 0.01 a second; lost are start-ups, repeated steps and saves ---
cost=$(grep -o '"event":"stopped".*' machine/run/metrics.jsonl | tail -n 1 | grep -o '"cost":{[^}]*}')
echo "$cost" >"$out"
field() { sed -n -E "s/.*\"$1\":([-+.0-9eE]+).*/\1/p" "$out"; }
if awk -v t="$(field total)" -v s="$(field seconds)" -v l="$(field lost)" -v a="$(field startup_s)" -v b="$(field repeated_s)" -v c="$(field saving_s)" '
    function far(x, y) { return x - y > 1e-4 * y || y - x > 1e-4 * y }
    BEGIN { exit !(s > 0) || far(t, s * 0.01) || far(l, (a + b + c) * 0.01) }'; then pass; else fail 'the cost is not what the seconds cost'; fi
awk -v n=$((sessions + 2)) -v a="$(field startup_s)" -v b="$(field repeated_s)" -v c="$(field saving_s)" 'BEGIN {
    lost = (a + b + c) / n; printf "an interruption cost %.2f s on average; one every 5 minutes would leave a goodput of %.2f %%\n", lost, 100 * (1 - lost / 300) }'
if [ $real = no ]; then # each machine needs each block once
    blocks=$(grep -c 'GET /bucket/story/shards/.*bytes=' server/requests)
    machines=$((sessions + 2)) size=$(cat shards/*.bin | wc -c)
    [ "$blocks" -le $((machines * (size / 4194304 + 2 * $(find shards -name '*.bin' | wc -l)))) ] && pass || fail "$blocks blocks were fetched by $machines machines"
fi
kept
no_secrets TEST/SECRET
[ $real = yes ] || obeys server
finish
