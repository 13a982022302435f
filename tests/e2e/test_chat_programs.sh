#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# The Jinja programs that an export writes for chat templates, rendered by an installed transformers:
# CLTRAIN_TEST_PYTHON names a Python that has it. Their ids equal those of the published programs, also with
# tools, calls and thoughts.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python=${CLTRAIN_TEST_PYTHON:-}
if [ -z "$python" ] || ! "$python" -c 'import transformers' 2>/dev/null; then
    note_skip 'CLTRAIN_TEST_PYTHON names no Python with transformers'
    finish
fi
expect_code 0 env HF_HUB_OFFLINE=1 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/check_chat_programs.py" "$CLTRAIN_BUILD_DIR/tests/logits"
expect_text '^ok   qwen3 with the tokenizer qwen2: 120 conversations' '^0 failed'
finish
