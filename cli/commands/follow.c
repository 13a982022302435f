/* SPDX-License-Identifier: Apache-2.0
 *
 * Redraws a picture on the terminal until the user quits. */
#include "cli/commands/follow.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ESCAPE_MS 50 /* the rest of an escape sequence arrives within this time */

static int environment_number(const char *name, int least, int most, int otherwise)
{
    const char *text = getenv(name);
    int number = text ? atoi(text) : 0;
    return number >= least && number <= most ? number : otherwise;
}

void follow_size(int *columns, int *rows)
{
    struct winsize size;
    *columns = environment_number("COLUMNS", 30, 500, 80);
    *rows = environment_number("LINES", 8, 300, 24);
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        *columns = size.ws_col < 30 ? 30 : size.ws_col > 500 ? 500 : size.ws_col;
        *rows = size.ws_row > 7 ? size.ws_row : 8;
    }
}

static struct termios usual;
static bool keys; /* the terminal is in the mode that delivers keys */

/* Makes the terminal deliver keys immediately and without echo. Ctrl-C and Ctrl-Z become keys as well: as
 * signals they could end or stop the process while the terminal is in this mode. */
static bool take_keys(void)
{
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &usual) != 0)
        return false;
    struct termios quiet = usual;
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    quiet.c_cc[VMIN] = 0;
    quiet.c_cc[VTIME] = 0;
    quiet.c_cc[VINTR] = quiet.c_cc[VSUSP] = _POSIX_VDISABLE;
    return tcsetattr(STDIN_FILENO, TCSANOW, &quiet) == 0;
}

/* True for q, Ctrl-C, or Escape alone: arrow keys and the mouse wheel send Escape with more bytes. */
static bool means_end(const char *typed, size_t size, struct pollfd *in)
{
    if (typed[0] == 27)
        return size == 1 && poll(in, 1, ESCAPE_MS) == 0;
    for (size_t i = 0; i < size; i++)
        if (typed[i] == 'q' || typed[i] == 'Q' || typed[i] == 3)
            return true;
    return false;
}

bool follow_wait(const cmd_context *context, double seconds)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char typed[64];
    int n = poll(&in, keys ? 1 : 0, (int)(seconds * 1000));
    ssize_t size = n > 0 ? read(STDIN_FILENO, typed, sizeof typed) : 0;
    if (size > 0 && means_end(typed, (size_t)size, &in))
        return true;
    if (n > 0 && size <= 0) /* poll() returns immediately for a closed input, so wait without it */
        (void)poll(NULL, 0, (int)(seconds * 1000));
    return *context->stop != 0;
}

void follow_begin(void)
{
    keys = take_keys();
    printf("\033[?1049h\033[?25l");
}

void follow_end(void)
{
    printf("\033[?25h\033[?1049l");
    fflush(stdout);
    if (keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    keys = false;
}

clt_status follow_show(const clt_str *picture)
{
    CLT_TRY(clt_str_check(picture));
    printf("\033[H");
    for (const char *line = picture->text; *line;) {
        size_t length = strcspn(line, "\n");
        printf("%.*s\033[K\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
    printf("\033[J%s", isatty(STDIN_FILENO) ? "q ends" : "");
    fflush(stdout);
    return CLT_OK;
}
