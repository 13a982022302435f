#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 25
# ctest-optimise: no
#
# cltrain launch --hosts: what lists of hosts may contain; ranks on two hosts, which are network name spaces
# of this machine; one that is killed on the far host; a far host that does not answer any more when the job
# starts again, and one that never does.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/hosts_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM # launch allows it where it is needed
export OMPI_MCA_mpi_yield_when_idle=1
cat >small.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]}, "optimizer": {"type": "adamw", "learning_rate": 0.0001},
 "data": {"type": "synthetic", "samples": 500, "shape": [8], "classes": 5, "micro_batch": 8, "global_batch": 32},
 "train": {"steps": 1000000}, "checkpoint": {"every": 100}}
JSON

# Lists of hosts, and an agent that writes down its requests. A list that names a host twice would start its
# ranks on the same devices.
refused() { # LIST MESSAGE
    expect_code 2 "$CLTRAIN" launch --hosts "$1" small.json --out never
    expect_text "option --hosts: $2"
}
refused 'a,a:2' "a,a:2: host 'a' is listed twice"
refused 'a,,b' "a,,b: '' is not the name of a host"
refused 'a:0' "a:0: host 'a' needs 1 to 1024 ranks"
refused 'a:two,b' "a:two,b: host 'a' needs 1 to 1024 ranks"
printf '# the hosts\n\nfirst slots=2 # with two\nsecond cores=3\n' >list
refused list "list:4: 'second cores=3': a line is 'NAME' or 'NAME slots=N'"
refused '-oProxyCommand=x' "-oProxyCommand=x: '-oProxyCommand=x' is not the name of a host"
printf 'node1:4\n' >list
refused list "list:1: 'node1:4' is not the name of a host"
printf 'a,b\n' >list
refused list "list:1: 'a,b' is not the name of a host"
printf '# none\n' >list
refused list 'list names no host'
mkdir bin
cat >agent <<'SH'
#!/bin/sh
[ "$1" != gone ] || { echo 'ssh: connect to host gone port 22: No route to host' >&2; exit 255; }
case $1 in
silent*) echo $$ >>"$STARTS.silent"; exec sleep infinity ;;
greets) echo 'Welcome to this host' ;;
greets_only) echo 'Welcome to this host'; exit 0 ;;
esac
shift
exec sh -c "$*"
SH
cat >bin/mpirun <<'SH'
#!/bin/sh
echo "$*" >>"$STARTS"
exit "${MPIRUN_CODE:-139}"
SH
chmod +x agent bin/mpirun
export OMPI_MCA_plm_rsh_agent=$work/agent
simulated=(env PATH="$work/bin:$PATH" STARTS="$work/starts" "CLTRAIN_WORD=it's one" "$CLTRAIN" launch --max-restarts 0 small.json --out never)
printf '# the hosts\n\nfirst slots=3 # with three\n \tsecond\n' >list
expect_code 9 "${simulated[@]}" --hosts list --devices 2 --network 10.0.0.0/24
expect_awk 'ranks of two hosts' '!/-np 5 --host first:3,second:2 / || !/btl_tcp_if_include 10.0.0.0\/24/ || !/-x CLTRAIN_WORD/ { exit 1 }
    END { if (NR != 1) exit 1 }' starts
expect_code 4 "${simulated[@]}" --hosts first,gone
expect_text 'the devices of host gone cannot be counted: ssh: connect to host gone port 22: No route to host; the host needs cltrain at the same path'
expect_absent never
# Lines that the far shell's start files print are skipped.
expect_code 9 "${simulated[@]}" --hosts first,greets --devices 1
expect_code 4 "${simulated[@]}" --hosts first,greets_only
expect_text "the devices of host greets_only cannot be counted: its answer is 'Welcome to this host'; the host needs cltrain"
# A signal ends the requests and every process that makes them.
"${simulated[@]}" --hosts silent1,silent2 >"$out" 2>&1 &
asking=$!
await_from $asking says starts.silent . 2
kill -TERM $asking
wait $asking
code=$?
if [ $code -eq 75 ]; then pass; else fail "a signal while hosts are asked: code $code, expected 75"; fi
expect_text 'stopped while counting devices'
while read -r process; do
    if kill -0 "$process" 2>/dev/null; then fail 'an agent is still there' && kill "$process"; else pass; fi
done <starts.silent
# Open MPI 5 ends with 14 when a rank of another host was killed.
expect_code 9 env PATH="$work/bin:$PATH" STARTS="$work/starts" MPIRUN_CODE=14 "$CLTRAIN" launch --max-restarts 1 small.json --out never \
    --hosts first,second --devices 1
expect_text 'the job ended with code 14; restart 1 of 1'

why=$(hosts_refused) && { note_skip "two hosts: $why"; finish; }
make_hosts 2 2>refused || { note_skip "two hosts: no network name spaces here: $(tail -n 1 refused)"; finish; }
trap 'remove_hosts; rm -rf "$work"' EXIT
cat >agent <<SH
#!/bin/sh
[ "\$1" != $net.2 ] || [ ! -e $work/down ] || { echo 'no route' >&2; exit 255; }
exec $work/agent.sh "\$@"
SH
export OMPI_MCA_btl=tcp,self,vader
# begin RUN: starts it in the background and waits until it has a checkpoint; $launcher is its process, the
# output goes to RUN.out.
begin() {
    setsid ./first.sh "$CLTRAIN" launch --hosts hosts --network $net.0/24 small.json --out "$1" >"$1.out" 2>&1 &
    launcher=$!
    await_from $launcher saved_after "$1" 0
}
far_ranks() { # processes of the far host's ranks
    local process
    for process in $(ip netns pids "c1.$tag"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = "$(basename "$CLTRAIN")" ] && echo "$process"
    done
}
restarted() { # RUN N: for the Nth time, and makes steps
    await_from $launcher says "$1.out" 'resumed from' "$2" && await_from $launcher steps_since "$1" "$EPOCHREALTIME"
}

# Four ranks, one of which is killed. After a second kill the far host does not answer any more.
begin run
# shellcheck disable=SC2046 # several processes
lose_rank $(far_ranks)
restarted run 1
touch down
await_from $launcher saved_after run "$(newest run)"
# shellcheck disable=SC2046
lose_rank $(far_ranks)
restarted run 2
kill -TERM $launcher
ended 75 run.out
expect_text 'cltrain launch: rank [23] on .* was ended by signal 9 \(Killed\); restart 1 of 3' "host $net.2 does not answer and is skipped: no route" \
    '^ranks +4 over ' '^ranks +2 over ' '^ +3 +h1 ' 'stopped after step [0-9]+ of 1000000'
last=$(sed -n 's/.*stopped after step \([0-9]*\) of.*/\1/p' "$out")
rm down
expect_awk 'every step once' '/"loss"/ { match($0, /"step":[0-9]+/); s = substr($0, RSTART + 7, RLENGTH - 7) + 0; seen[s] = 1 }
    END { for (i = 1; i <= '"$last"'; i++) if (!(i in seen)) exit 1 }' run/metrics.jsonl
finish
