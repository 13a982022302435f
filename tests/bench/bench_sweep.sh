#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A sweep of 12 trials on machines that are taken away: of four workers, one is killed every 10 seconds,
# every third time together with its training, and started again. The same sweep also runs without kills.
# The tables must be equal, and each result must be written once.
# usage: CLTRAIN=build/cltrain tests/bench/bench_sweep.sh [EPOCHS [SECONDS_BETWEEN_KILLS]]; run it in the source folder
set -u
epochs=${1:-800}
pause=${2:-10}
cltrain=$(readlink -f "${CLTRAIN:?set it to the cltrain program}")
config=$(readlink -f configs/mlp-regression.json)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cat >sweep.json <<JSON
{"config": "$config", "set": {"train.epochs": $epochs, "checkpoint.minutes": 0.1},
 "keys": {"optimizer.learning_rate": {"values": [0.0003, 0.001, 0.003]}, "train.seed": {"from": 1, "to": 4, "step": 1}}}
JSON
table() { "$cltrain" sweep "$1" --table --json | sed -e '/"seconds"/d' -e "s|\"$1|\"sweep|"; }

begin=$SECONDS
"$cltrain" sweep sweep.json --out quiet --workers 4 >quiet.txt
echo "without kills: $((SECONDS - begin)) s"

begin=$SECONDS kills=0 trainings=0
worker=(0 0 0 0)
unfinished() { [ "$(find killed/done -name '*.json' 2>/dev/null | wc -l)" -lt 12 ]; }
start() {
    "$cltrain" sweep sweep.json --out killed >>"worker-$1.txt" 2>&1 &
    worker[$1]=$!
}
for i in 0 1 2 3; do start $i; done
while unfinished; do
    for ((i = 0; i < pause * 5; i++)); do
        unfinished || break 2
        sleep 0.2
    done
    i=$((RANDOM % 4))
    process=${worker[i]}
    training=$(cat "/proc/$process/task/$process/children" 2>/dev/null)
    kill -9 "$process" && kills=$((kills + 1))
    # shellcheck disable=SC2086
    [ $((kills % 3)) -ne 0 ] || [ -z "$training" ] || { kill -9 $training && trainings=$((trainings + 1)); }
    wait "$process" 2>/dev/null
    start $i
done
wait
echo "with $kills kills of workers, $trainings of them with the training: $((SECONDS - begin)) s"
echo "takings of trials: $(find killed/lease -name 'trial-*' ! -name '*.tmp-*' | wc -l); results: $(find killed/done -name '*.json' | wc -l); failures: $(find killed/failed -name '*.json' | wc -l)"
table quiet >quiet.json
table killed >killed.json
if cmp quiet.json killed.json; then echo "the tables are equal"; else echo "the tables differ"; exit 1; fi
"$cltrain" sweep killed --table
