/* SPDX-License-Identifier: Apache-2.0
 *
 * Quotes words for the shell: as they are, as '...', or as $'...' if they hold control characters. */
#include "cli/screen/shell_word.h"

#include <string.h>

/* Quotes a word as $'...', which shows control characters instead of sending them to the terminal. */
static void append_escaped(clt_str *out, const char *word)
{
    clt_str_append(out, "$'");
    for (; *word; word++)
        if ((unsigned char)*word < 0x20 || *word == 0x7f)
            clt_str_printf(out, "\\%03o", (unsigned)*word);
        else
            clt_str_printf(out, *word == '\'' || *word == '\\' ? "\\%c" : "%c", *word);
    clt_str_append(out, "'");
}

void shell_quote(clt_str *out, const char *word)
{
    clt_str_append(out, "'");
    for (; *word; word++)
        if (*word == '\'')
            clt_str_append(out, "'\\''");
        else
            clt_str_append_n(out, word, 1);
    clt_str_append(out, "'");
}

void shell_append_word(clt_str *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*word && word[strspn(word, plain)] == '\0') {
        clt_str_append(out, word);
        return;
    }
    for (const char *c = word; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            append_escaped(out, word);
            return;
        }
    shell_quote(out, word);
}
