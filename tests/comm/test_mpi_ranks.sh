#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 10 ctest-optimise: no
#
# What a user sees of several ranks: a table of hosts and devices at the start, later their speeds and the slowest one, and times of
# communication that neither exceed the step nor include the wait for a late rank; the algorithm of sums over ranks.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'

net mlp 'model.hidden=[64]' 'data.shape=[32]' data.global_batch=32 train.steps=60 train.eval_every=50 >small.json
# keys RUN: step_ms, comm_ms and comm_exposed_ms of every step.
keys() { sed -n -E 's/.*"step_ms":([^,]*),.*"comm_ms":([^,]*),"comm_exposed_ms":([^,]*),.*/\1 \2 \3/p' "$1/metrics.jsonl"; }

expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train small.json --out two
expect_text '^rank +host +device$' '^ +0 +[^ ]+ +.+ \([0-9]+:[0-9]+\)$' '^ +1 +[^ ]+ +.+ \([0-9]+:[0-9]+\)$' \
    '^rank +host +samples/s +device$' '^slowest: rank [01] on [^ ]+, [0-9.k]+ samples/s on its own, fastest: rank [01]'
if grep -q $'\033' "$out"; then fail 'colours went into a pipe, because mpirun gives its ranks a terminal'; else pass; fi
if [ "$(grep -c '^rank  host' "$out")" -eq 3 ]; then pass; else fail 'a table at the start, after twenty steps and at the end'; fi
if [ "$(grep -c 'rank  host' two/log.txt)" -eq 3 ]; then pass; else fail 'log.txt has the tables too'; fi
keys two >times
# The end of a step may be noticed late, in the time of the next one, so sums may take longer than a single
# step, but never longer than all steps so far; a microsecond is allowed for each rounded number.
within='{ step += $1; sum += $2 } NF != 3 || sum > step + NR * 1e-3 || $3 > $1 || $2 < 0 || $3 < 0 { print; bad = 1; exit } END { exit bad || NR == 0 }'
expect_awk 'sums take longer than the steps' "$within" times
if [ "$(wc -l <times)" -eq 60 ]; then pass; else fail "$(wc -l <times) steps"; fi
expect_awk 'sums take time' '{ sum += $2 } END { exit !(sum > 0) }' times

# The algorithm of sums: in memory that ranks share, unless the config names another; names that do not suit are refused.
expect_awk 'the algorithm is in metrics.jsonl' '/"event":"start"/ && /"allreduce":"nodes"/ { n++ } END { exit n != 1 }' two/metrics.jsonl
expect_code 0 "${mpi[@]}" 2 "$CLTRAIN" train small.json train.steps=5 train.eval_every=0 parallel.allreduce=ring --out ring
expect_awk 'the algorithm asked for' '/"event":"start"/ && /"allreduce":"ring"/ { n++ } END { exit n != 1 }' ring/metrics.jsonl
expect_code 2 "${mpi[@]}" 3 "$CLTRAIN" train small.json parallel.allreduce=halving --out halving
expect_text 'parallel.allreduce.*power of two; possible here: auto, nodes, slices, ring, tree'
expect_code 2 "${mpi[@]}" 2 "$CLTRAIN" train small.json parallel.allreduce=native --out native
expect_text 'differ from run to run .parallel.deterministic.'

# One rank needs no table.
expect_code 0 "$CLTRAIN" train small.json train.steps=5 --out one
reject_text 'rank  host'
keys one >times
expect_awk 'one rank sums nothing' '$2 != 0 || $3 != 0 { exit 1 }' times

# A rank is late because it is stopped: rank 0's device waits for it, which counts as exposed communication.
# Rank 0 begins to wait when its own part is done; the pauses grow until that part is the smaller share of a
# pause.
"${mpi[@]}" 2 "$CLTRAIN" train small.json train.steps=1000000 train.eval_every=0 parallel.deadline=1000000 --out late >late.out 2>&1 &
launcher=$!
await_from $launcher has_updates late 31
holder=$(sed -n 's/[^0-9]*\([0-9]*\).*/\1/p' late/lock | head -n 1)
other=
for process in $(pgrep -P $launcher); do [ "$process" != "$holder" ] && other=$process; done
if [ -n "$holder" ] && [ -n "$other" ]; then pass; else fail "rank 0 is '$holder', the other one '$other'"; fi
waited=no
for pause in 1 2 4 8 16 32; do
    kill -STOP "$other"
    sleep $pause
    kill -CONT "$other"
    await_from $launcher steps_since late "$EPOCHREALTIME"
    keys late >times
    if awk -v half=$((pause * 500)) '$3 > half { found = 1 } END { exit !found }' times; then
        waited=yes
        break
    fi
done
kill -USR2 $launcher
ended 75 late.out
if [ $waited = yes ]; then pass; else fail 'no step waited half of a pause for the stopped rank'; fi
keys late >times
expect_awk 'sums take longer than the steps' "$within" times
finish
