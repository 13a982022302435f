#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Samples of images, one thread: libjpeg alone, this program's decoder and samples, torchvision's samples. Images of 500 x 375 are made
# from the small ones of a folder. Needs a Python with torchvision.
# Usage: tests/bench/bench_images.sh FOLDER_OF_IMAGES [PYTHON [BUILD_FOLDER]]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
images=${1:?name a folder of images} python=${2:-python3} build=${3:-$here/../../build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$images" -name '*.jpg' | sort | awk 'NR % 20 == 1 && n++ < 240' >"$work/list"
xargs "$python" "$here/peer_images.py" --make "$work/set" <"$work/list"
cmake --build "$build" --target bench_images >/dev/null
"$build/tests/bench_images" "$work/set"
"$build/cltrain" data prepare "$work/set" --resize 256 --out "$work/pixels" >/dev/null
"$build/tests/bench_images" "$work/pixels"
"$python" "$here/peer_images.py" "$work/set"
