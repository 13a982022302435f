#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-parts: none
# ctest-full: -local -wide_vectors local
# ctest-cost: 40 ctest-optimise: no
#
# The checker's small cases on the default device with some of its capabilities masked: nothing fails.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
no_binaries # each program is built once

"$CLTRAIN" devices >/dev/null 2>&1 || skip_all "there is no OpenCL device"
expect_code 0 "$CLTRAIN" verify --small --mode correct --caps="${1:?name a mask of capabilities}"
expect_awk "fewer than 100 checks passed, or some failed" \
    '/^[0-9]+ passed, 0 failed, [0-9]+ skipped$/ { passed = $1 } END { exit passed < 100 }' "$out"
finish
