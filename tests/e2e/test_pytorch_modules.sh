#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# Whole modules that torch.save wrote, of torchvision and transformers, are equal to their state dicts to the bit:
# CLTRAIN_TEST_PYTHON names a Python that has these packages. test_golden_pytorch compares small stored ones and needs no Python.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=${CLTRAIN_TEST_PYTHON:-}
if [ -z "$python" ] || ! "$python" -c 'import torchvision, safetensors, transformers' 2>/dev/null; then
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torchvision and transformers'
    finish
fi
mkdir work
expect_code 0 env HF_HUB_OFFLINE=1 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/check_modules.py" "$CLTRAIN_BUILD_DIR/tests/same_weights" work
expect_text '^0 failed'
finish
