#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-parts: losses half runs bert
# ctest-cost: 900
#
# Networks compared with PyTorch: convolutional ones start from the same weights and see the same samples.
# losses: the first 50 losses of a residual network on JPEG files (tests/golden/compare_losses.py). half:
# f16 and bf16 beside autocast (tests/golden/compare_half.py). runs: small Llamas by four optimizers, from
# their own weights, bert: small BERTs by two (tests/golden/compare_runs.py). Needs a Python with torch,
# torchvision, numpy and Pillow, which CLTRAIN_TEST_PYTHON names: CI has none, so that this is run by hand.
# losses needs CIFAR-10 as JPEG files, too, whose folder CLTRAIN_CIFAR_JPEG names; runs and bert need
# transformers and tinyshakespeare. CLTRAIN_TEST_QUICK=1 runs a short form of the first two.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

python=${CLTRAIN_TEST_PYTHON:-}
images=${CLTRAIN_CIFAR_JPEG:-$CLTRAIN_SOURCE_DIR/../shared/data/cifar10-jpeg}
[ -n "$python" ] || skip_all 'CLTRAIN_TEST_PYTHON names no Python with torch to compare with'
"$python" -c 'import numpy, PIL, torch, torchvision' 2>/dev/null ||
    skip_all "$python, which CLTRAIN_TEST_PYTHON names, cannot import torch, torchvision, numpy and PIL"
"$CLTRAIN" devices >/dev/null 2>&1 || skip_all 'there is no OpenCL device: nothing is trained'
script=compare_${part:-losses}.py
case $part in
runs | bert)
    script=compare_runs.py
    text=$CLTRAIN_SOURCE_DIR/../shared/data/tinyshakespeare/input.txt
    [ -f "$text" ] || skip_all "$text, the text to train on, is missing"
    "$python" -c 'import transformers' 2>/dev/null || skip_all "$python cannot import transformers"
    arguments=("$CLTRAIN" "$text" python llama 500 3)
    [ "$part" = runs ] || arguments=("$CLTRAIN" "$text" python bert 250 8)
    ;;
half) arguments=("$CLTRAIN" "$CLTRAIN_SOURCE_DIR" python ${CLTRAIN_TEST_QUICK:+quick}) ;;
*)
    [ -d "$images" ] || skip_all "$images, the images to train on, is missing; CLTRAIN_CIFAR_JPEG names their folder"
    arguments=("$CLTRAIN" "$CLTRAIN_SOURCE_DIR" "$images" python ${CLTRAIN_TEST_QUICK:+quick})
    ;;
esac
mkdir python
expect_code 0 "$python" "$CLTRAIN_SOURCE_DIR/tests/golden/$script" "${arguments[@]}"
expect_text '^0 failed'
grep -E '^(ok|FAIL|    )' "$out" # the figures of docs/measurements.md
finish
