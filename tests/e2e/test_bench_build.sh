#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8 ctest-optimise: no
#
# `bench build`: every program of a config is built from its source and listed, logs and binaries are kept,
# and a kernel that the compiler refuses is named, while the others are still built.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device'
config=$CLTRAIN_SOURCE_DIR/configs/mlp-regression.json

expect_code 0 "$CLTRAIN" bench build "$config" --out kept --json record.json
expect_text '^device .*: [0-9]+ programs' '^seconds ' '^[0-9]+ programs in [0-9.]+ s .* 0 refused, 0 with spills'
programs=$(sed -n -E 's/^  "count": ([0-9]+),/\1/p' record.json)
[ "$(grep -c '"built": true' record.json)" = "$programs" ] && [ "$(ls kept/*.log | wc -l)" = "$programs" ] && pass ||
    fail "of $programs programs the record has $(grep -c '"built": true' record.json) and the folder $(ls kept | wc -l) files"
cp kept/000-*.log "$out"
expect_text '^options: -DONLY=' '^seconds: ' '^binary: '
expect_awk 'no product is among the programs, or one runs no command' '{ gsub(/[",]/, "") } $1 == "family:" { gemm += $2 ~ /gemm/ } $1 == "commands:" { none += $2 < 1 } END { exit !gemm || none }' record.json

# Programs are built although cltrain's cache has them; other options reach the compiler.
cached=(env POCL_EXTRA_BUILD_FLAGS='-cl-opt-disable -DCLTRAIN_OWN=1' CLTRAIN_PROGRAM_CACHE=on CLTRAIN_CACHE_DIR="$work/cached" CLTRAIN_LOG=debug "$CLTRAIN")
expect_code 0 "${cached[@]}" train "$config" --max-steps 1 --out run
expect_code 0 "${cached[@]}" train "$config" --max-steps 1 --out again
expect_text 'binary from the cache'
expect_code 0 "${cached[@]}" bench build "$config" --jobs 1
expect_text "program 'gemm[a-z_]*' .*built from its source"
expect_code 0 "$CLTRAIN" bench build "$config" --jobs 1 --options '-DSIMULATED=1' --out other
expect_code 0 grep -l -e '-D SIMULATED=1' other/000-*.log

# A kernel with a mistake.
kernels=$CLTRAIN_BUILD_DIR/kernels
cp -rL "$kernels" broken
sed -i '1i #error simulated mistake' broken/loss.cl
expect_code 4 env CLTRAIN_KERNEL_DIR="$work/broken" CLTRAIN_CACHE_DIR="$work/cache" "$CLTRAIN" bench build "$config" --json broken.json
expect_text 'REFUSED' 'simulated mistake' "[1-9][0-9]* of $programs programs do not build"
expect_awk 'the mistake is not in the record, or all programs failed' '/"built": true/ { well++ } /"error": .*simulated mistake/ { bad++ } END { exit !(well && bad) }' broken.json
expect_code 2 "$CLTRAIN" bench build
finish
