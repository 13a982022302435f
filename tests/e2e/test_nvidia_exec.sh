#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: products ops counts full_mma full_wgmma full_tile full_older full_attention full_ops defects
#
# The PTX that NVIDIA's own compiler makes from the kernels, executed on the host: the lists of
# test_ptx_exec.sh, of test_ptx_exec_full.sh (full_) and of test_ptx_defects.sh (values, races, addresses,
# asynchronous copies, reads of memory without a value, sectors) with this PTX instead of clang's.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$CLTRAIN_SOURCE_DIR/tests/e2e/nvidia_lib.sh"
case ${1:?which part} in
full_*) bash "$CLTRAIN_SOURCE_DIR/tests/e2e/test_ptx_exec_full.sh" "${1#full_}" ;;
defects) bash "$CLTRAIN_SOURCE_DIR/tests/e2e/test_ptx_defects.sh" ;;
*) bash "$CLTRAIN_SOURCE_DIR/tests/e2e/test_ptx_exec.sh" "$1" ;;
esac
exit
