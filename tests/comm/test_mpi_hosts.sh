#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 75 ctest-optimise: no
#
# Four ranks on two hosts, which are network name spaces of this machine with their own host names: they
# compute the same as four ranks on one host, also with synchronised batch norms; a rank of the far host
# that is stopped or killed ends the job and is named; a lost network ends the job, too.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts_lib.sh"
why=$(hosts_refused) && skip_all "$why"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
make_hosts 2 2>refused || skip_all "no network name spaces here: $(tail -n 1 refused)"
trap 'remove_hosts; rm -rf "$work"' EXIT

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 40}}
JSON
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train small.json --out far
expect_text '^ranks +4 over ' '^ +0 +h0 ' '^ +1 +h0 ' '^ +2 +h1 ' '^ +3 +h1 '
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train small.json --out near
expect_same near/checkpoints/step_40/model.safetensors far/checkpoints/step_40/model.safetensors

# Synchronised batch norms exchange records in the middle of a pass, over both hosts: the same bits as on one. A rank with one micro-batch
# fewer (24 samples in micro-batches of 4 for 4 ranks) takes part without samples.
cat >norms.json <<'JSON'
{"model": {"type": "graph", "layers": [{"op": "linear", "out": 16}, {"op": "batch_norm"}, {"op": "relu"}, {"op": "linear", "out": 16},
   {"op": "batch_norm"}, {"op": "relu"}, {"op": "linear", "out": 5}, {"op": "cross_entropy"}]},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 4, "global_batch": 24},
 "parallel": {"sync_batch_norm": true}, "train": {"steps": 40}}
JSON
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train norms.json --out norms_far
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train norms.json --out norms_near
expect_same norms_near/checkpoints/step_40/model.safetensors norms_far/checkpoints/step_40/model.safetensors
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train norms.json parallel.sync_batch_norm=false --out norms_apart
if cmp -s norms_far/checkpoints/step_40/model.safetensors norms_apart/checkpoints/step_40/model.safetensors; then fail 'sync_batch_norm changes nothing'; else pass; fi

# Divided optimizer state: gradients are reduce-scattered and parameters gathered over both hosts, with the same bits.
write_gpt 2 45 1 8 '"parallel": {"first_bucket_mb": 0.13, "bucket_mb": 0.2},'
for form in 'parallel.gradients=f32' 'parallel.gradients=bf16 parallel.shared_memory=false'; do
    # shellcheck disable=SC2086 # several settings
    expect_code 0 ./start.sh -np 4 "$CLTRAIN" train gpt.json $form --out "whole.$form"
    # shellcheck disable=SC2086
    expect_code 0 ./start.sh -np 4 "$CLTRAIN" train gpt.json $form parallel.shard=optimizer --out "shared.$form"
    for file in model optimizer; do expect_same "whole.$form/checkpoints/step_8/$file.safetensors" "shared.$form/checkpoints/step_8/$file.safetensors"; done
done

# With 16 bits between the hosts, too, divided optimizer state gives the same bits as undivided; they differ
# from the bits with f32.
half=(parallel.gradients=bf16 parallel.half_between_hosts=true)
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train small.json "${half[@]}" --out half
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train small.json "${half[@]}" parallel.shard=optimizer --out shares
expect_same half/checkpoints/step_40/model.safetensors shares/checkpoints/step_40/model.safetensors
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train small.json parallel.gradients=bf16 --out wide
if cmp -s half/checkpoints/step_40/model.safetensors wide/checkpoints/step_40/model.safetensors; then fail 'half_between_hosts changes nothing'; else pass; fi

# begin RUN ARGUMENT...: starts four ranks in the background, and waits until they make steps; $far: the
# process of a rank on the far host.
begin() {
    local run=$1
    shift
    rm -rf "$run"
    setsid ./start.sh -np 4 "$CLTRAIN" train small.json train.steps=1000000 --out "$run" "$@" >"$out" 2>&1 &
    launcher=$!
    await_from $launcher has_updates "$run" 11
    far=
    for process in $(ip netns pids "c1.$tag"); do
        if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -q '^OMPI_COMM_WORLD_RANK=3$'; then far=$process; fi
    done
}
ranks() { # of both hosts
    local process
    for process in $(ip netns pids "c0.$tag") $(ip netns pids "c1.$tag"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = "$(basename "$CLTRAIN")" ] && echo "$process"
    done
}
no_ranks() { [ -z "$(ranks)" ]; }
nothing_left() { is_gone $launcher && no_ranks; }
# unlinked: whether neither mpirun nor another process of its host has a connection to the far host (address
# 2) that still counts as good.
unlinked() { ! awk -v far="02$(printf '4D%02X0A' $((tag % 200 + 20)))" 'index($3, far) == 1 && $4 == "01"' "/proc/$launcher/net/tcp" | grep -q .; }
# over WHAT: waits until mpirun and the ranks on both hosts have ended; sets $code to mpirun's.
over() {
    local from=${EPOCHREALTIME/./}
    if await nothing_left; then pass; else fail "$1: something is still there: $(ranks)"; fi
    echo "$1: ended after $(((${EPOCHREALTIME/./} - from) / 1000)) ms"
    kill -9 $launcher 2>/dev/null
    wait $launcher
    code=$?
}

# A step takes a thousandth of this deadline.
deadline=$((5 * patience))
begin stopped parallel.deadline=$deadline
kill -STOP "$far"
over "a stopped rank of the far host, deadline $deadline s"
if [ $code -eq 9 ]; then pass; else fail "a stopped rank: code $code instead of 9"; fi
expect_text 'cltrain: communication error.*no answer from rank 3'

begin killed
kill -9 "$far"
over 'a killed rank of the far host'
# either of the two ranks that can see it may be the first
case $code in
137) expect_text 'mpirun noticed that process rank 3' ;;
9) expect_text '\[rank 2 h1\] cltrain: communication error.*the process of rank 3 has ended' ;;
*) fail "a killed rank: code $code instead of 137" ;;
esac

# The network is lost, and the ranks of both hosts end by themselves, since mpirun is stopped until it has
# lost its connection, too (which is up to the kernel). The far host's daemon may stay until the network is
# back.
begin parted parallel.deadline=$deadline
kill -STOP $launcher
ip link set "cv1.$tag" down
await no_ranks && await unlinked && pass
kill -CONT $launcher
over "a network that is gone, deadline $deadline s"
expect_text 'cltrain: communication error.*no answer from rank 2; no answer from rank 3'
if [ $code -ne 0 ] && [ $code -ne 75 ]; then pass; else fail "a lost network: code $code"; fi

# If the ranks' own deadline is much later, mpirun misses the far host and ends the job.
ip link set "cv1.$tag" up
await_joined || fail "the network does not come back"
begin missed
ip link set "cv1.$tag" down
over 'a network that is gone, no deadline'
reject_text 'no answer from rank'
if [ $code -ne 0 ] && [ $code -ne 75 ]; then pass; else fail "a lost network that mpirun misses: code $code"; fi
finish
