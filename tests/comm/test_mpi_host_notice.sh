#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 25 ctest-optimise: no
#
# Two hosts (network name spaces), of which only the far one belongs to a cloud: its hints make all ranks
# save, its notice of the end ends them, and rank 0, whose host gets no notice, writes both texts into
# metrics.jsonl.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts_lib.sh"
command -v python3 >/dev/null || skip_all 'python3, which simulates the service, is not installed'
why=$(hosts_refused) && skip_all "$why"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
unset AWS_EC2_METADATA_SERVICE_ENDPOINT GCE_METADATA_HOST CLTRAIN_CLOUD_PROVIDER
mkdir -p sys gcp.far
export CLTRAIN_SYSFS=$work/sys # the firmware names no cloud
# shellcheck disable=SC2034 # used by make_hosts
far_first="export GCE_METADATA_HOST=127.0.0.1:\$(cat $work/gcp.far/port)"
make_hosts 2 2>refused || skip_all "no network name spaces here: $(tail -n 1 refused)"
trap 'touch "$work/gcp.far/quit"; wait; remove_hosts; rm -rf "$work"' EXIT
ip netns exec "c1.$tag" python3 "$CLTRAIN_SOURCE_DIR/tests/e2e/metadata_double.py" gcp gcp.far &
await_from $! test -s gcp.far/port

net mlp train.steps=4000000 train.log_every=1000000 checkpoint.minutes=0 data.global_batch=32 >net.json
noticed() { says run/metrics.jsonl "\"event\":\"notice\".*\"provider\":\"$1\",\"kind\":\"$2\",\"text\":\"$3"; }
touch gcp.far/hint
./start.sh -np 4 "$CLTRAIN" train net.json --out run >run.out 2>&1 &
launcher=$!
await_from $launcher noticed gcp save 'h1: maintenance of the host: MIGRATE_ON_HOST_MAINTENANCE'
await_from $launcher saved_after run 0
touch gcp.far/notice
ended 75 run.out
expect_text 'stopped after step [0-9]+ of 4000000; saved in'
if noticed gcp stop 'h1: preempted'; then pass; else fail 'the words of the end are missing'; fi
if [ "$(grep -c '"event":"notice"' run/metrics.jsonl)" -eq 2 ]; then pass; else fail "notices were told $(grep -c '"event":"notice"' run/metrics.jsonl) times"; fi
grep '"event":"stopped"' run/metrics.jsonl >"$out"
expect_text '"reason":"a notice that a machine will be taken away"'
expect_code 0 "$CLTRAIN" ckpt verify run
expect_absent gcp.far/violations
finish
