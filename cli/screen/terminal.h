/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard output as a screen: whether it is a terminal whose lines can be rewritten, its width, whether
 * it shows colours; and how many columns text takes there. Everything that prints asks here. */
#ifndef CLI_SCREEN_TERMINAL_H
#define CLI_SCREEN_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine/base/mem.h"

/* --color. AUTO: colours on terminals, unless TERM is dumb, NO_COLOR is set or CLICOLOR is 0;
 * CLICOLOR_FORCE turns them on everywhere. */
typedef enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER } terminal_when;
bool terminal_when_from_name(const char *name, terminal_when *when);
void terminal_use_color(terminal_when when);

/* True if the last line can be erased and rewritten. */
bool terminal_rewrites(void);
/* The current width; 0: no terminal, so lines have no limit. */
int terminal_columns(void);
/* The same of another file descriptor. */
int terminal_columns_of(int fd);
/* terminal_takes: can a line be written now? A terminal that nobody reads (a lost connection, Ctrl-S) must
 * not block anything. terminal_write: never blocks; the rest of a text that the terminal has accepted in part
 * is written before anything else. If the output is no terminal, both use the standard output, which may
 * block. To be used by one thread at a time. */
bool terminal_takes(void);
void terminal_write(const char *text, size_t size);
/* Waits until the terminal has accepted everything, for at most a second. */
void terminal_settle(void);

typedef enum terminal_ink {
    INK_PLAIN,
    INK_STRONG,
    INK_FAINT,
    INK_GOOD,
    INK_WARNING,
    INK_BAD,
    INK_COUNT
} terminal_ink;
/* Escape sequences before and after text in that style on a file descriptor; "" where there are no
 * colours. */
const char *terminal_begin(int fd, terminal_ink ink);
const char *terminal_end(int fd, terminal_ink ink);

/* Columns that a text takes: wide characters take two, combining ones none. */
int text_columns(const char *text);
/* Length in bytes of the longest beginning of the text that fits into that many columns. */
size_t text_fit(const char *text, int columns);
/* Makes text from outside safe to print: control characters, escape sequences and invalid UTF-8 become '?';
 * newlines and tabs become spaces. Returns buffer. */
const char *text_clean(const char *text, char *buffer, size_t size);
/* Appends text, wrapped at blanks, as complete lines; no word is cut. Lines after the first are indented by `indent`
 * blanks. The first begins at column `at`, up to which the caller has written. screen 0: one line. */
void text_wrap(const char *text, int at, int indent, int screen, clt_str *out);
/* printf for texts with names, messages and contents of files of others: whatever a terminal would obey,
 * other than line breaks and tabs, becomes '?', on both streams. On a screen long lines are wrapped at blanks; what
 * follows is indented by two more than the line. On the standard output:
 * terminal_say; terminal_say_item: what follows is indented by `hang` blanks, for lists; terminal_say_whole: nothing is
 * wrapped, for commands that a user may copy. */
void terminal_say_to(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_say_item(int hang, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_say_whole(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A message for the standard error: who tells it, or "", a label in colour, and the text, which is safe to print already.
 */
void terminal_tell(const char *who, terminal_ink ink, const char *label, const char *text);
#define terminal_say(...) terminal_say_to(stdout, __VA_ARGS__)

#endif
