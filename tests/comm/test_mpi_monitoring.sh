#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8 ctest-optimise: no
#
# The energy of two ranks that share a device: each query of the device that the NVML stub simulates adds
# 100 J, and each rank queries when it begins and when it ends. So the last event has 100 J, and not 200 J
# as if the device counted for both ranks. Every rank reports errors of the device.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"

stub=$CLTRAIN_BUILD_DIR/tests/nvml_all.so
[ -f "$stub" ] || skip_all 'the stub of NVML was not built'
unset CLTRAIN_MONITOR_SECONDS
export CLTRAIN_NVML=$stub CLTRAIN_MONITOR_DEVICE=0000:65:00.0
net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 data.global_batch=16 monitor.seconds=3600 monitor.prometheus=prom >net.json
mkdir prom
"${mpi[@]}" 2 "$CLTRAIN" train net.json --out run >run.out 2>&1 &
launcher=$!
for page in cltrain-run cltrain-run-rank1; do # both have looked
    await_from $launcher grep -q '^cltrain_device_power_watts' prom/$page.prom
done
touch run/STOP
ended 75 run.out
expect_text 'reports the error Xid 79 of the device of rank 0' 'reports the error Xid 79 of the device of rank 1'
cp run/metrics.jsonl "$out"
expect_text '"event":"stopped".*"energy_j":100\}' '"event":"xid".*"xid":79\}'
if [ "$(grep -c '"event":"xid"' run/metrics.jsonl)" -eq 1 ]; then pass; else fail 'metrics.jsonl has not one event of rank 0 alone'; fi

# Trouble on a rank other than 0 is reported with the rank's number.
cat >second.sh <<'SH'
[ "$OMPI_COMM_WORLD_RANK" -eq 0 ] || export CLTRAIN_NVML=$LOST
exec "$@"
SH
LOST=$CLTRAIN_BUILD_DIR/tests/nvml_lost.so "${mpi[@]}" 2 bash second.sh "$CLTRAIN" train net.json --out other >other.out 2>&1 &
launcher=$!
await_from $launcher says other.out 'the device of rank 1: NVML: .*the GPU is lost'
touch other/STOP
ended 75 other.out
reject_text 'the device of rank 0: NVML'
finish
