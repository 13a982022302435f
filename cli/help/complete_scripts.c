/* SPDX-License-Identifier: Apache-2.0
 *
 * The completion scripts. Each passes the words of the command line to `cltrain completion words` and
 * converts the answer (its form: cli/help/complete.h) for its shell. It calls the program that the command
 * line names. */
#include <string.h>

#include "cli/help/complete.h"

static const char bash[] =
    "# bash completion for cltrain, written by \"cltrain completion bash\".\n"
    "_cltrain() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} value text program cur prefix path name\n"
    "    local -a words\n"
    "    read -r -a words <<<\"$line\"\n"
    "    [[ $line == *[[:space:]] ]] && words+=('')\n"
    "    cur=${words[${#words[@]} - 1]}\n"
    "    # bash breaks words at '=' and ':' and replaces only what follows the last of them.\n"
    "    path=${cur##*[=:]}\n"
    "    prefix=${cur%\"$path\"}\n"
    "    program=${words[0]/#\\~\\//$HOME/}\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r value text; do\n"
    "        case $value in\n"
    "        :nospace) compopt -o nospace 2>/dev/null ;;\n"
    "        :dirs | :files | :json)\n"
    "            compopt -o filenames 2>/dev/null\n"
    "            while IFS= read -r name; do\n"
    "                [[ $value != :json || $name == *.json || -d ${name/#\\~\\//$HOME/} ]] && "
    "COMPREPLY+=(\"$name\")\n"
    "            done < <(if [[ $value == :dirs ]]; then compgen -d -- \"$path\"; else compgen -f -- "
    "\"$path\"; fi)\n"
    "            ;;\n"
    "        *) COMPREPLY+=(\"${value#\"$prefix\"}\") ;;\n"
    "        esac\n"
    "    done < <(\"$program\" completion words \"$((${#words[@]} - 1))\" -- \"${words[@]}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _cltrain cltrain\n";

static const char zsh[] =
    "#compdef cltrain\n"
    "# zsh completion for cltrain, written by \"cltrain completion zsh\".\n"
    "_cltrain() {\n"
    "  local entry value program=${(Q)words[1]}\n"
    "  local -a given values texts nospace places\n"
    "  program=${program/#\\~\\//$HOME/}\n"
    "  given=(\"${(@Q)words[1,CURRENT-1]}\" \"$PREFIX\")\n"
    "  for entry in \"${(@f)$(\"$program\" completion words $((CURRENT - 1)) -- \"${given[@]}\" "
    "2>/dev/null)}\"; do\n"
    "    value=${entry%%$'\\t'*}\n"
    "    case $value in\n"
    "      '') ;;\n"
    "      :nospace) nospace=(-S '') ;;\n"
    "      :dirs|:files|:json) places+=($value) ;;\n"
    "      *)\n"
    "        values+=(\"$value\")\n"
    "        if [[ $entry == *$'\\t'* ]]; then texts+=(\"${value}  -- ${${entry#*$'\\t'}[1,COLUMNS-36]}\"); "
    "else texts+=(\"$value\"); fi\n"
    "        ;;\n"
    "    esac\n"
    "  done\n"
    "  (( $#values )) && compadd $nospace -l -d texts -a values\n"
    "  (( $#places )) || return 0\n"
    "  [[ $PREFIX == *=* ]] && compset -P '*='\n"
    "  case $places[1] in\n"
    "    :dirs) _files -/ ;;\n"
    "    :json) _files -g '*.json(-.)' ;;\n"
    "    *) _files ;;\n"
    "  esac\n"
    "}\n"
    "if [[ ${funcstack[1]} == _cltrain ]]; then _cltrain \"$@\"; else compdef _cltrain cltrain; fi\n";

static const char fish[] =
    "# fish completion for cltrain, written by \"cltrain completion fish\".\n"
    "function __cltrain_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l word (commandline -ct)\n"
    "    set -l prefix (string match -r '^.*=' -- $word)\n"
    "    set -l path (string replace -r '^.*=' '' -- $word)\n"
    "    set -l program (string replace -r '^~/' \"$HOME/\" -- $words[1])\n"
    "    for line in ($program completion words (count $words) -- $words \"$word\" 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':nospace'\n"
    "            case ':dirs' ':files' ':json'\n"
    "                for name in (complete -C \"'' $path\" | string replace -r '\\t.*' '')\n"
    "                    if test $line = ':files' -o -d \"$name\"\n"
    "                        echo \"$prefix$name\"\n"
    "                    else if test $line = ':json'; and string match -q '*.json' -- $name\n"
    "                        echo \"$prefix$name\"\n"
    "                    end\n"
    "                end\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c cltrain -f -a '(__cltrain_complete)'\n";

const char *complete_script(const char *shell)
{
    return strcmp(shell, "bash") == 0   ? bash
           : strcmp(shell, "zsh") == 0  ? zsh
           : strcmp(shell, "fish") == 0 ? fish
                                        : NULL;
}
