#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 8
# ctest-optimise: no
#
# Threads near the device: on a simulated machine with two NUMA nodes of one core each, every thread of a
# rank runs on the core of the node to which its GPU (a CPU device that claims to be one) is attached. A key
# turns this off; a rank that may not run near its GPU is named.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
gpus=$CLTRAIN_BUILD_DIR/tests/gpu_shim.so
[ -f "$gpus" ] || skip_all 'gpu_shim was not built'
allowed=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status)
if [[ ! $allowed =~ ^([0-9]+)[-,]([0-9]+) ]]; then skip_all 'this needs two cores'; fi
near=("${BASH_REMATCH[1]}" "$((BASH_REMATCH[1] + 1))")
[[ $allowed =~ ^[0-9]+, ]] && near[1]=${BASH_REMATCH[2]}
export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
export POCL_DEVICES='pthread pthread' CLT_GPU_ADDRESSES=0000:17:00.0,0000:65:00.0 CLTRAIN_SYSFS=$work/sys
own_cache "$work/cache"
LD_PRELOAD=$gpus "$CLTRAIN" devices >"$out" 2>&1
[ "$(grep -c '^[0-9]*:[01] *gpu' "$out")" -eq 2 ] || skip_all 'there are no two devices (PoCL)'

mkdir -p sys/devices/system/node sys/bus/pci/devices/0000:{17,65}:00.0
echo 0-1 >sys/devices/system/node/has_cpu
attach() { # CORE...: of each GPU
    local node=0 bus
    for bus in 17 65; do
        echo $node >sys/bus/pci/devices/0000:$bus:00.0/numa_node
        echo "$1" >sys/bus/pci/devices/0000:$bus:00.0/local_cpulist
        shift
        node=$((node + 1))
    done
}
attach "${near[@]}"
net mlp data.global_batch=32 data.workers=1 train.steps=10 train.eval_every=0 >small.json
ranks=("${mpi[@]}" 2 env "LD_PRELOAD=$gpus" "$CLTRAIN" train small.json)

# While the run lives, no thread of a rank is on another core, whether the thread began before or after the
# device was chosen.
"${ranks[@]}" train.steps=1000000 --out bound >bound.out 2>&1 &
launcher=$!
await_from $launcher has_updates bound
for process in $(pgrep -P $launcher); do
    rank=$(tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
    [ -n "$rank" ] || continue
    names=$(cat /proc/"$process"/task/*/comm)
    cores=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/"$process"/task/*/status | sort -u)
    if [ "$cores" = "${near[$rank]}" ]; then pass; else fail "threads of rank $rank on cores $cores instead of ${near[$rank]}"; fi
    if grep -q '^comm$' <<<"$names" && grep -q '^clt-loader$' <<<"$names"; then pass; else fail "threads of rank $rank: $names"; fi
done
kill -USR2 $launcher
ended 75 bound.out
expect_text '^rank +host +cores +device$' "^ +0 +[^ ]+ +${near[0]} +.+ \([0-9]+:0\)$" "^ +1 +[^ ]+ +${near[1]} +.+ \([0-9]+:1\)$"
[ "$n_passed" -ge 8 ] || fail 'not every rank was looked at'

expect_code 0 "${ranks[@]}" parallel.bind=never --out free
expect_text "^ +0 +[^ ]+ +$allowed +.+ \([0-9]+:0\)$"

# A single rank is bound only if the config requests it.
expect_code 0 env LD_PRELOAD="$gpus" CLTRAIN_LOG=debug "$CLTRAIN" train small.json parallel.bind=always --out alone
expect_text "rank 0 is bound to cores ${near[0]}, near 0000:17:00.0 .NUMA node 0."
expect_code 0 env LD_PRELOAD="$gpus" CLTRAIN_LOG=debug "$CLTRAIN" train small.json --out auto
reject_text 'is bound to cores'

# A rank that may not use the cores near its GPU is not moved.
attach "${near[0]}" 8191
expect_code 0 "${ranks[@]}" --out far
expect_text 'rank 1 on .* may use no core of NUMA node 1, which its GPU 0000:65:00.0 is attached to' \
    "^ +0 +[^ ]+ +${near[0]} " "^ +1 +[^ ]+ +$allowed "

# One NUMA node: nothing is bound, and the table has no such column.
echo 0 >sys/devices/system/node/has_cpu
expect_code 0 "${ranks[@]}" --out one
expect_text '^rank +host +device$'
finish
