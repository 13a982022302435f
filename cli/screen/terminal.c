/* SPDX-License-Identifier: Apache-2.0
 *
 * The terminal: width, colours, output that never blocks, columns of UTF-8 text, wrapping, safe printing. */
#include "cli/screen/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "comm/comm.h"
#include "engine/base/text.h"

#define LEAST_COLUMNS 20
#define CLEAN_ROOM 5 /* bytes that text_clean needs free before each character */

static terminal_when color = TERMINAL_AUTO;

bool terminal_when_from_name(const char *name, terminal_when *when)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *when = (terminal_when)i;
            return true;
        }
    return false;
}

void terminal_use_color(terminal_when when)
{
    color = when;
}

/* True if the file descriptor is a terminal that the user sees. The terminals that mpirun gives its ranks do
 * not count, because mpirun forwards their output, perhaps to a file. */
static bool is_screen(int fd)
{
    return isatty(fd) && !comm_under_launcher();
}

static bool is_dumb(void)
{
    const char *term = getenv("TERM");
    return term != NULL && strcmp(term, "dumb") == 0;
}

bool terminal_rewrites(void)
{
    return is_screen(STDOUT_FILENO) && !is_dumb();
}

int terminal_columns_of(int fd)
{
    struct winsize size;
    if (!is_screen(fd))
        return 0;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col < LEAST_COLUMNS ? LEAST_COLUMNS : size.ws_col;
    return 80;
}

int terminal_columns(void)
{
    return terminal_columns_of(STDOUT_FILENO);
}

/* Opens the terminal a second time for output that does not block. That mode must not be set for file
 * descriptor 1, because other processes such as the shell share it. -1: no terminal. */
static int own_terminal(void)
{
    static bool tried;
    static int fd = -1;
    if (!tried) {
        char name[256];
        tried = true;
        if (ttyname_r(STDOUT_FILENO, name, sizeof name) == 0)
            fd = open(name, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    }
    return fd;
}

static struct {
    char text[8192];
    size_t size;
} rest; /* output that the terminal has not accepted yet */

static bool write_rest(int fd)
{
    while (rest.size > 0) {
        ssize_t n = write(fd, rest.text, rest.size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            rest.size = 0; /* the terminal is gone, so drop the output */
        if (n <= 0)
            break;
        memmove(rest.text, rest.text + n, rest.size - (size_t)n);
        rest.size -= (size_t)n;
    }
    return rest.size == 0;
}

bool terminal_takes(void)
{
    int fd = own_terminal();
    struct pollfd out = {.fd = fd, .events = POLLOUT};
    return fd < 0 || (write_rest(fd) && poll(&out, 1, 0) > 0);
}

void terminal_write(const char *text, size_t size)
{
    int fd = is_screen(STDOUT_FILENO) ? own_terminal() : -1;
    fflush(stdout);
    if (fd < 0) {
        fwrite(text, 1, size, stdout);
        fflush(stdout);
        return;
    }
    if (size > sizeof rest.text - rest.size)
        size = sizeof rest.text - rest.size;
    memcpy(rest.text + rest.size, text, size);
    rest.size += size;
    (void)write_rest(fd);
}

void terminal_settle(void)
{
    struct pollfd out = {.fd = own_terminal(), .events = POLLOUT};
    for (int i = 0; i < 20 && rest.size > 0 && !write_rest(out.fd); i++)
        (void)poll(&out, 1, 50);
}

static bool is_set(const char *name, const char *except)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' && strcmp(value, except) != 0;
}

static bool shows_color(int fd)
{
    const char *cli = getenv("CLICOLOR");
    if (color != TERMINAL_AUTO)
        return color == TERMINAL_ALWAYS;
    if (is_set("NO_COLOR", ""))
        return false;
    if (is_set("CLICOLOR_FORCE", "0"))
        return true;
    return is_screen(fd) && !is_dumb() && !(cli != NULL && strcmp(cli, "0") == 0);
}

const char *terminal_begin(int fd, terminal_ink ink)
{
    static const char *const inks[INK_COUNT] = {"",         "\033[1m",  "\033[2m",
                                                "\033[32m", "\033[33m", "\033[1;31m"};
    return shows_color(fd) ? inks[ink] : "";
}

const char *terminal_end(int fd, terminal_ink ink)
{
    return ink != INK_PLAIN && shows_color(fd) ? "\033[0m" : "";
}

/* --- text --- */

/* The code point at `text` and its length in bytes; an invalid byte gives U+FFFD, which takes one column. */
static uint32_t character(const char *text, size_t *size)
{
    const unsigned char *b = (const unsigned char *)text;
    *size = clt_utf8_size(text, strlen(text) < 4 ? strlen(text) : 4);
    switch (*size) {
    case 1:
        return b[0];
    case 2:
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    case 3:
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    case 4:
        return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 |
               (b[3] & 0x3f);
    default:
        *size = 1;
        return 0xfffd;
    }
}

typedef struct span {
    uint32_t first, last;
} span;

static bool within(const span *spans, size_t count, uint32_t c)
{
    for (size_t i = 0; i < count; i++)
        if (c >= spans[i].first && c <= spans[i].last)
            return true;
    return false;
}
#define WITHIN(spans, c) within(spans, sizeof(spans) / sizeof(spans)[0], c)

static int columns_of(uint32_t c)
{
    static const span none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                                {0x64b, 0x65f},   {0x200b, 0x200f}, {0x202a, 0x202e},
                                {0x2060, 0x2064}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}};
    static const span wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},  {0xac00, 0xd7a3},
                                {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},  {0xffe0, 0xffe6},
                                {0x1f300, 0x1f64f}, {0x1f680, 0x1faff}, {0x20000, 0x3fffd}};
    return WITHIN(none, c) ? 0 : WITHIN(wide, c) ? 2 : 1;
}

int text_columns(const char *text)
{
    int columns = 0;
    size_t size;
    for (; *text; text += size)
        columns += columns_of(character(text, &size));
    return columns;
}

size_t text_fit(const char *text, int columns)
{
    const char *at = text;
    size_t size;
    for (; *at; at += size) {
        columns -= columns_of(character(at, &size));
        if (columns < 0)
            break;
    }
    return (size_t)(at - text);
}

/* True for control characters and for marks that change the direction of writing. */
static bool is_obeyed(uint32_t c)
{
    static const span obeyed[] = {
        {0, 0x1f}, {0x7f, 0x9f}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    return WITHIN(obeyed, c);
}

const char *text_clean(const char *text, char *buffer, size_t size)
{
    size_t at = 0, length;
    for (; *text && at + CLEAN_ROOM <= size; text += length) {
        uint32_t c = character(text, &length);
        if (c == '\n' || c == '\t' || c == '\r') {
            buffer[at++] = ' ';
        } else if (c == 0xfffd || is_obeyed(c)) {
            buffer[at++] = '?';
        } else {
            memcpy(buffer + at, text, length);
            at += length;
        }
    }
    buffer[at] = '\0';
    return buffer;
}

/* The index of the last blank in text[least + 1 ... at]; `least` if there is none. */
static size_t blank_before(const char *text, size_t at, size_t least)
{
    while (at > least && text[at] != ' ')
        at--;
    return at;
}

/* True if the blank at `at` is between a number and its unit, as in "11.3 GiB", which stay together. */
static bool is_unit(const char *text, size_t at)
{
    return at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && isalpha((unsigned char)text[at + 1]);
}

/* Length in bytes of the whole words that fit into `columns` columns, without the blanks after them; *skip:
 * number of these blanks. 0: not even the first word fits. */
static size_t whole_words(const char *text, int columns, size_t *skip)
{
    size_t fit = text_fit(text, columns), lead = strspn(text, " "), cut = fit;
    *skip = 0;
    if (text[fit] == '\0')
        return fit;
    cut = blank_before(text, cut, lead);
    if (cut <= lead)
        return 0;
    size_t earlier = is_unit(text, cut) ? blank_before(text, cut - 1, lead) : lead;
    if (earlier > lead)
        cut = earlier;
    *skip = strspn(text + cut, " ");
    while (text[cut - 1] == ' ')
        cut--;
    return cut;
}

void text_wrap(const char *text, int at, int indent, int screen, clt_str *out)
{
    size_t room = strlen(text) + CLEAN_ROOM;
    CLT_FREED char *clean = malloc(room);
    if (!clean) {
        out->failed = true;
        return;
    }
    const char *left = text_clean(text, clean, room);
    if (screen <= 0 || screen <= indent + 8) {
        clt_str_printf(out, "%s\n", left);
        return;
    }
    do {
        size_t skip, size = whole_words(left, screen - at, &skip);
        if (size == 0 && at <= indent) { /* a word wider than the screen, which the terminal breaks */
            size = strspn(left, " ");
            size += strcspn(left + size, " ");
            skip = strspn(left + size, " ");
        }
        clt_str_append_n(out, left, size);
        clt_str_append(out, "\n");
        left += size + skip;
        if (*left)
            clt_str_printf(out, "%*s", indent, "");
        at = indent;
    } while (*left);
}

void text_wrap_lines(const char *text, int *begun, int hang, int screen, clt_str *out)
{
    for (const char *line = text; *line;) {
        size_t size = strcspn(line, "\n"), blanks = strspn(line, " ");
        CLT_FREED char *one = strndup(line, size);
        int indent = hang > 0 ? hang : *begun > 0 ? 2 : (int)blanks + 2;
        CLT_SCOPED(clt_str) wrapped = {0};
        if (one)
            text_wrap(one, *begun, indent < screen / 2 ? indent : 2, screen, &wrapped);
        if (!one || wrapped.failed)
            clt_str_printf(out, "%.*s\n", (int)size, line);
        else
            clt_str_append(out, wrapped.text);
        bool ended = line[size] == '\n';
        if (!ended && out->length > 0)
            out->text[--out->length] = '\0';
        const char *last = out->text ? strrchr(out->text, '\n') : NULL;
        *begun = ended  ? 0
                 : last ? text_columns(last + 1)
                        : *begun + text_columns(out->text ? out->text : "");
        line += size + ended;
    }
}

static int begun[STDERR_FILENO + 1]; /* for each descriptor: columns of the incomplete line printed so far */

static void say_wrapped(FILE *file, int fd, const char *text, int hang, int screen)
{
    CLT_SCOPED(clt_str) out = {0};
    text_wrap_lines(text, &begun[fd], hang, screen, &out);
    fputs(out.failed || !out.text ? text : out.text, file);
}

static void say(FILE *file, int hang, const char *format, va_list args)
{
    CLT_FREED char *text = NULL;
    int fd = file == stderr ? STDERR_FILENO : STDOUT_FILENO, screen = hang < 0 ? 0 : terminal_columns_of(fd);
    if (vasprintf(&text, format, args) < 0) { /* memory ran out, and `text` is undefined */
        text = NULL;
        return;
    }
    clt_text_sanitise(text);
    if (screen > 0)
        say_wrapped(file, fd, text, hang, screen);
    else
        fputs(text, file);
}

void terminal_say_to(FILE *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(file, 0, format, args);
    va_end(args);
}

void terminal_say_item(int hang, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(stdout, hang, format, args);
    va_end(args);
}

void terminal_say_whole(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(stdout, -1, format, args);
    va_end(args);
}

void terminal_tell(const char *who, terminal_ink ink, const char *label, const char *text)
{
    CLT_SCOPED(clt_str) out = {0};
    int screen = terminal_columns_of(STDERR_FILENO), at = text_columns(who) + text_columns(label);
    bool list = strchr(text, '\n') != NULL;
    clt_str_printf(&out, "%s%s%s%s%s", who, terminal_begin(STDERR_FILENO, ink), label,
                   terminal_end(STDERR_FILENO, ink),
                   list    ? "\n"
                   : *text ? " "
                           : "\n");
    for (const char *line = text; *line;) {
        size_t size = strcspn(line, "\n");
        CLT_FREED char *one = strndup(line, size);
        int indent = list ? 4 : 2;
        if (one && screen > 0)
            text_wrap(one, list ? 0 : at + 1, indent, screen, &out);
        else
            clt_str_printf(&out, "%.*s\n", (int)size, line);
        line += size + (line[size] == '\n');
    }
    fputs(out.failed || !out.text ? text : out.text, stderr);
}
