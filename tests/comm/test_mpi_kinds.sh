#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-full: all
# ctest-cost: 25 ctest-optimise: no
#
# Two ranks whose devices would compute the update in different orders (by CLTRAIN_STYLE, or because one driver refuses work-groups
# of 256): both build the same programs for it, so that sums are rounded in the same way and parameters stay equal, also if a driver
# refuses the order that the ranks agreed on.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
unset CLTRAIN_GEMM CLTRAIN_STYLE CLTRAIN_EMULATE
need_lanes
need_shim
cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [64], "outputs": 4},
 "data": {"type": "synthetic", "samples": 256, "shape": [12], "classes": 4, "micro_batch": 8},
 "optimizer": {"type": "adamw", "learning_rate": 0.01, "clip": 0.5}, "train": {"steps": 10, "log_every": 1},
 "checkpoint": {"every": 10}, "device": {"tune": "off"}}
JSON
# rank.sh STYLE0 STYLE1 COMMAND...
cat >rank.sh <<'RANK'
#!/usr/bin/env bash
styles=("$1" "$2")
shift 2
export CLTRAIN_LOG=debug CLTRAIN_STYLE=${styles[$OMPI_COMM_WORLD_RANK]}
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || [ -z "${RULES:-}" ] || export CLT_SHIM=$RULES LD_PRELOAD=$SHIM
exec "$@"
RANK
# both STYLE0 STYLE1 OUT: checks that the last programs of the update that the ranks built are the same, one
# for each kernel
both() {
    expect_code 0 "${mpi[@]}" 2 bash rank.sh "$1" "$2" "$CLTRAIN" train mlp.json --out "$3"
    for rank in 0 1; do
        sed -n "s/.*\[rank $rank .*debug: program 'adam' (\(.*\)): [0-9.]* s.*/\1/p" "$out" |
            awk '{ match($0, /-DONLY=[a-z_]*/); last[substr($0, RSTART, RLENGTH)] = $0 } END { for (k in last) print last[k] }' |
            sort >update.$rank
        expect_file update.$rank
    done
    expect_same update.0 update.1
}
own_cache "$work/cache"
both lanes lanes same
reject_text 'DWG='
both lanes groups mixed
expect_awk 'the update has no groups' '/-DWG=/ { bad = 1 } END { exit bad }' update.0 update.1
if all_cases; then both groups lanes turned; fi
both groups groups groups
expect_awk 'the update has groups' '/-DWG=/ { n++ } END { exit n == 0 }' update.0
for run in mixed groups $(all_cases && echo turned); do
    paste <(values loss same/metrics.jsonl) <(values loss $run/metrics.jsonl) >columns
    expect_awk "$run: other losses" '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d < 1e-4)) bad = 1 } END { exit bad || NR < 10 }' columns
done
# Rows of an embedding would be added in different orders: ranks exchange the whole table, unless their
# devices are of the same kind.
write_text
cat >words.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 2, "channels": 16, "context": 8},
 "data": {"type": "text", "path": "text", "micro_batch": 2}, "train": {"steps": 4}, "checkpoint": {"every": 4}, "device": {"tune": "off"}}
JSON
for form in auto dense; do
    expect_code 0 "${mpi[@]}" 2 bash rank.sh lanes groups "$CLTRAIN" train words.json parallel.embeddings=$form --out words.$form
done
expect_same words.auto/checkpoints/step_4/model.safetensors words.dense/checkpoints/step_4/model.safetensors
expect_code 2 "${mpi[@]}" 2 bash rank.sh lanes groups "$CLTRAIN" train words.json parallel.embeddings=rows --out words.rows
expect_text 'parallel.embeddings=rows: .* different orders'
expect_code 0 "${mpi[@]}" 2 bash rank.sh groups groups "$CLTRAIN" train words.json --out words.alike
sent() { values comm_bytes "$1/metrics.jsonl" | tail -n 1; }
if [ "$(sent words.alike)" != "$(sent words.dense)" ]; then pass; else fail 'ranks with like devices do not gather rows'; fi
# Without CLTRAIN_STYLE all ranks use rank 0's style, although the timing had another result on one of them (whose driver did not
# build the faster style when it was tested).
mkdir cache_0 cache_1
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache_0" "$CLTRAIN" devices
expect_code 0 env CLTRAIN_CACHE_DIR="$work/cache_1" LD_PRELOAD="$shim" CLT_SHIM='build:family=probe+option=-DPROBE_LANES=1:error' "$CLTRAIN" devices
expect_text 'goes without .wide_vectors'
cat >asked.sh <<RANK
export CLTRAIN_LOG=debug CLTRAIN_CACHE_DIR=$work/cache_\$OMPI_COMM_WORLD_RANK
exec "\$@"
RANK
expect_code 0 "${mpi[@]}" 2 bash asked.sh "$CLTRAIN" train mlp.json --out shared
expect_text "\[rank 1 .*debug: program 'gemm_lane'"
values loss same/metrics.jsonl >same.loss
values loss shared/metrics.jsonl >shared.loss
expect_same same.loss shared.loss
# Smaller work-groups on one rank: the limit of its driver is found when the device is tested.
export SHIM=$shim RULES='group:*:limit=64'
both groups groups limited
expect_awk 'groups of 64 on both' '!/-DWG=64( |$)/ { bad = 1 } END { exit bad || NR == 0 }' update.0
# An order that was agreed on is then refused by one rank's driver: both ranks give it up.
export RULES='build:family=no_such:error'
both groups groups asked
export RULES='build:family=adam+option=-DWG=:error'
both groups groups refused
expect_text "continues without variant 'group'"
expect_awk 'the update has no groups' '/-DWG=/ { bad = 1 } END { exit bad }' update.0 update.1
finish
