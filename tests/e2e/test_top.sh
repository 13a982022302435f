#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 8 ctest-optimise: no
#
# cltrain top: devices from made-up files of a driver, a driver that does not answer, the runs of this host
# with their newest step, as tables, as JSON and on a terminal.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export CLTRAIN_NVML=/nowhere/libnvidia-ml.so.1 CLTRAIN_SYSFS=$work/sys
card=sys/bus/pci/devices/0000:03:00.0
mkdir -p $card/hwmon/hwmon0
ln -s ../../drivers/amdgpu $card/driver
echo 83 >$card/gpu_busy_percent
echo 1073741824 >$card/mem_info_vram_used
echo 17179869184 >$card/mem_info_vram_total
echo 201000000 >$card/hwmon/hwmon0/power1_average
echo 61000 >$card/hwmon/hwmon0/temp1_input

COLUMNS=200 expect_code 0 "$CLTRAIN" top --once
expect_text 'device +used +memory' '^0000:03:00.0 amdgpu +83 % +1.0 GiB +16.0 GiB +201 W +61 C' '^processor +[0-9]+ % '

net mlp train.steps=4000000 checkpoint.minutes=0 >net.json
"$CLTRAIN" train net.json --out going >going.out 2>&1 &
process=$!
await_from $process has_updates going 3
COLUMNS=300 expect_code 0 "$CLTRAIN" top --once
expect_text '^ *process +step .* run$' "^ *$process +[0-9]+ +[0-9.e-]+ +[0-9.k]+ samples/s .* ago +$work/going\$"
expect_code 0 "$CLTRAIN" top --json
expect_text '"source": "amdgpu"' '"device_utilization_ratio": 0.83' '"device_power_watts": 201' "\"folder\": \"$work/going\"" "\"process\": $process"
if command -v python3 >/dev/null; then
    if python3 -m json.tool <"$out" >/dev/null; then pass; else fail 'top --json prints no JSON'; fi
fi
# Other runs of this host belong to other tests, so nothing is known about them: a loss that is not a number
# is null.
sed -n -e '/"devices"/,/"runs"/p' -e "\\#\"$work/going\"#,/}/p" "$out" >own.json && cp own.json "$out"
expect_text '"devices"' "\"process\": $process"
reject_text 'device_power_limit_watts' 'null'
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
if [ -x "$screen" ]; then
    for key in q '\x03'; do # on a terminal: until q or Ctrl-C
        guarded "$screen" -c 100 -o raw -w '83 %' -k "$key" sh -c "'$CLTRAIN' top; echo code \$?" >"$out" 2>&1 </dev/null
        expect_text 'code 0'
        cp raw "$out"
        expect_text '0000:03:00.0 amdgpu +83 %' 'q ends' '\[\?1049h' '\[\?1049l'
    done
else
    note_skip 'screen_of was not built'
fi
touch going/STOP
await_end $process
COLUMNS=300 expect_code 0 "$CLTRAIN" top --once
reject_text "$work/going"

# A driver whose call never returns delays neither the table nor the end.
stub=$CLTRAIN_BUILD_DIR/tests/nvml_hang.so
if [ -f "$stub" ]; then
    mkdir -p sys/bus/pci/devices/0000:65:00.0
    ln -s ../../drivers/nvidia sys/bus/pci/devices/0000:65:00.0/driver
    CLTRAIN_NVML=$stub COLUMNS=200 expect_code 0 "$CLTRAIN" top --once
    expect_text 'the driver of 0000:65:00.0 has not answered' '^0000:03:00.0 amdgpu +83 %'
    CLTRAIN_NVML=$stub expect_code 0 "$CLTRAIN" top --json
    expect_text '"answers": false' '"answers": true'
    if [ -x "$screen" ]; then # again each second, and until q
        CLTRAIN_NVML=$stub guarded "$screen" -c 100 -o raw -w '65:00.0 has not answered' -k q sh -c "'$CLTRAIN' top; echo code \$?" >"$out" 2>&1 </dev/null
        expect_text 'code 0'
    fi
    # The same holds for a library of another version and for a lost GPU, and the reason is given.
    for kind in mismatch:'of different versions' lost:'the GPU is lost'; do
        export CLTRAIN_NVML=$CLTRAIN_BUILD_DIR/tests/nvml_${kind%%:*}.so
        COLUMNS=200 expect_code 0 "$CLTRAIN" top --once
        expect_text 'the driver of 0000:65:00.0 has not answered' "^0000:65:00.0: NVML: .*${kind#*:}" '^0000:03:00.0 amdgpu +83 %'
        expect_code 0 "$CLTRAIN" top --json
        expect_text '"answers": false' "\"trouble\": \"NVML: .*${kind#*:}" '"answers": true'
    done
    # A table that is longer than the terminal ends with the number of devices that it leaves out.
    for slot in 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29; do
        mkdir -p sys/bus/pci/devices/0000:$slot:00.0
        ln -s ../../drivers/amdgpu sys/bus/pci/devices/0000:$slot:00.0/driver
    done
    export CLTRAIN_NVML=/nowhere/libnvidia-ml.so.1
    if [ -x "$screen" ]; then
        guarded "$screen" -c 100 -o raw -w 'more' -k q sh -c "'$CLTRAIN' top; echo code \$?" >"$out" 2>&1 </dev/null
        expect_text 'code 0'
        cp raw "$out"
        expect_text '^[0-9]+ more'
    fi
    COLUMNS=200 expect_code 0 "$CLTRAIN" top --once
    reject_text '^[0-9]+ more'
else
    note_skip 'the stub of NVML was not built'
fi
finish
