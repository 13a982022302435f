#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: long
#
# test_device_faults.sh with each call, command, read and allocation.
export CLTRAIN_FAULT_STEP=1
. "$(dirname "${BASH_SOURCE[0]}")/test_device_faults.sh"
