#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
#
# The configs for MNIST reach their accuracy. The data is not part of the source tree: CLTRAIN_MNIST names its folder.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data=${CLTRAIN_MNIST:-$CLTRAIN_SOURCE_DIR/../shared/data/mnist}
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    [ -f "$data/$name-ubyte.gz" ] || skip_all "there is no $data/$name-ubyte.gz; set CLTRAIN_MNIST to a folder with the four MNIST files"
done

# reaches CONFIG ACCURACY [OVERRIDE...]
reaches() {
    local name=$1 want=$2
    shift 2
    guarded "$CLTRAIN" train "$CLTRAIN_SOURCE_DIR/configs/$name.json" --out "$name" \
        data.path="$data/train-images-idx3-ubyte.gz" data.targets="$data/train-labels-idx1-ubyte.gz" \
        data.eval_path="$data/t10k-images-idx3-ubyte.gz" data.eval_targets="$data/t10k-labels-idx1-ubyte.gz" "$@" >"$out" 2>&1
    if [ $? -eq 0 ]; then pass; else fail "$name did not train"; fi
    expect_text 'eval at step .* 10000 samples'
    values eval_accuracy "$name/metrics.jsonl" | tail -n 1 >"$name.accuracy"
    echo "$name: accuracy $(cat "$name.accuracy")"
    expect_awk "$name: accuracy $(cat "$name.accuracy") is below $want" "END { exit !(NR && \$1 >= $want) }" "$name.accuracy"
}
reaches mlp-mnist 0.975
reaches graph-residual 0.975
reaches cnn-mnist 0.990
finish
