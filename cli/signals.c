/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals: SIGTERM, SIGINT and SIGUSR2 ask a training run to finish its step and save; a second SIGINT ends
 * the process at once. A thread of our own takes them, and every other thread blocks them: compilers inside
 * drivers (LLVM) put handlers of their own in place of ours while they work, which end the process when a
 * second signal comes at the wrong moment. Knows nothing of who reads the flag. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "engine/base/thread.h"

static const int taken[] = {SIGTERM, SIGINT, SIGUSR2};

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

static void install_handlers(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaction(taken[i], &action, NULL);
}

static void *take_signals(void *context)
{
    const sigset_t *set = context;
    int number;
    for (;;)
        if (sigwait(set, &number) == 0)
            on_signal(number);
    return NULL;
}

void cmd_signals_install(cmd_signals_kind kind)
{
    static sigset_t set;
    static clt_thread *thread;
    atomic_store(&stops_gracefully, kind == CMD_SIGNALS_STOP);
    install_handlers(); /* for when there can be no thread */
    if (kind == CMD_SIGNALS_STOP) {
        /* A reader that goes away ("| head") must not end a training run. */
        (void)signal(SIGPIPE, SIG_IGN);
        /* A file-size limit shows itself as a failed write (code 8), not as a killed process. */
        (void)signal(SIGXFSZ, SIG_IGN);
    }
    if (kind == CMD_SIGNALS_CHILD)
        return;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    if (clt_thread_start(&thread, "signals", take_signals, &set) == CLT_OK)
        pthread_sigmask(SIG_BLOCK, &set, NULL);
    else
        clt_error_clear();
}
