#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: comm
# ctest-cost: 20 ctest-optimise: no
#
# Two ranks with the same device; the driver of one refuses a kernel (driver_shim.c). Both continue without
# that kernel and train the same parameters.
. "$(dirname "${BASH_SOURCE[0]}")/mpi_lib.sh"
unset CLTRAIN_GEMM
"$CLTRAIN" devices >/dev/null 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device: nothing is trained'
need_shim
cat >mlp.json <<'JSON'
{"model": {"type": "mlp", "hidden": [32], "outputs": 4},
 "data": {"type": "synthetic", "samples": 256, "shape": [12], "classes": 4, "micro_batch": 8},
 "optimizer": {"type": "adamw", "learning_rate": 0.01}, "train": {"steps": 10, "log_every": 1}, "device": {"tune": "off"}}
JSON
# Only rank 1 has the bad driver.
cat >rank.sh <<RANK
#!/usr/bin/env bash
[ "\$OMPI_COMM_WORLD_RANK" = 0 ] || export CLT_SHIM='none;log=$work/shim.log' LD_PRELOAD=$shim
exec "\$@"
RANK
bad_rank() { # RULES COMMAND...
    sed -i "s#CLT_SHIM='[^;]*;#CLT_SHIM='$1;#" rank.sh
    rm -f shim.log
    shift
    expect_code 0 "${mpi[@]}" 2 bash rank.sh "$@"
    expect_file shim.log
}
# A device is asked for its capabilities once for each set of preloaded libraries; the driver is still good
# then, so that the refusals below happen in the training and not in the self-tests.
own_cache "$work/cache"
sed -i "s#CLT_SHIM='[^;]*;#CLT_SHIM='build:family=no_such_family:error;#" rank.sh
expect_code 0 "${mpi[@]}" 2 bash rank.sh "$CLTRAIN" train mlp.json --out good
cp -r cache asked # what a run is refused is remembered, and would not be met by the next one
for rules in build:family=gemm_lane:error launch:family=gemm_lane:error=-54 launch:family=gemm_lane:dead; do
    rm -rf cache
    cp -r asked cache
    bad_rank "$rules" "$CLTRAIN" train mlp.json --out bad
    expect_text "continues without variant 'lane'" 'on another rank'
    paste <(values loss good/metrics.jsonl) <(values loss bad/metrics.jsonl) >both
    expect_awk "$rules: losses differ from those of good drivers" \
        '{ d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || !(d < 1e-4)) bad = 1 } END { exit bad || NR < 10 }' both
    rm -rf bad
done
# Rank 0, whose driver refused nothing, has also recorded what both ranks gave up: the ranks make the same
# plan from the start.
rm -rf cache
cp -r asked cache
bad_rank build:family=gemm_lane:error "$CLTRAIN" train mlp.json --out bad
expect_code 0 "${mpi[@]}" 2 bash rank.sh "$CLTRAIN" train mlp.json --out again
for rank in 0 1; do expect_text "\\[rank $rank .*continues without .*variant 'gemm/lane', which the driver refused in an earlier run"; done
expect_same bad/checkpoints/step_10/model.safetensors again/checkpoints/step_10/model.safetensors
finish
