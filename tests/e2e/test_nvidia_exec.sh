#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: products ops counts
#
# What NVIDIA's own compiler makes of the kernels, executed on the host: the lists of test_ptx_exec.sh (values, races, addresses,
# asynchronous copies, reads of memory without a value, sectors) with its PTX in the place of clang's.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/nvidia_lib.sh"
bash "$CLTRAIN_SOURCE_DIR/tests/e2e/test_ptx_exec.sh" "${1:?which part}"
exit
