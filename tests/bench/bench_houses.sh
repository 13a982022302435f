#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# House prices from a table of 2,000 rows with words and blank cells: R2 of cltrain's defaults and of scikit-learn's MLPRegressor on the
# same split. usage: CLTRAIN=build/cltrain PYTHON=python3 tests/bench/bench_houses.sh [SEEDS]; PYTHON has numpy and scikit-learn
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seeds=${1:-5}
cltrain=$(readlink -f "${CLTRAIN:?set it to the cltrain program}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
. "$here/../e2e/houses_lib.sh"
houses 2000 >houses.csv
head -n 1601 houses.csv >train.csv
{ head -n 1 houses.csv; tail -n 400 houses.csv; } >test.csv
houses_config >houses.json
for ((seed = 0; seed < seeds; seed++)); do
    "$cltrain" train houses.json train.seed=$seed --out run-$seed 2>&1 | grep '^eval'
    "$cltrain" predict run-$seed test.csv --out cltrain-$seed.csv 2>/dev/null
done
"${PYTHON:-python3}" "$here/peer_houses.py" "$seeds" cltrain-*.csv
