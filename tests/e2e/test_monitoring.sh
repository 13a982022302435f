#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
# ctest-cost: 20 ctest-optimise: no
#
# What a run reports about its device and host (engine/monitor/): NVML simulated by tests/fault/nvml_stub.c,
# made-up files of amdgpu, the processor; in metrics.jsonl, the events, TensorBoard's file, watch, the
# report and the file for Prometheus; energy over several sessions; a driver that hangs, a library of
# another version; nothing at all where it is off.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

unset CLTRAIN_MONITOR_SECONDS CLTRAIN_MONITOR_DEVICE
export CLTRAIN_NVML=/nowhere/libnvidia-ml.so.1 CLTRAIN_SYSFS=$work/sys
mkdir sys
net mlp train.steps=4000000 train.log_every=1 checkpoint.minutes=0 monitor.seconds=0.01 >net.json
stub() { echo "$CLTRAIN_BUILD_DIR/tests/nvml_$1.so"; }
[ -f "$(stub all)" ] || skip_all 'the stub of NVML was not built'

# begin RUN OPTION...: a run that does not end by itself, in the background
begin() {
    "$CLTRAIN" train net.json --out "$@" >"$1.out" 2>&1 &
    process=$!
    await_from $process has_updates "$1" 3
}
# shows RUN PATTERN: waits until metrics.jsonl contains the pattern
shows() { if await_from $process grep -q -E "$2" "$1/metrics.jsonl"; then pass; fi; }
ends() { # RUN: ends it by a file STOP
    local code=0
    touch "$1/STOP"
    await_end $process
    wait $process || code=$?
    cp "$1.out" "$out"
    if [ $code -eq 75 ]; then pass; else fail "$1: code $code instead of 75"; fi
}
lacks() { # RUN PATTERN
    if grep -q -E "$2" "$1/metrics.jsonl"; then fail "$1/metrics.jsonl has $2"; else pass; fi
}

# --- every figure of NVML, in every output ---

export CLTRAIN_NVML=$(stub all) CLTRAIN_MONITOR_DEVICE=00000000:65:00.0 # as nvidia-smi prints it
mkdir prom
begin all monitor.prometheus=prom log.tensorboard=true cost.per_kwh=0.5 cost.currency=EUR
shows all '"device_utilization":0.37,"device_memory_used":1299345920,"device_power_w":312.5,"device_temperature_c":64,'
shows all '"device_clock_hz":1755000000,"device_memory_clock_hz":2619000000,"device_throttled":1,"device_throttled_heat":1,'
shows all '"device_ecc_corrected":3,"device_ecc_uncorrected":0,"device_pcie_rx_bytes_per_s":2500000,"device_pcie_tx_bytes_per_s":1500000,"device_pcie_replays":2,'
shows all '"energy_j":[1-9][0-9]*00[,}]'
shows all '"event":"monitor","step":[0-9]+,"time":[0-9.]+,"source":"nvml","name":"Test GPU 80GB","pci":"0000:65:00.0","memory_size":85899345920,"power_limit_w":700\}'
shows all '"event":"xid","step":[0-9]+,"time":[0-9.]+,"xid":79\}'
lacks all '"device_memory_temperature_c"'
await_from $process grep -q '^cltrain_running{.*} 1$' prom/cltrain-all.prom
COLUMNS=300 expect_code 0 "$CLTRAIN" watch all --once
expect_text 'device used 37%' '312 W|313 W' '64 C' 'kWh'
ends all
expect_text 'reports the error Xid 79 of the device of rank 0' 'device: 37 % used \(37 to 37\), 31[23] W \(at most 31[23]\), at most 64 C, slowed down 100.0 % of the time, [0-9.e-]+ kWh for [0-9.e-]+ EUR'
shows all '"event":"stopped".*"monitor":\{"utilization":0.37,"utilization_least":0.37,"utilization_most":0.37,"power_w":312.5,.*"energy_j":[0-9]+00\}'
for tag in device/utilization device/power_w device/temperature_c cost/energy_j host/memory_used; do
    if grep -a -q "$tag" all/*tfevents*; then pass; else fail "TensorBoard's file has no $tag"; fi
done
expect_code 0 "$CLTRAIN" report all
for text in 'Device used' 'Power' 'Temperature' 'energy in kWh'; do
    if grep -q "$text" all/report.html; then pass; else fail "the report does not say: $text"; fi
done
expect_code 0 "$CLTRAIN" compare all all --json
expect_text '"energy_kwh"' '"device_utilization"'

# energy_of RUN: the run's energy, from the newest event that contains it
energy_of() { sed -n 's/.*"monitor":.*"energy_j":\([0-9]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
before=$(energy_of all)
"$CLTRAIN" train --resume all >all.out 2>&1 &
process=$!
shows all "\"event\":\"start\",\"step\":[1-9].*\"monitor\":\{\"energy_j\":$before\}"
shows all "\"energy_j\":[0-9]*00,\"device_utilization\""
await_from $process sh -c 'tail -n 5 all/metrics.jsonl | grep -q device_power_w'
ends all
after=$(energy_of all)
if [ "$after" -gt "$before" ]; then pass; else fail "the energy of two sessions, $after, is not above that of the first, $before"; fi

# --- the file for Prometheus ---

page=prom/cltrain-all.prom
if grep -q '^cltrain_running{run="all",rank="0",device="[^"]*"} 0$' $page; then pass; else fail "$page does not say that the run has ended"; fi
for line in 'cltrain_device_power_watts{.*} 312.5' 'cltrain_device_memory_size_bytes{.*} 85899345920' 'cltrain_device_power_limit_watts{.*} 700' \
    "cltrain_step{.*} $(sed -n 's/.*"event":"stopped","step":\([0-9]*\),.*/\1/p' all/metrics.jsonl | tail -n 1)" 'cltrain_loss{.*} [0-9.e-]*' 'cltrain_device_energy_joules_total{.*} [0-9]*00'; do
    if grep -q "^$line\$" $page; then pass; else fail "$page has no line $line"; fi
done
# The form 0.0.4: each metric has HELP and TYPE and then its one line, no times, a line feed at the end.
awk '
    /^# HELP cltrain_[a-z0-9_]+ .+$/ { if (state != "") bad = bad NR " "; name = $3; state = "help"; next }
    /^# TYPE cltrain_[a-z0-9_]+ (gauge|counter)$/ {
        if (state != "help" || $3 != name || ($4 == "counter") != ($3 ~ /_total$/)) bad = bad NR " "
        state = "type"; next
    }
    /^cltrain_[a-z0-9_]+\{run="[^"]*",rank="[0-9]+",device="[^"]*"\} (NaN|[+-]Inf|-?[0-9][0-9.e+-]*)$/ {
        if (state != "type" || index($0, name "{") != 1 || seen[name]++) bad = bad NR " "
        state = ""; next
    }
    { bad = bad NR " " }
    END { if (bad != "" || state != "") { print "lines " bad; exit 1 } }' $page >"$out"
if [ $? -eq 0 ] && [ "$(tail -c 1 $page | od -An -c | tr -d ' ')" = '\n' ]; then pass; else fail "$page is not of the form 0.0.4"; fi
if command -v promtool >/dev/null; then
    if promtool check metrics <$page >"$out" 2>&1; then pass; else fail "promtool refuses $page"; fi
else
    note_skip 'promtool (package prometheus) is not installed: the page is checked by this script alone'
fi
begin named monitor.prometheus=prom/mine.prom monitor.seconds=0
await_from $process test -s prom/mine.prom
ends named
expect_absent prom/.mine.prom.tmp
if grep -q 'cltrain_device' prom/mine.prom; then fail 'a run that looks at no device exports one'; else pass; fi
if grep -q 'cltrain_running{.*} 0' prom/mine.prom; then pass; else fail 'prom/mine.prom does not say that the run has ended'; fi
"$CLTRAIN" train net.json --out slashed/ monitor.prometheus=prom >slashed.out 2>&1 & # the name is without the slash
process=$!
await_from $process grep -q '^cltrain_running{run="slashed",' prom/cltrain-slashed.prom
ends slashed
# node_exporter itself reads the pages of three runs.
exporter=$(command -v prometheus-node-exporter || command -v node_exporter) || exporter=
if [ -n "$exporter" ]; then
    "$exporter" --collector.disable-defaults --collector.textfile --collector.textfile.directory=prom --web.listen-address=127.0.0.1:0 2>exporter.log &
    exporter=$!
    await_from $exporter grep -q 'Listening on.*127.0.0.1:[0-9]' exporter.log
    python3 -c 'import re, urllib.request
where = re.search(r"127\.0\.0\.1:[0-9]+", open("exporter.log").read()[:-1].rsplit("Listening on")[-1]).group()
print(urllib.request.urlopen("http://%s/metrics" % where).read().decode())' >"$out" 2>&1 || fail 'node_exporter shows no page'
    kill $exporter
    wait $exporter
    expect_text '^node_textfile_scrape_error 0$' '^cltrain_running\{.*run="all"' '^cltrain_running\{.*run="mine"|^cltrain_running\{.*run="named"' '^cltrain_running\{.*run="slashed"'
else
    note_skip 'node_exporter (package prometheus-node-exporter) is not installed: no other reader has read the folder of pages'
fi
# The page is updated during an evaluation that would take hours.
"$CLTRAIN" train net.json data.samples=1000000000 train.eval_every=1 --out evaluates monitor.prometheus=prom >evaluates.out 2>&1 &
process=$!
await_from $process grep -q '^cltrain_step{.*} 1$' prom/cltrain-evaluates.prom
for _ in 1 2; do
    # shellcheck disable=SC2016
    await_from $process sh -c '[ "$(stat -c %i.%Y "$1")" != "$2" ]' sh prom/cltrain-evaluates.prom "$(stat -c %i.%Y prom/cltrain-evaluates.prom)"
done
if grep -q '^cltrain_step{.*} 1$' prom/cltrain-evaluates.prom; then pass; else fail 'the evaluation after step 1 has ended'; fi
kill -KILL $process
wait $process
begin late monitor.prometheus=later monitor.seconds=0
await_from $process grep -q 'the file for Prometheus could not be written, training continues and tries again' late/log.txt
mkdir later # what could not be written is tried again
await_from $process test -s later/cltrain-late.prom
ends late
if grep -q 'cltrain_running{.*} 0' later/cltrain-late.prom; then pass; else fail 'later/cltrain-late.prom does not say that the run has ended'; fi
if [ "$(grep -c 'could not be written' late/log.txt)" -eq 1 ]; then pass; else fail 'the warning stands more than once in late/log.txt'; fi

# --- a library with few functions, and one that does not work ---

export CLTRAIN_NVML=$(stub none)
begin none
shows none '"event":"monitor".*"source":"nvml"'
shows none '"host_memory_used":'
ends none
lacks none '"device_(utilization|power_w|temperature_c|memory_used|ecc_corrected)":|"energy_j"'

export CLTRAIN_NVML=$(stub old)
begin old
shows old '"device_temperature_c":63'
shows old '"energy_j":'
ends old

export CLTRAIN_NVML=$(stub lost)
begin gone
await_from $process grep -q 'the GPU is lost' gone/log.txt
ends gone

export CLTRAIN_NVML=$(stub mismatch)
begin mismatch
await_from $process grep -q 'of different versions.*restart the machine' mismatch/log.txt
ends mismatch
expect_text 'CLTRAIN_MONITOR_DEVICE names 0000:65:00.0, and no source of figures knows that device'
lacks mismatch '"device_(utilization|power_w)":'

export CLTRAIN_NVML=$(stub rows) # memory that is to be replaced, and then cannot be: each is told once
begin rows
shows rows '"event":"warning".*spare rows replace it when the GPU is reset'
shows rows '"event":"warning".*replace the GPU'
ends rows
if [ "$(grep -c 'spare rows' rows/log.txt)" -eq 2 ]; then pass; else fail 'the warnings stand more than once each in rows/log.txt'; fi

export CLTRAIN_NVML=$(stub mig) # of a divided GPU
CUDA_VISIBLE_DEVICES=MIG-2 begin part
shows part '"event":"monitor".*"name":"Test GPU 80GB MIG 1g.10gb",.*"memory_size":10000000000'
shows part '"device_memory_used":4000000001,"device_power_w":312.5,'
ends part
lacks part '"device_utilization":'

# A device is lost while its driver reports an error: the message has the error's number, and the code is
# 10.
shim=$CLTRAIN_BUILD_DIR/tests/driver_shim.so
if [ -f "$shim" ]; then
    export CLTRAIN_NVML=$(stub xids)
    expect_code 10 env CLT_SHIM='read:*:error=-14:nth=2000;log=hit' LD_PRELOAD="$shim" "$CLTRAIN" train net.json --out fallen
    expect_text "device lost: NVIDIA's driver reports Xid 79 of the device at 0000:65:00.0: reading [0-9]+ bytes"
    cp fallen/metrics.jsonl "$out"
    expect_text '"event":"xid".*"xid":79\}' "\"event\":\"failed\".*\"code\":10,\"message\":\"NVIDIA's driver reports Xid 79 of the device at 0000:65:00.0: "
else
    note_skip 'the shim of drivers was not built'
fi

export CLTRAIN_NVML=$(stub hang) # neither the steps nor the end wait for it
begin hang
await_from $process has_updates hang 50
ends hang
lacks hang '"device_power_w":'

# --- advice from the driver's figure, if the device has no time stamps ---

idle_enough() { awk -F '"step_ms":' 'NF > 1 { sum += $2 } END { exit !(sum > 3000) }' "$1/metrics.jsonl"; } # 63 % of it idle
export CLTRAIN_NVML=$(stub all)
begin advised device.timestamps=false
shows advised '"device_busy":null,.*"device_utilization":0.37'
await_from $process idle_enough advised
ends advised
expect_text 'advice: the device was used 37 % of the time, as its driver counts .* try data\.[a-z_]*='
export CLTRAIN_NVML=/nowhere/libnvidia-ml.so.1

# --- files of a driver; the processor; no source ---

card=sys/bus/pci/devices/0000:03:00.0
mkdir -p $card/hwmon/hwmon0
ln -s ../../drivers/amdgpu $card/driver
echo 83 >$card/gpu_busy_percent
echo 201000000 >$card/hwmon/hwmon0/power1_average
export CLTRAIN_MONITOR_DEVICE=0000:03:00.0
begin amd
shows amd '"device_utilization":0.83,"device_power_w":201,'
shows amd '"event":"monitor".*"source":"amdgpu"'
ends amd

unset CLTRAIN_MONITOR_DEVICE
begin cpu device.spec=cpu
shows cpu '"device_utilization":[01]'
shows cpu '"event":"monitor".*"source":"cpu"'
ends cpu
lacks cpu '"device_power_w"|"energy_j"|"host_cpu"|null,"device_memory' # there is no RAPL here

begin off monitor.seconds=0
await_from $process has_updates off 50
ends off
lacks off '"device_utilization"|"host_|"monitor"'
net mlp train.steps=1 >plain.json
CLTRAIN_MONITOR_SECONDS=often expect_code 2 "$CLTRAIN" train plain.json --out often
expect_text "CLTRAIN_MONITOR_SECONDS is 'often': it must be a number"
expect_absent often
CLTRAIN_MONITOR_SECONDS=often expect_code 2 "$CLTRAIN" train plain.json --dry-run
expect_text "CLTRAIN_MONITOR_SECONDS is 'often': it must be a number"
CLTRAIN_MONITOR_DEVICE=GPU-7 expect_code 2 "$CLTRAIN" train plain.json --dry-run
expect_text "CLTRAIN_MONITOR_DEVICE is 'GPU-7': it must be an address on the PCI bus"
finish
