#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest-labels: quick
#
# Completion in the real shells (bash, zsh, fish), from the scripts that the program prints, and the manual page through man. A shell
# that is not installed is skipped.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir home bin runs runs/mine configs 'my text'
touch 'configs/a.json' configs/notes.txt 'my text/one.txt'
export HOME=$work/home
cat >bin/cltrain <<TEXT
#!/bin/sh
exec "$CLTRAIN" "\$@"
TEXT
chmod +x bin/cltrain
export PATH=$work/bin:$PATH

# --- what the scripts ask ---
# offers WORD... => CANDIDATE...: the last word can become each of these; candidates with a "!" before them must not be offered.
offers() {
    local -a words=()
    while [ "$1" != '=>' ]; do words+=("$1"); shift; done
    shift
    expect_code 0 "$CLTRAIN" completion words ${#words[@]} -- cltrain "${words[@]}"
    for candidate in "$@"; do
        if [ "${candidate#!}" != "$candidate" ]; then
            if cut -f 1 "$out" | grep -q -x -F -e "${candidate#!}"; then fail "${words[*]}: offers ${candidate#!}"; else pass; fi
        elif cut -f 1 "$out" | grep -q -x -F -e "$candidate"; then pass; else fail "${words[*]}: does not offer $candidate"; fi
    done
}
offers '' '=>' train eval cache completion help --help '!probe' '!verify-worker'
offers tr '=>' train '!eval'
offers train '' '=>' :json '!model.'
offers train x.json '' '=>' model. data. :nospace '!:json'
offers train --resume runs/mine '' '=>' :json train.
offers eval '' '=>' :dirs '!model.'
offers train x.json optimizer.l '=>' optimizer.learning_rate= '!optimizer.beta1='
offers train x.json optimizer.type= '=>' optimizer.type=adamw
offers train x.json data.shuffle=t '=>' data.shuffle=true '!data.shuffle=false'
offers train x.json data.path= '=>' :files
offers train --res '=>' --resume
offers train --resume '' '=>' auto none :dirs
offers train --resume=a '=>' --resume=auto :dirs
offers train --out x x.json --o '=>' '!--out'
offers train x.json --device '' '=>' gpu cpu
offers bench '' '=>' gemm step loader
offers bench gemm --dtype '' '=>' f32 bf16
offers data '' '=>' prepare verify
offers data prepare '' '=>' :files
offers help ev '=>' eval
offers cache --clear p '=>' programs pocl '!tuning'
offers nothing '' '=>' '!train'
offers train '$(touch owned)' '`touch owned`' '=>' '!train'
expect_absent owned
expect_code 2 "$CLTRAIN" completion words 0 -- cltrain
expect_code 2 "$CLTRAIN" completion words 9 -- cltrain train
expect_code 2 "$CLTRAIN" completion words x -- cltrain train
expect_code 2 "$CLTRAIN" completion csh
expect_text 'bash, zsh, fish'
# Every option of every command is offered, since they come from the same table.
for command in train eval generate verify tune; do
    mapfile -t options < <("$CLTRAIN" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
    offers "$command" -- '=>' "${options[@]}"
done

# --- bash ---
expect_code 0 "$CLTRAIN" completion bash
cp "$out" cltrain.bash
expect_code 0 bash -n cltrain.bash
cat >ask.bash <<'TEXT'
. ./cltrain.bash
complete -p cltrain | grep -q -- '-F _cltrain' || exit 1
COMP_LINE=$1 COMP_POINT=${#1}
read -r -a COMP_WORDS <<<"$1"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_cltrain
printf '%s\n' "${COMPREPLY[@]}"
TEXT
# in_bash LINE CANDIDATE...: exactly these
in_bash() {
    local line=$1
    shift
    expect_code 0 bash ask.bash "$line"
    if [ "$(sort "$out")" = "$(printf '%s\n' "$@" | sort)" ]; then pass; else fail "bash: $line: not exactly: $*"; fi
}
in_bash 'cltrain tr' train
in_bash 'cltrain train --resu' --resume
in_bash 'cltrain train configs/' configs/a.json
in_bash 'cltrain train con' configs
in_bash 'cltrain train --resume=' auto none bin configs home runs 'my text'
in_bash 'cltrain train a.json optimizer.type=ad' adam adamw
in_bash 'cltrain train a.json schedule.ty' schedule.type=
in_bash 'cltrain data prepare my' 'my text'
in_bash 'bin/cltrain help dem' demo
in_bash 'cltrain nothing x' ''

# --- fish ---
expect_code 0 "$CLTRAIN" completion fish
cp "$out" cltrain.fish
in_fish() { # LINE CANDIDATE...: among them
    local line=$1
    shift
    expect_code 0 env XDG_CONFIG_HOME="$work/home/config" fish --no-config -c 'source cltrain.fish; complete -C $argv[1]' "$line"
    for candidate in "$@"; do
        if cut -f 1 "$out" | grep -q -x -F -e "$candidate"; then pass; else fail "fish: $line: does not offer $candidate"; fi
    done
}
if command -v fish >/dev/null; then
    in_fish 'cltrain tr' train
    if grep -q "$(printf 'train\ttrain the model')" "$out"; then pass; else fail 'fish: no description'; fi
    in_fish 'cltrain train --resu' --resume
    in_fish 'cltrain train --resume ' auto none runs/
    reject_text 'a.json'
    in_fish 'cltrain train configs/' configs/a.json
    reject_text 'notes'
    in_fish 'cltrain train a.json optimizer.type=ad' optimizer.type=adam optimizer.type=adamw
    in_fish 'cltrain train a.json data.path=configs/' data.path=configs/a.json data.path=configs/notes.txt
    in_fish 'cltrain train a.json schedule.ty' schedule.type=
else
    note_skip 'fish is not installed: its completion was not tried'
fi

# --- zsh: in a pseudo terminal, because its completion system works only there ---
expect_code 0 "$CLTRAIN" completion zsh
mkdir functions
cp "$out" functions/_cltrain
cat >ask.zsh <<'TEXT'
zmodload zsh/zpty
zpty inner "zsh -f -i"
zpty -w inner "unset zle_bracketed_paste; PS1=''; stty cols 200; LISTMAX=0; fpath=($PWD/functions \$fpath); autoload -U compinit; compinit -u -D; setopt no_list_beep; echo rea''dy"
wait_for() { local text= part; while true; do zpty -r -t inner part && text+=$part || sleep 0.05; [[ $text == *$1* ]] && break; done; print -r -- "$text"; }
wait_for ready >/dev/null
zpty -w -n inner "$1"$'\t'
sleep $2
zpty -w -n inner $'\t'
sleep $2
zpty -w -n inner $'\C-e\C-uecho do\'\'ne\n'
wait_for done
zpty -d inner
TEXT
in_zsh() { # LINE TEXT...: what then stands on the terminal
    local line=$1 pause text all
    shift
    # If a key arrives before zsh has answered the previous one, that answer is suppressed: so each try
    # waits longer between keys.
    for pause in 0.3 1 4 16 64; do
        expect_code 0 zsh -f ask.zsh "$line" "$pause"
        sed -i -e 's/\x1b\[[0-9;?]*[a-zA-Z]//g' -e 's/\r//g' "$out"
        all=yes
        for text in "$@"; do grep -q -E -- "$text" "$out" || all=no; done
        [ $all = no ] || break
    done
    expect_text "$@"
}
if command -v zsh >/dev/null && zsh -f -c 'zmodload zsh/zpty' 2>/dev/null; then
    expect_code 0 zsh -f -n functions/_cltrain
    in_zsh 'cltrain gen' 'cltrain generate'
    in_zsh 'cltrain train --' '--resume +-- auto: resume' '--max-steps'
    in_zsh 'cltrain train a.json optimizer.type=ad' 'optimizer.type=adamw'
    in_zsh 'cltrain train conf' 'configs/'
    in_zsh 'cltrain train configs/' 'configs/a.json'
    reject_text notes
    in_zsh 'cltrain train a.json data.path=configs/n' 'data.path=configs/notes.txt'
else
    note_skip 'zsh is not installed: its completion was not tried'
fi

# --- the manual page ---
expect_code 0 "$CLTRAIN" man
cp "$out" cltrain.1
expect_text '^cltrain train mydata/gpt.json ' '^cltrain generate runs/mine '
expect_text '^\.TH CLTRAIN 1' '^\.SH NAME' '^cltrain \\- trains' '^\.SH "EXIT STATUS"'
for command in $("$CLTRAIN" help | sed -n '/^usage/,/^first steps/s/^  \([a-z]*\)  .*/\1/p'); do
    expect_code 0 grep -q -x -F "\\fB$command\\fR" cltrain.1
done
expect_awk 'a control line of the page is not a request that it means to have' \
    '/^[.\x27]/ && !/^\.(\\"|TH|SH|SS|TP|PP|RS|RE|nf|fi|br|nh|ad|B|I|BR)( |$)/ && !/^\.\\"/ { print; exit 1 }' cltrain.1
if command -v groff >/dev/null; then
    groff -man -Tascii -ww cltrain.1 >page.txt 2>warnings
    if [ -s warnings ]; then fail "groff warns: $(head -n 3 warnings)"; else pass; fi
fi
if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning cltrain.1 >warnings
    if grep -v -E 'missing date|STYLE' warnings | grep -q .; then fail "mandoc warns: $(head -n 3 warnings)"; else pass; fi
fi
if command -v man >/dev/null && man --help 2>&1 | grep -q -- --warnings; then
    MANWIDTH=80 man --warnings -P cat -l cltrain.1 2>warnings | sed -e 's/.\x08//g' -e 's/\x1b\[[0-9;]*m//g' >page.txt
    if [ -s warnings ]; then fail "man warns: $(head -n 3 warnings)"; else pass; fi
    expect_code 0 grep -q -E '^ +--resume auto\|RUN\|none$' page.txt
    expect_code 0 grep -q -E '^ +optimizer.learning_rate$' page.txt
    expect_code 0 grep -q -E '^ +10 +device lost$' page.txt
else
    note_skip 'man is not installed: the page was not shown by it'
fi
finish
