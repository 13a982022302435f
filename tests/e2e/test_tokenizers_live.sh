#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# The ids of 2,000 random strings by twelve tokenizers, compared with an installed transformers:
# CLTRAIN_TEST_PYTHON names a Python that has it. test_golden_tokens compares with stored ids and needs no
# Python.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=${CLTRAIN_TEST_PYTHON:-}
if [ -z "$python" ] || ! "$python" -c 'import transformers' 2>/dev/null; then
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with transformers'
    finish
fi
expect_code 0 env HF_HUB_OFFLINE=1 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/make_golden_tokens.py" live "$CLTRAIN" 11
expect_text '^0 of 24 differ'
finish
