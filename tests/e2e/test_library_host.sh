#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# A program that uses the library (library_host.c). If the program cltrain is installed beside it, a
# crashing driver ends only a child process. Without cltrain the same self-tests run in the program's own
# process; a capability with wrong results is lost, and the program is told. The library leaves nothing in
# the environment by which a cltrain that the program starts would trust the program's drivers.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

host=$CLTRAIN_BUILD_DIR/tests/library_host
[ -x "$host" ] || skip_all "there is no $host"
unset CLTRAIN_EMULATE CLTRAIN_LISTED
need_lanes
need_shim
grep -q '"fp64"' devices.json || skip_all 'the device has no fp64 to lose'

export CLTRAIN_CACHE_DIR=$work/with CLTRAIN_PROGRAM=$CLTRAIN
expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM='build:option=PROBE_FP64:abort;build:option=PROBE_PREFETCH:abort' "$host"
expect_text "^message: .*goes without 'fp64' \(crashed\): .*SIGABRT" "^message: .*goes without 'prefetch' \(crashed\)" '^2 messages'
reject_text '^environment: CLTRAIN_LISTED' 'in this process'
expect_code 0 env LD_PRELOAD="$shim" "$host" once # a receiver that takes itself away hears no more
expect_text "^message: .*goes without 'fp64' .*as remembered" '^1 messages'
reject_text "'prefetch'"

# A process that is limited to one core: its children must see the same device.
if command -v taskset >/dev/null; then
    export CLTRAIN_CACHE_DIR=$work/bound
    core=$(taskset -pc $$ | grep -oE '[0-9]+' | tail -n 1)
    expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM='build:option=PROBE_FP64:abort' taskset -c "$core" "$host"
    expect_text "^message: .*goes without 'fp64' \(crashed\): .*SIGABRT"
    reject_text 'in this process'
else
    note_skip 'taskset is not there, so a process on one core is not tried'
fi

export CLTRAIN_CACHE_DIR=$work/without CLTRAIN_PROGRAM=/nowhere/cltrain
expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM='launch:kernel=gemm_fwd_lane:garbage=0.01' "$host"
expect_text '^message: .*is probed in this process instead of in a child process, .*CLTRAIN_PROGRAM=/nowhere/cltrain' \
    "^message: .*goes without 'wide_vectors' \(wrong\): self-test wide_vectors"
reject_text '^environment: CLTRAIN_LISTED'
finish
