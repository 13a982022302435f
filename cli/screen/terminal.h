/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal: its width, whether its lines can be rewritten, its colours; the columns that a text takes
 * there; and printing that wraps text, and makes text from outside safe. */
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
/* The current width of the standard output's terminal; 0: no terminal, so lines have no limit. */
int terminal_columns(void);
/* The width of the terminal at file descriptor `fd`; 0: it is not a terminal. */
int terminal_columns_of(int fd);
/* terminal_takes: true if a line can be written now. A terminal that nobody reads (a lost connection,
 * Ctrl-S) must not block the run. terminal_write: never blocks; if the terminal accepts a part of a text,
 * the rest is written before any later text. If the standard output is not a terminal, terminal_takes is
 * true, and terminal_write may block. One thread at a time may use them. */
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
/* Escape sequences before and after text in style `ink` on a file descriptor; "" without colours. */
const char *terminal_begin(int fd, terminal_ink ink);
const char *terminal_end(int fd, terminal_ink ink);

/* Columns that a text takes: wide characters take two, combining characters none. */
int text_columns(const char *text);
/* Length in bytes of the longest prefix of the text that fits into `columns` columns. */
size_t text_fit(const char *text, int columns);
/* Makes text from outside safe to print: control characters, escape sequences and invalid UTF-8 become '?';
 * newlines and tabs become spaces. Returns buffer. */
const char *text_clean(const char *text, char *buffer, size_t size);
/* Appends text as complete lines, wrapped at blanks to `screen` columns (0: one line); no word is cut. The
 * first line begins at column `at`, because the caller has written up to there; the others are indented by
 * `indent` blanks. */
void text_wrap(const char *text, int at, int indent, int screen, clt_str *out);
/* Wraps each line of a text in this way; if the last line has no newline, none is added. Continuations are
 * indented by `hang` blanks; if that is 0, by two more than their line. *begun: columns of an incomplete
 * line that are already written, before and after the call. */
void text_wrap_lines(const char *text, int *begun, int hang, int screen, clt_str *out);
/* printf to stdout or stderr for texts from outside: names, messages, contents of files. Control characters
 * other than line breaks and tabs become '?'. On a terminal, long lines are wrapped at blanks, and their
 * continuation is indented by two columns more than the line. terminal_say prints to stdout;
 * terminal_say_item does so with continuations indented by `hang` blanks, for lists; terminal_say_whole does
 * not wrap, for commands that a user may copy. */
void terminal_say_to(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_say_item(int hang, const char *format, ...) __attribute__((format(printf, 2, 3)));
void terminal_say_whole(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a message to stderr: who reports it (`who`, may be ""), a label in colour, and the text, which must
 * already be safe to print. */
void terminal_tell(const char *who, terminal_ink ink, const char *label, const char *text);
#define terminal_say(...) terminal_say_to(stdout, __VA_ARGS__)

#endif
