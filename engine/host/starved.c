/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads schedstat of the threads of processes. A file that is gone or unreadable counts as no waiting. */
#include "engine/host/starved.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double starved_thread(const char *path)
{
    unsigned long long ran, waited; /* nanoseconds */
    FILE *file = fopen(path, "re");
    bool known = file && fscanf(file, "%llu %llu", &ran, &waited) == 2;
    if (file)
        (void)fclose(file);
    return known ? (double)waited * 1e-9 : 0.0;
}

double clt_process_starved(pid_t process)
{
    char path[64];
    double sum = 0.0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)process);
    DIR *threads = opendir(path);
    for (struct dirent *thread; threads && (thread = readdir(threads)) != NULL;) {
        char file[sizeof path + sizeof thread->d_name + 16];
        snprintf(file, sizeof file, "%s/%s/schedstat", path, thread->d_name);
        sum += thread->d_name[0] != '.' ? starved_thread(file) : 0.0;
    }
    if (threads)
        (void)closedir(threads);
    return sum;
}

/* The process group in /proc/PID/stat: "PID (NAME) STATE PARENT GROUP ..."; NAME may hold anything. */
static bool in_group(const char *process, pid_t leader)
{
    char path[300], text[512];
    int group = -1;
    snprintf(path, sizeof path, "/proc/%s/stat", process);
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        (void)fclose(file);
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end && sscanf(end + 1, " %*c %*d %d", &group) == 1 && group == (int)leader;
}

double clt_group_starved(pid_t leader)
{
    double sum = 0.0;
    DIR *processes = opendir("/proc");
    for (struct dirent *entry; processes && (entry = readdir(processes)) != NULL;) {
        pid_t process = (pid_t)atoi(entry->d_name);
        if (process > 0 && process != leader && in_group(entry->d_name, leader))
            sum += clt_process_starved(process);
    }
    if (processes)
        (void)closedir(processes);
    return sum;
}
