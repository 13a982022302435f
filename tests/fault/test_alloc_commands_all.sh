#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: long
#
# test_alloc_commands.sh with each allocation; CLTRAIN_FAULT_STEP=N: with every N-th.
export CLTRAIN_FAULT_STEP=${CLTRAIN_FAULT_STEP:-1}
. "$(dirname "${BASH_SOURCE[0]}")/test_alloc_commands.sh"
