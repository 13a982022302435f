/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: SIGTERM, SIGINT and SIGUSR2 ask a training run to finish its step and save; a second SIGINT ends
 * the process at once. Knows nothing of who reads the flag. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"

static atomic_int stop_requested;
static atomic_int interrupts;
static atomic_bool stops_gracefully;

const atomic_int *cmd_stop_flag(void)
{
    return &stop_requested;
}

static void on_signal(int number)
{
    bool again = number == SIGINT && atomic_fetch_add(&interrupts, 1) > 0;
    if (again || !atomic_load(&stops_gracefully))
        _exit(128 + number);
    atomic_store(&stop_requested, number);
}

void cmd_signals_install(bool graceful)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    atomic_store(&stops_gracefully, graceful);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    if (!graceful)
        return;
    /* A reader that goes away ("| head") must not end a training run. */
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    /* A file-size limit shows itself as a failed write (code 8), not as a killed process. */
    sigaction(SIGXFSZ, &action, NULL);
}
