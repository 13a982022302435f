/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal for the end-to-end tests: runs a command on a pseudo terminal with a given number of columns and
 * prints what a user would have on the screen, from the first line on. Its exit code is the command's.
 *
 *     screen_of [-c COLUMNS] [-o RAW] [-w TEXT ACTION]... [--] COMMAND...
 *
 * -o: writes the received bytes to a file. -w: does an ACTION as soon as TEXT has been received (after the
 * TEXT of the -w before), or several in this order:
 *     -r COLUMNS  changes the width of the window
 *     -x COMMAND  runs it in a shell and reads nothing until it ends, like a connection that hangs
 *     -k KEYS     types them (\x03 is Ctrl-C, \x1b Escape)
 *     -h          closes the terminal
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define MAX_ACTIONS 16
#define MAX_COLUMNS 1024

typedef struct action {
    const char *when, *keys, *command;
    int columns;
    bool hangup;
} action;

static struct {
    int columns;
    char cell[MAX_COLUMNS][5]; /* the cursor's line, one cell for each character */
    int used, at;
    bool full; /* the last column is written: the next character begins a new line */
    char escape[64];
    int n_escape;
    char utf8[5];
    int n_utf8, want_utf8;
} screen = {.columns = 80};

static void put_line(void)
{
    for (int i = 0; i < screen.used; i++)
        fputs(screen.cell[i], stdout);
    putchar('\n');
    screen.used = 0;
    screen.full = false;
}

static void put_character(const char *text)
{
    if (screen.full) {
        put_line();
        screen.at = 0;
    }
    while (screen.used <= screen.at)
        strcpy(screen.cell[screen.used++], " ");
    snprintf(screen.cell[screen.at], sizeof screen.cell[0], "%s", text);
    if (screen.at + 1 >= screen.columns)
        screen.full = true;
    else
        screen.at++;
}

static void end_escape(void)
{
    char last = screen.escape[screen.n_escape - 1];
    if (last == 'K' || last == 'J')
        screen.used = screen.at < screen.used ? screen.at : screen.used;
    else if (last != 'm')
        printf("<escape %c>", last); /* sequences that the program should not send */
    screen.n_escape = 0;
}

static void show(unsigned char c)
{
    char one[2] = {(char)c, '\0'};
    if (screen.n_escape > 0) {
        if (screen.n_escape < 60)
            screen.escape[screen.n_escape++] = (char)c;
        if (screen.n_escape > 2 && c >= 0x40 && c <= 0x7e)
            end_escape();
    } else if (c == 0x1b) {
        screen.escape[screen.n_escape++] = (char)c;
    } else if (c == '\r') {
        screen.at = 0;
        screen.full = false;
    } else if (c == '\n') {
        put_line();
    } else if (screen.want_utf8 > 0) {
        screen.utf8[screen.n_utf8++] = (char)c;
        screen.utf8[screen.n_utf8] = '\0';
        if (--screen.want_utf8 == 0)
            put_character(screen.utf8);
    } else if (c >= 0xc0) {
        screen.want_utf8 = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        screen.utf8[0] = (char)c;
        screen.n_utf8 = 1;
    } else if (c >= 0x20) {
        put_character(one);
    } else {
        printf("<control %d>", c);
    }
}

static void resize(int fd, int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    screen.columns = columns;
    ioctl(fd, TIOCSWINSZ, &size);
}

/* Sends all bytes together: a key with several bytes begins with Escape, which alone is another key. */
static void type(int fd, const char *keys)
{
    char bytes[64];
    size_t n = 0;
    for (; *keys && n < sizeof bytes; keys++) {
        bytes[n] = *keys;
        if (strncmp(keys, "\\x03", 4) == 0 || strncmp(keys, "\\x1b", 4) == 0) {
            bytes[n] = keys[2] == '0' ? 3 : 27;
            keys += 3;
        }
        n++;
    }
    if (write(fd, bytes, n) != (ssize_t)n)
        perror("screen_of: typing");
}

/* False: the terminal is gone. */
static bool act(int fd, const action *a)
{
    if (a->columns)
        resize(fd, a->columns);
    if (a->command && system(a->command) != 0)
        printf("<it failed: %s>\n", a->command);
    if (a->keys)
        type(fd, a->keys);
    if (a->hangup)
        close(fd);
    return !a->hangup;
}

static void follow(int fd, const action *actions, int count, FILE *raw)
{
    static char seen[1 << 16];
    size_t n_seen = 0;
    int next = 0;
    char bytes[4096];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        if (raw)
            fwrite(bytes, 1, (size_t)n, raw);
        for (ssize_t i = 0; i < n; i++)
            show((unsigned char)bytes[i]);
        if (next == count)
            continue;
        if (n_seen + (size_t)n >= sizeof seen)
            n_seen = 0;
        memcpy(seen + n_seen, bytes, (size_t)n);
        n_seen += (size_t)n;
        seen[n_seen] = '\0';
        for (; next < count && memmem(seen, n_seen, actions[next].when, strlen(actions[next].when)); next++) {
            n_seen = 0;
            if (!act(fd, &actions[next]))
                return;
        }
    }
    close(fd);
}

int main(int argc, char **argv)
{
    action actions[MAX_ACTIONS];
    int count = 0, option, master;
    FILE *raw = NULL;
    memset(actions, 0, sizeof actions);
    while ((option = getopt(argc, argv, "+c:o:w:k:r:x:h")) != -1) {
        action *a = count > 0 ? &actions[count - 1] : NULL;
        if (option == 'c')
            screen.columns = atoi(optarg);
        else if (option == 'o')
            raw = fopen(optarg, "wb");
        else if (option == 'w' && count < MAX_ACTIONS)
            actions[count++].when = optarg;
        else if (option == 'k' && a)
            a->keys = optarg;
        else if (option == 'r' && a)
            a->columns = atoi(optarg);
        else if (option == 'x' && a)
            a->command = optarg;
        else if (option == 'h' && a)
            a->hangup = true;
        else
            return 99;
    }
    if (optind >= argc || screen.columns < 1 || screen.columns > MAX_COLUMNS)
        return 99;
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)screen.columns};
    pid_t child = forkpty(&master, NULL, NULL, &size);
    if (child < 0) {
        perror("screen_of: a pseudo terminal");
        return 77;
    }
    if (child == 0) {
        signal(SIGINT, SIG_DFL); /* a script's background jobs ignore it */
        signal(SIGHUP, SIG_DFL);
        execvp(argv[optind], argv + optind);
        perror(argv[optind]);
        _exit(127);
    }
    fcntl(master, F_SETFD, FD_CLOEXEC);
    follow(master, actions, count, raw);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (screen.used > 0)
        put_line();
    if (raw)
        fclose(raw);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
