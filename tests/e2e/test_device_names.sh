#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-optimise: no
#
# Devices whose names are parts of each other's, in each order, as an RTX 4060 beside an RTX 4060 Ti:
# --device and device.spec with the exact name of one choose this device and no other. The devices are
# PoCL's device three times, under names that the driver shim (tests/fault) gives.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_shim
export POCL_DEVICES='pthread pthread pthread'
own_cache "$work/cache"
net mlp 'model.hidden=[]' data.samples=8 'data.shape=[2]' data.classes=2 data.micro_batch=4 train.steps=1 >net.json
simulated() { env LD_PRELOAD="$shim" CLT_SHIM="devices=$names" "$@"; }
# chooses ID ARGUMENT...: a training would take this device. Without capabilities there is little to test about a device.
chooses() {
    expect_code 0 env LD_PRELOAD="$shim" CLT_SHIM="devices=$names" "$CLTRAIN" train net.json --dry-run --caps none "${@:2}"
    expect_text "^device +.* \($1\)"
}
names='RTX 4060 Ti/RTX 4060/RTX 4060 Laptop'
simulated "$CLTRAIN" devices >devices.txt 2>&1
[ $? -ne 4 ] || skip_all 'there is no OpenCL device'
n=$(grep -c -E '^[0-9]+:[0-9]+ +cpu +RTX 4060' devices.txt)
[ "$n" = 3 ] || skip_all "the only driver is not PoCL, or there are others: $n devices could be named"
id() { sed -n -E "s/^([0-9]+:[0-9]+) +cpu +$1 +\|.*/\1/p" devices.txt; }
for names in 'RTX 4060 Ti/RTX 4060/RTX 4060 Laptop' 'RTX 4060/RTX 4060 Ti/GeForce RTX 4060' 'GeForce RTX 4060/RTX 4060 Ti/RTX 4060'; do
    simulated "$CLTRAIN" devices >devices.txt 2>&1
    IFS=/ read -ra all <<<"$names"
    for name in "${all[@]}"; do
        chooses "$(id "$name")" --device "$name"
        expect_text "^device +$name \("
    done
    chooses "$(id 'RTX 4060')" --device 'rtx 4060' # whatever the case of its letters
    chooses "$(id 'RTX 4060')" device.spec='RTX 4060'
    chooses "$(id 'RTX 4060 Ti')" --device '4060 Ti' # a part that only one has
done
finish
