#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 30
#
# Four ranks on two hosts, which are network name spaces of this machine with host names of their own: they compute what four ranks on
# one host do, a rank of the far host that is stopped or killed ends the job and is named, and so does a network that is gone.
# Needs root, ip and unshare.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
[ "$(id -u)" -eq 0 ] || skip_all 'network name spaces need root'
command -v ip >/dev/null && command -v unshare >/dev/null || skip_all 'ip or unshare is not installed (packages iproute2, util-linux)'
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

tag=$$ # of this test's name spaces and links, whose names are at most 15 characters long
remove() {
    for i in 0 1; do
        for process in $(ip netns pids "c$i.$tag" 2>/dev/null); do kill -9 "$process" 2>/dev/null; done
        ip netns del "c$i.$tag" 2>/dev/null
    done
    ip link del "cb$tag" 2>/dev/null
    rm -rf "$work"
}
trap remove EXIT
net=10.$((tag % 200 + 20)).77
make_hosts() {
    ip link add "cb$tag" type bridge && ip link set "cb$tag" up || return 1
    for i in 0 1; do
        ip netns add "c$i.$tag" && ip link add "cv$i.$tag" type veth peer name "ce$i.$tag" &&
            ip link set "cv$i.$tag" master "cb$tag" up && ip link set "ce$i.$tag" netns "c$i.$tag" &&
            ip netns exec "c$i.$tag" ip addr add $net.$((i + 1))/24 dev "ce$i.$tag" &&
            ip netns exec "c$i.$tag" ip link set "ce$i.$tag" up && ip netns exec "c$i.$tag" ip link set lo up || return 1
    done
    ip netns exec "c0.$tag" unshare -u true
}
make_hosts 2>refused || skip_all "no network name spaces here: $(tail -n 1 refused)"

# What mpirun calls instead of ssh: ADDRESS COMMAND...
cat >agent.sh <<SH
#!/bin/sh
address=\$1
shift
case \$address in $net.1) i=0 ;; *) i=1 ;; esac
exec ip netns exec c\$i.$tag unshare -u sh -c "hostname h\$i; \$*"
SH
chmod +x agent.sh
printf '%s slots=2\n' $net.1 $net.2 >hosts
cat >start.sh <<SH
#!/bin/sh
exec ip netns exec c0.$tag unshare -u sh -c 'hostname h0; exec "\$@"' start mpirun --hostfile "$work/hosts" --mca plm_rsh_agent "$work/agent.sh" \\
    --mca btl tcp,self,vader --mca btl_tcp_if_include $net.0/24 --mca oob_tcp_if_include $net.0/24 --oversubscribe --bind-to none \\
    --mca mpi_yield_when_idle 1 --mca oob_tcp_keepalive_time 2 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2 "\$@"
SH
chmod +x start.sh

cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 40}}
JSON
expect_code 0 ./start.sh -np 4 "$CLTRAIN" train small.json --out far
expect_text '^ranks +4 over ' '^ +0 +h0 ' '^ +1 +h0 ' '^ +2 +h1 ' '^ +3 +h1 '
expect_code 0 "${mpi[@]}" 4 "$CLTRAIN" train small.json --out near
expect_same near/checkpoints/step_40/model.safetensors far/checkpoints/step_40/model.safetensors

# begin RUN ARGUMENT...: four ranks in the background, until they make steps; $far: a process of the far host's ranks.
begin() {
    local run=$1 try
    shift
    rm -rf "$run"
    setsid ./start.sh -np 4 "$CLTRAIN" train small.json train.steps=1000000 --out "$run" "$@" >"$out" 2>&1 &
    launcher=$!
    for try in $(seq 600); do [ "$(grep -c '"update":' "$run/metrics.jsonl" 2>/dev/null)" -gt 10 ] 2>/dev/null && break || sleep 0.1; done
    [ "$try" -lt 600 ] || fail "$run made no steps"
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
# over WHAT SECONDS: mpirun ends, and so do the ranks on both hosts. $code: mpirun's.
over() {
    local from=${EPOCHREALTIME/./} left
    for _ in $(seq $(($2 * 10))); do
        left=$(kill -0 $launcher 2>/dev/null && echo mpirun; ranks)
        [ -z "$left" ] && break || sleep 0.1
    done
    if [ -z "$left" ]; then pass; else fail "$1: something is still there after $2 s: $left"; fi
    echo "$1: ended after $(((${EPOCHREALTIME/./} - from) / 1000)) ms"
    kill -9 $launcher 2>/dev/null
    wait $launcher
    code=$?
}

begin stopped parallel.deadline=2
kill -STOP "$far"
over 'a stopped rank of the far host, deadline 2 s' 60
if [ $code -eq 9 ]; then pass; else fail "a stopped rank: code $code instead of 9"; fi
expect_text 'cltrain: communication error.*no answer from rank 3'

begin killed
kill -9 "$far"
over 'a killed rank of the far host' 60
if [ $code -eq 137 ]; then pass; else fail "a killed rank: code $code instead of 137"; fi
expect_text '\[rank 2 h1\] cltrain: communication error.*the process of rank 3 has ended|mpirun noticed that process rank 3'

# The far host's daemon may stay until the network is back; its ranks do not.
begin parted parallel.deadline=3
ip link set "cv1.$tag" down
over 'a network that is gone, deadline 3 s, keepalive 2, 1, 2' 100
expect_text 'cltrain: communication error.*no answer from rank 2; no answer from rank 3'
if [ $code -ne 0 ] && [ $code -ne 75 ]; then pass; else fail "a lost network: code $code"; fi
finish
