#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: full
# ctest-optimise: no
#
# Looking at runs: 'report' writes a self-contained page that runs no foreign script, 'compare' a table and where losses diverge,
# 'watch' a picture in the terminal. With a clean home and without a network. Chromium and html5lib check the page if they are
# installed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
clean_home
export LC_ALL=C COLUMNS=80
unset LINES

cat >net.json <<'JSON'
{"model": {"type": "mlp", "hidden": [16]},
 "data": {"type": "synthetic", "shape": [8], "classes": 4, "samples": 256, "micro_batch": 16},
 "train": {"steps": 60, "eval_every": 20, "log_every": 10}, "checkpoint": {"every": 20}}
JSON

# --- a run that was interrupted and resumed ---
expect_code 0 "$CLTRAIN" train net.json --out runs/a --max-steps 30
expect_code 0 "$CLTRAIN" train net.json --out runs/a --resume auto
cp runs/a/metrics.jsonl before.jsonl
expect_code 0 "$CLTRAIN" report runs/a
expect_text 'report: runs/a/report.html' 'browser'
expect_same before.jsonl runs/a/metrics.jsonl
page=runs/a/report.html
expect_file $page
cp $page "$out"
expect_text '<title>a</title>' 'finished' '>2 sessions<' 'class="mk resume"' 'class="mk save"' 'training loss' 'optimizer\.learning_rate' \
    "Content-Security-Policy.*default-src 'none'" '<h3>Loss' '<h3>Learning rate' '<h3>Speed' 'prefers-color-scheme: dark' '@media print'
# curves are in the page itself, with as many points as there are steps
expect_awk 'the curve of the losses has no points' '/class="ln c0/ && /data-n="training"/ { if (gsub(/[0-9]+[ -][0-9]+/, "") >= 20) found = 1 } END { exit !found }' $page
# nothing is loaded from elsewhere
if grep -n -i -E "(src|href|action|data)=[\"']?(https?:)?//|url\(|@import|<link|<iframe" $page; then fail 'the page loads something'; else pass; fi
# the only script that may run is the page's own
digest=$(awk '/^<script>$/ { on = 1; printf "\n"; next } /^<\/script>$/ { exit } on' $page | sha256sum | sed 's/ .*//; s/../\\x&/g')
script_hash=$(printf '%b' "$digest" | base64)
want=$(sed -n "s/.*script-src 'sha256-\([^']*\)'.*/\1/p" $page)
if [ "$script_hash" = "$want" ]; then pass; else fail "the script's hash is $script_hash (clt_report_script_sha256), the page allows ${want:-none}"; fi
if [ "$(grep -c '<script' $page)" -eq 1 ]; then pass; else fail 'the page has more than one script'; fi

# the run may be named by any of its paths, and the page written elsewhere
expect_code 0 "$CLTRAIN" report runs/a/checkpoints/step_60 --out elsewhere.html --title 'A <b>title</b>'
expect_file elsewhere.html
cp elsewhere.html "$out"
expect_text '<title>A &lt;b&gt;title&lt;/b&gt;</title>'
"$CLTRAIN" report runs/a --out - 2>/dev/null | head -n 1 >"$out"
expect_text '^<!DOCTYPE html>'

# --- mistakes are reported at once ---
expect_code 2 "$CLTRAIN" report
expect_text 'missing argument'
expect_code 2 "$CLTRAIN" report runs/none
expect_text "there is no run 'runs/none'"
expect_code 2 "$CLTRAIN" report runs
expect_text "no metrics.jsonl, so it is not a run folder"
expect_code 8 "$CLTRAIN" report runs/a --out none/there/page.html
expect_code 2 "$CLTRAIN" report runs/a runs/a runs/a runs/a runs/a runs/a runs/a runs/a runs/a
expect_code 2 "$CLTRAIN" compare runs/a
expect_code 2 "$CLTRAIN" compare runs/a runs/none
expect_code 2 "$CLTRAIN" watch runs/none --once

# --- several runs ---
expect_code 0 "$CLTRAIN" train net.json --out runs/b optimizer.learning_rate=0.1
expect_code 0 "$CLTRAIN" train net.json --out runs/c
expect_code 0 "$CLTRAIN" compare runs/a runs/b runs/c
expect_text '^run .*steps .*loss .*best .*samples/s' '^a +60 ' '^b +60 ' '^b against a$' 'optimizer.learning_rate: 0.1, was ' \
    'losses: differ from step [12] on, at most by ' '^c against a$' 'config: the same' 'losses: equal in all 60 common steps'
expect_code 0 "$CLTRAIN" compare runs/a runs/b --json
expect_text '"first_different_step": [12],' '"largest_difference": [0-9.e-]+,' '"largest_difference_step": [1-9]' '"optimizer.learning_rate": \[' '"loss": [0-9.]+,' '"state": "finished"'
cp "$out" compare.json
expect_code 0 "$CLTRAIN" config --help # keeps $out from being read below
if awk '/"common_steps": 60/ { found = 1 } END { exit !found }' compare.json; then pass; else fail 'compare --json does not count the common steps'; fi
expect_code 0 "$CLTRAIN" compare runs/a runs/b --csv
expect_text '^"run","state","steps",.*"optimizer.learning_rate"' '^"b","finished",60,.*,"0\.1"$'
expect_code 2 "$CLTRAIN" compare runs/a runs/b --csv --json
expect_code 0 "$CLTRAIN" report runs/a runs/b runs/c
expect_file report.html
cp report.html "$out"
expect_text 'keys that differ' '<th>optimizer.learning_rate</th>' 'class="n best"' 'class="ln c1 r1"' 'class="ln c2 r2"' '<title>a, b and c</title>'

# a run whose config is missing: it is unknown, and no key of the other run counts as different
mkdir -p runs/bare
cp runs/c/metrics.jsonl runs/bare/
expect_code 0 "$CLTRAIN" compare runs/a runs/bare
expect_text 'config: unknown' 'equal in all 60 common steps'
reject_text 'not set'

# --- samples that the model generates during training: on the page, and nothing else changes ---
awk 'BEGIN { for (i = 0; i < 300; i++) printf "line %d says %d\n", i, i * 7 % 31 }' >text
cat >gpt.json <<'JSON'
{"model": {"type": "gpt", "layers": 1, "heads": 1, "channels": 16, "context": 16},
 "data": {"type": "text", "path": "text", "micro_batch": 4, "split": 0.1},
 "train": {"steps": 12, "eval_every": 6}, "checkpoint": {"every": 4}}
JSON
expect_code 0 "$CLTRAIN" train gpt.json --out runs/silent
expect_code 0 "$CLTRAIN" train gpt.json --out runs/writes 'log.sample_prompt="line <b>"' log.sample_tokens=20
expect_text 'sample of step 12: line <b>'
if [ "$(grep -c '"event":"sample","step":[0-9]*,.*"prompt":"line <b>","text":"' runs/writes/metrics.jsonl)" -ge 2 ]; then pass; else fail 'there are no samples'; fi
expect_code 0 "$CLTRAIN" compare runs/silent runs/writes
expect_text 'equal in all 12 common steps'
expect_code 0 "$CLTRAIN" report runs/writes
cp runs/writes/report.html "$out"
expect_text '<figcaption>step 12</figcaption><pre><b>line &lt;b&gt;</b>' 'best perplexity'
expect_code 0 "$CLTRAIN" train net.json --out runs/mlp 'log.sample_prompt="x"' # no language model: said, and no more
expect_text 'warning.*no samples are generated|no samples are generated'

# --- in the terminal ---
COLUMNS=60 LINES=20 expect_code 0 "$CLTRAIN" watch runs/a --once
expect_text 'finished, step 60 of 60 \(100 %\)' 'loss [0-9.]+' '\|.*\*' 'step 60$' 'end'
expect_awk 'a line is wider than the screen' 'length($0) > 60 { exit 1 }' "$out"
expect_awk 'the picture is higher than the screen' 'END { exit NR > 20 }' "$out"
LC_ALL=C.UTF-8 expect_code 0 "$CLTRAIN" watch runs/a --once
expect_text $'\xe2[\xa0-\xa3]' # braille
# a run that does not exist yet is waited for, and watched to its end
"$CLTRAIN" watch runs/later >later.txt 2>&1 </dev/null &
watcher=$!
await_from $watcher grep -q waiting later.txt
expect_code 0 "$CLTRAIN" train net.json --out runs/later
wait $watcher
got=$?
cp later.txt "$out"
if [ $got -eq 0 ]; then pass; else fail "watch ended with $got"; fi
expect_text 'waiting for a run in runs/later' 'runs/later: finished, step 60 of 60'
# a run that continues: q ends the watching, and the terminal is as before
mkdir -p runs/live
head -n 12 runs/a/metrics.jsonl >runs/live/metrics.jsonl
echo "process $$ on host $(hostname)" >runs/live/lock
COLUMNS=80 expect_code 0 "$CLTRAIN" watch runs/live --once
expect_text 'runs/live: running'
# on_terminal ACTION...: watches it on a pseudo terminal whose keys wait for pictures; what the terminal got is the output, and after it
# what the shell says.
screen=$CLTRAIN_BUILD_DIR/tests/screen_of
on_terminal() {
    guarded "$screen" -c 80 -o raw "$@" sh -c "'$CLTRAIN' watch runs/live; echo code \$?; stty -a" >/dev/null 2>&1 </dev/null
    cp raw "$out"
}
if [ -x "$screen" ]; then
    on_terminal -w 'q ends' -k q
    expect_text 'code 0' '[^-]icanon' '[^-]echo ' $'\033\[\\?1049h' $'\033\[\\?1049l' $'\033\[\\?25h'
    on_terminal -w 'q ends' -k '\x03\x03' # Ctrl-C twice, before it is answered
    expect_text 'code 0' '[^-]icanon' '[^-]echo ' $'\033\[\\?1049l'
    on_terminal -w 'q ends' -k '\x03'
    expect_text 'code 0' '[^-]icanon' $'\033\[\\?1049l'
    # The wheel of a mouse sends arrows, which end nothing: a step that is written afterwards is still drawn.
    sed -n 13p runs/a/metrics.jsonl >next.jsonl
    on_terminal -w 'q ends' -k '\x1b[A' -w 'q ends' -x 'cat next.jsonl >>runs/live/metrics.jsonl' -w "$(sed -n 's/.*"step":\([0-9]*\),.*/step \1 of/p' next.jsonl)" -k q
    expect_text 'code 0' "$(sed -n 's/.*"step":\([0-9]*\),.*/step \1 of/p' next.jsonl)"
else
    note_skip "keys of 'watch' need screen_of"
fi
rm runs/live/lock
COLUMNS=80 expect_code 0 "$CLTRAIN" watch runs/live
expect_text 'not finished'

# --- what a crash leaves ---
mkdir -p runs/torn
{ cat runs/a/metrics.jsonl; printf 'garbage\n\xff\xfe\n{"step":61,"lo'; } >runs/torn/metrics.jsonl
expect_code 0 "$CLTRAIN" report runs/torn
cp runs/torn/report.html "$out"
expect_text '2 lines of metrics.jsonl could not be read' 'last line of metrics.jsonl is torn' 'Config.*</summary>'

# --- a long run: the number of drawn points is bounded, and every spike is drawn ---
mkdir -p runs/long
awk 'BEGIN { for (i = 1; i <= 120000; i++) printf "{\"step\":%d,\"update\":%d,\"loss\":%.7f,\"accuracy\":0.5,\"grad_norm\":%.7f,\"lr\":0.001,\"loss_scale\":1,\"skipped\":0,\"step_ms\":%.4f,\"samples_per_s\":%.4f,\"device_busy\":0.9,\"device_bytes\":4096,\"time\":%d}\n", i, i, i == 77777 ? 1000 : 2 + sin(i), 1 + cos(i), 10 + sin(i * i), 99 + sin(i), i }' >runs/long/metrics.jsonl
expect_code 0 "$CLTRAIN" report runs/long
expect_awk 'the page is larger than 1 MB' '{ n += length($0) + 1 } END { exit n > 1000000 }' runs/long/report.html
cp runs/long/report.html "$out"
expect_text '>1000<|>500<' # the axis of the losses reaches the spike
sed -n 1,2000p runs/long/metrics.jsonl >runs/live/metrics.jsonl
expect_code 0 "$CLTRAIN" compare runs/long runs/live
expect_text 'equal in all 2000 common steps'

# --- hostile text runs no script ---
evil="runs/<img src=x onerror=document.body.append('owned')>"
mkdir -p "$evil"
payload='</title></style></pre></td><script>document.body.append(\"owned\")</script><img src=x onerror=document.body.append(\"owned\")><svg onload=document.body.append(\"owned\")>'
for kind in start saved sample advice warning stopped failed; do
    printf '{"event":"%s","step":1,"time":1,"device":"%s","host":"%s","prompt":"%s","text":"%s","reason":"%s","message":"%s","path":"%s"}\n' \
        $kind "$payload" "$payload" "$payload" "$payload" "$payload" "$payload" "$payload"
done >"$evil/metrics.jsonl"
cat runs/a/metrics.jsonl >>"$evil/metrics.jsonl"
printf '{"train": {"%s": "%s"}}' "$payload" "$payload" >"$evil/config.resolved.json"
expect_code 0 "$CLTRAIN" report "$evil" --out evil.html
expect_code 0 "$CLTRAIN" report "$evil" runs/a --out evils.html --title "</title><script>document.body.append('owned')</script>"
if [ "$(grep -o '<script' evil.html evils.html | wc -l)" -eq 2 ] && ! grep -q '<img' evil.html evils.html; then pass; else fail 'hostile text became markup'; fi
expect_code 0 "$CLTRAIN" watch "$evil" --once

escapes=$'runs/red\033[31m'
cp -r runs/a "$escapes"
expect_code 0 "$CLTRAIN" report "$escapes"
expect_text 'report: runs/red\?\[31m/report.html'
reject_text $'\033'

# --- numbers of a diverged training stay short ---
mkdir -p runs/wrong
printf '{"step":%d,"update":1,"loss":%s}\n' 1 2.5 2 1e30 3 -1e308 >runs/wrong/metrics.jsonl
COLUMNS=80 expect_code 0 "$CLTRAIN" watch runs/wrong --once
expect_text '^loss -1e\+308$'
reject_text nan inf '[0-9]{20}'
expect_code 0 "$CLTRAIN" compare runs/wrong runs/a
expect_text '^wrong +3 +-1e\+308 '

# --- what browsers and strict parsers say ---
python=$(command -v "${CLTRAIN_PYTHON:-python3}")
if [ -n "$python" ] && "$python" -c 'import html5lib' 2>/dev/null; then
    for file in $page report.html evil.html evils.html runs/torn/report.html; do
        expect_code 0 "$python" -c 'import sys, html5lib; html5lib.HTMLParser(strict=True).parse(open(sys.argv[1], encoding="utf-8").read())' "$file"
    done
else
    note_skip 'the strict parse needs html5lib'
fi
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -n "$browser" ]; then
    for file in evil evils; do
        expect_code 0 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/browser" --dump-dom \
            "file://$work/$file.html"
        expect_text '</html>' 'class="plot"'
        # text of the page may name it; what a script would add is text of the body itself
        if sed -n '/<\/main>/,$p' "$out" | grep -q 'owned'; then fail "a foreign script ran in $file.html"; else pass; fi
    done
else
    note_skip 'running hostile pages needs chromium'
fi
finish
