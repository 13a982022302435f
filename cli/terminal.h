/* SPDX-License-Identifier: Apache-2.0
 *
 * The standard output as a screen: whether it is a terminal whose lines can be rewritten, how wide it is,
 * whether it shows colours; and text as it takes up columns there. Everything else that prints asks here. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* --color. AUTO: colours on terminals, unless TERM is dumb, NO_COLOR is set or CLICOLOR is 0;
 * CLICOLOR_FORCE turns them on everywhere. */
typedef enum terminal_when { TERMINAL_AUTO, TERMINAL_ALWAYS, TERMINAL_NEVER } terminal_when;
bool terminal_when_from_name(const char *name, terminal_when *when);
void terminal_use_color(terminal_when when);

/* Can a line be taken back there? */
bool terminal_rewrites(void);
/* As wide as it is now; 0: no terminal, lines are as long as they are. */
int terminal_columns(void);
/* terminal_takes: is there room for a line? A terminal that nobody reads (a connection that is gone, Ctrl-S)
 * must not hold anything up. terminal_write: comes back at once; what the terminal has begun to take but not
 * taken whole goes there before anything else. Elsewhere both are the standard output, which waits. One
 * thread at a time. */
bool terminal_takes(void);
void terminal_write(const char *text, size_t size);
/* Waits a second at most until it has taken all. */
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
/* What begins and ends such text on a file descriptor; "" where there are no colours. */
const char *terminal_begin(int fd, terminal_ink ink);
const char *terminal_end(int fd, terminal_ink ink);

/* Columns that a text takes up: wide characters take two, combining ones none. */
int text_columns(const char *text);
/* Length in bytes of as much of the text as fits into so many columns. */
size_t text_fit(const char *text, int columns);
/* Names from outside: control characters, whatever a terminal would obey, and what is no UTF-8 become '?'.
 * Line ends and tabs become spaces. Returns buffer. */
const char *text_clean(const char *text, char *buffer, size_t size);

#endif
