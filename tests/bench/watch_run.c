/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command and measures it from outside, in the same way for every side of a benchmark: time until a
 * line of its output begins with a word, wall time, CPU time, peak resident set. It must not know what it
 * runs. Output is passed through unchanged; the exit code is the command's.
 *
 * usage: watch_run REPORT WORD COMMAND... -> REPORT has lines "first_s", "wall_s", "cpu_s", "peak_rss_mib" */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Copies the command's output line by line; -1: no line began with the word. */
static double copy_output(FILE *from, const char *word, double start)
{
    char *line = NULL;
    size_t size = 0;
    double first = -1.0;
    ssize_t length;
    while ((length = getline(&line, &size, from)) > 0) {
        if (first < 0 && strncmp(line, word, strlen(word)) == 0)
            first = now() - start;
        fwrite(line, 1, (size_t)length, stdout);
    }
    free(line);
    fflush(stdout);
    return first;
}

int main(int argc, char **argv)
{
    int ends[2], state;
    struct rusage use;
    if (argc < 4 || pipe(ends) != 0) {
        fprintf(stderr, "usage: watch_run REPORT WORD COMMAND...\n");
        return 2;
    }
    double start = now();
    pid_t child = fork();
    if (child < 0)
        return 2;
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    double first = from ? copy_output(from, argv[2], start) : -1.0;
    if (wait4(child, &state, 0, &use) < 0)
        return 2;
    double wall = now() - start;
    FILE *report = fopen(argv[1], "w");
    if (!report)
        return 2;
    fprintf(report, "first_s %.3f\nwall_s %.3f\ncpu_s %.3f\npeak_rss_mib %.1f\n", first, wall,
            (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec),
            (double)use.ru_maxrss / 1024.0);
    fclose(report);
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}
