#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: long
# ctest-parts: mlp_calls mlp_events mlp_reads mlp_allocations gpt_calls gpt_events gpt_reads gpt_allocations
#
# test_device_faults.sh with each call, command, read and allocation of an MLP and of a small GPT; CLTRAIN_FAULT_STEP=N: with every
# N-th.
part=${1:-mlp_calls}
export CLTRAIN_FAULT_STEP=${CLTRAIN_FAULT_STEP:-1} CLTRAIN_FAULT_MODEL=${part%%_*} CLTRAIN_FAULT_KINDS=${part#*_}
. "$(dirname "${BASH_SOURCE[0]}")/test_device_faults.sh"
