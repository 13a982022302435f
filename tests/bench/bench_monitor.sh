#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The cost of monitoring for a training (docs/monitoring.md): steps of the MLP 784-512-512-10, batch 128,
# without monitoring, with it and a file for Prometheus once a second, with a driver whose call hangs, with
# a cloud's service of notices that never answers, and with everything together: notices, cost, TensorBoard
# and, if BENCH_UPLOAD is set, uploads. The settings take turns; times come from metrics.jsonl. Then a model
# of GPT-2 124M's shape trains with everything, and the processor time of the additional threads is compared
# with the length of its steps. Options and environment: benchlib.sh.
#
#   BENCH_NVML: tests/nvml_hang.so of a build (default: that of the program's folder)
#   BENCH_UPLOAD: an address in object storage, whose server and keys the environment names
. "$(dirname "${BASH_SOURCE[0]}")/benchlib.sh"

nvml=${BENCH_NVML:-$(dirname "$CLTRAIN")/tests/nvml_hang.so}
name="784-512-512-10, batch 128" steps=1500 warmup=50
tiny=()
if $self_test; then
    steps=60
    tiny=(model.hidden=[8,8] model.outputs=3 data.shape=[12] data.classes=3 data.micro_batch=4)
fi
# train SIDE SETTINGS...: one run; its median step
train() {
    local side=$1 ended
    shift
    rm -rf "$work/run"
    ours train "$here/mlp.json" ${tiny[@]+"${tiny[@]}"} train.steps=$steps train.eval_batches=1 checkpoint.minutes=0 \
        checkpoint.final=false --out "$work/run" "$@"
    ended=$EPOCHREALTIME
    sample "$name" "$side" exit_ms "$(calc "1000 * ($ended - $(sed -n 's/.*"event":"end".*"time":\([0-9.]*\).*/\1/p' "$work/run/metrics.jsonl"))")"
    sample "$name" "$side" step_ms "$(sed -n -E '/"loss":/s/.*"step_ms":([-+.0-9eE]+)[,}].*/\1/p' "$work/run/metrics.jsonl" |
        tail -n "+$((warmup + 1))" | median)"
    sample "$name" "$side" wall_s "$wall_s"
}
everything=(monitor.seconds=1 monitor.prometheus="$work" log.tensorboard=true cloud.provider=file cloud.notice_file="$work/notice" cost.per_hour=36)
if [ -n "${BENCH_UPLOAD:-}" ]; then upload=("checkpoint.upload=$BENCH_UPLOAD/$$-"); else upload=(); fi
sides=(off on all)
if command -v python3 >/dev/null; then
    python3 -c 'import socket, sys, time
s = socket.socket()
s.bind(("127.0.0.1", 0))
s.listen(1000)
print(s.getsockname()[1], flush=True)
time.sleep(3600)' >"$work/port" &
    trap 'kill '$!'; rm -rf "$work"' EXIT
    until [ -s "$work/port" ]; do sleep 0.05; done
    sides+=(silent)
else
    skip silent 'python3, which simulates a service that never answers, is not installed'
fi
if [ -f "$nvml" ]; then sides+=(hangs); else skip hangs "there is no '$nvml': build the tests, or set BENCH_NVML"; fi
for ((round = 0; round < rounds; round++)); do
    for side in "${sides[@]}"; do
        case $side in
        off) train off monitor.seconds=0 ;;
        on) train on monitor.seconds=1 monitor.prometheus="$work" ;;
        all) train all "${everything[@]}" checkpoint.every=500 ${upload[@]+"$upload$round"} ;;
        silent) train silent monitor.seconds=0 cloud.provider=aws cloud.endpoint="http://127.0.0.1:$(cat "$work/port")" cloud.poll_seconds=0.5 ;;
        hangs)
            own_env=(env "CLTRAIN_NVML=$nvml" CLTRAIN_MONITOR_DEVICE=0000:65:00.0)
            train hangs monitor.seconds=1
            own_env=()
            ;;
        esac
    done
done
off=$(middle "$name" off step_ms)
for side in "${sides[@]}"; do
    ms=$(middle "$name" "$side" step_ms) wall=$(middle "$name" "$side" wall_s) exit=$(middle "$name" "$side" exit_ms)
    printf '%s, monitoring %-6s %.3f ms a step, %.2f s in all, of which %.0f ms after the end of the training\n' "$name" "$side" "$ms" "$wall" "$exit"
    record "$name" "$side" step_ms "$ms" ms
    record "$name" "$side" wall_s "$wall" s
    [ $side = off ] || bar "$name" "a step more with monitoring $side, ms" "$(calc "$ms - $off")" "<=" 1
    [ $side != silent ] || bar "$name" "the end later with a silent service, ms" "$(calc "$exit - $(middle "$name" off exit_ms)")" "<=" 100
done

# --- a long step ---
name="GPT-2 124M, one sequence of 64" steps=40
config='{"model": {"type": "gpt", "layers": 12, "heads": 12, "channels": 768, "context": 64, "vocab": 50257},
 "data": {"type": "tokens", "path": "'"$work"'/tokens", "tokenizer": "bytes", "micro_batch": 1}, "optimizer": {"type": "adamw"}}'
if $self_test; then config=$(sed 's/12,/2,/g; s/768/16/; s/50257/256/' <<<"$config"); fi
echo "$config" >"$work/gpt.json"
awk 'BEGIN { for (i = 0; i < 20000; i++) printf "line %d says %d\n", i, i * i % 97 }' >"$work/text"
ours data prepare "$work/text" --tokenizer bytes --out "$work/tokens"
# looks FILE: while the training in $work/run lives, appends the processor time of each of its threads, in
# ns, with the thread's name.
looks() {
    local pid='' task used word
    until pid=$(pgrep -n -f -- "^$CLTRAIN train.* --out $work/run( |\$)") || [ ! -e "$work/trains" ]; do sleep 0.05; done
    while [ -e "$work/trains" ]; do
        for task in "/proc/$pid/task"/*; do
            { read -r used _ <"$task/schedstat" && read -r word <"$task/comm"; } 2>/dev/null && echo "${task##*/} $used $word"
        done >>"$1"
        sleep 0.2
    done
}
rm -rf "$work/run"
touch "$work/trains" "$work/threads"
looks "$work/threads" &
looking=$!
ours train "$work/gpt.json" train.steps=$steps train.eval_every=0 checkpoint.minutes=0 checkpoint.final=false --out "$work/run" "${everything[@]}" ${upload[@]+"${upload}long"}
rm "$work/trains"
wait $looking
step=$(sed -n -E '/"loss":/s/.*"step_ms":([-+.0-9eE]+)[,}].*/\1/p' "$work/run/metrics.jsonl" | tail -n +3 | median)
spent=$(awk '/ (monitor|notices|upload|object storage)$/ { ns[$1] = $2; name[$1] = $3 }
    END { for (t in ns) sum += ns[t]; printf "%.6g", sum / 1e6 }' "$work/threads")
share=$(calc "100 * $spent / ($steps * $step)")
printf '%s: %.0f ms a step; threads of everything took %.1f ms of the processor in %d steps, %.4f %% of their time\n' "$name" "$step" "$spent" $steps "$share"
record "$name" all step_ms "$step" ms
record "$name" all threads_ms "$spent" ms
bar "$name" "time of the added threads, % of the steps" "$share" "<=" 0.5
[ -s "$work/threads" ] || { echo "FAIL: no thread of the training was seen"; failures=$((failures + 1)); }
finish
