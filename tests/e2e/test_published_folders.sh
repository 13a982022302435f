#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# Folders in the forms in which known models are published (weights, settings, tokenizers), compared with an
# installed transformers: CLTRAIN_TEST_PYTHON names a Python that has it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=${CLTRAIN_TEST_PYTHON:-}
if [ -z "$python" ] || ! "$python" -c 'import torch, safetensors, transformers' 2>/dev/null; then
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with torch and transformers'
    finish
fi
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device: there are no weights'
export CLTRAIN_GEMM=simple # starts fastest
mkdir work
expect_code 0 env HF_HUB_OFFLINE=1 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/check_published.py" "$CLTRAIN" work
expect_text '^0 failed'
finish
